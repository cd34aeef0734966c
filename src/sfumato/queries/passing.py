"""Where a curve that rises by jumps, and is known up to error bars, passes 0.

The answer are all thresholds at which it could do so, given its error bars (Woodruff 1952): no
shape is assumed. The curve rises, so its estimates are made to rise first, or every wiggle would be
one more place to pass 0. It passes 0 by a jump: at t if D(t) ≥ 0 and D before t ≤ 0, and where the
jump at t is wide beside the error bar, only one of the two can be in doubt, so that the bar may be
shorter (Imbens and Manski 2004).
"""

from __future__ import annotations

import numpy as np

from sfumato.operators.base import FloatArray


def made_to_rise(estimates: FloatArray) -> FloatArray:
    """The nearest curve that never falls.

    >>> made_to_rise(np.array([1.0, 3.0, 2.0])).tolist()
    [1.0, 2.5, 2.5]
    """
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(estimates).x)


def passing(
    rising: FloatArray,
    below: FloatArray,
    above: FloatArray,
    start: float,
    quantile: float,
    thresholds: FloatArray,
) -> tuple[float, float]:
    """The first and the last threshold at which D, `start` before the first, could pass 0.

    `below` and `above` are what the error bars of D reach down and up.
    """
    before = np.r_[start, rising[:-1]]
    error = np.maximum((below + above) / (2 * quantile), 1e-300)
    ratio = _critical((rising - before) / error, quantile) / quantile
    could = (rising + ratio * above >= 0) & (before - ratio * np.r_[0.0, below[:-1]] <= 0)
    places = np.flatnonzero(could)
    if not len(places):  # bars so short that D passes 0 between two thresholds
        return float(np.inf), float(-np.inf)
    return float(thresholds[places[0]]), float(thresholds[places[-1]])


def _critical(jump: FloatArray, quantile: float) -> FloatArray:
    """c with Φ(c + jump) − Φ(−c) = Φ(z) − Φ(−z): from z, where there is no jump, down to one side.

    >>> _critical(np.array([0.0, 1.0, 20.0]), 1.959964).round(3)
    array([1.96 , 1.681, 1.645])
    """
    from scipy.special import ndtr

    wanted = 2 * ndtr(quantile) - 1
    low, high = np.zeros(len(jump)), np.full(len(jump), quantile)
    for _ in range(30):
        middle = (low + high) / 2
        enough = ndtr(middle + jump) - ndtr(-middle) >= wanted
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high
