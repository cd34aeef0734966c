"""The normal law. SciPy's import takes longer than a question: few numbers do without it."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from sfumato.operators.base import FloatArray

FEW = 1 << 13  # numbers, one by one; SciPy is faster for more
_ERFC = np.frompyfunc(math.erfc, 1, 1)
_QUANTILE = np.frompyfunc(NormalDist().inv_cdf, 1, 1)
_FAR = -30.0  # below it the tail is its asymptotic series


def expit(odds: FloatArray) -> FloatArray:
    """The chance with these log odds.

    >>> expit(np.array([0.0, 40.0])).round(3).tolist()
    [0.5, 1.0]
    """
    return np.asarray(1 / (1 + np.exp(-odds)))


def ndtr(z: npt.ArrayLike) -> FloatArray:
    """Φ(z).

    >>> ndtr(np.array([-1.959964, 0.0, np.nan])).round(4).tolist()
    [0.025, 0.5, nan]
    """
    z = np.asarray(z, np.float64)
    if z.size > FEW:
        from scipy.special import ndtr as many

        return np.asarray(many(z))
    with np.errstate(invalid="ignore"):
        return np.asarray(_ERFC(z * -math.sqrt(0.5)), np.float64) / 2


def ndtri(chance: FloatArray) -> FloatArray:
    """Φ⁻¹ of chances between 0 and 1.

    >>> ndtri(np.array([0.025, 0.5, 1e-300])).round(4).tolist()
    [-1.96, 0.0, -37.0471]
    """
    if chance.size > FEW:
        from scipy.special import ndtri as many

        return np.asarray(many(chance))
    with np.errstate(invalid="ignore"):
        return np.asarray(_QUANTILE(chance), np.float64)


@cache
def shared_error(error: float, furthest: float, nodes: int) -> tuple[FloatArray, FloatArray]:
    """Log odds from −`furthest` up to it, and the quantiles of the shares of an error that they
    are."""
    odds = np.linspace(-furthest, furthest, nodes)
    return odds, ndtri(error * expit(odds))


def hazard(z: FloatArray) -> FloatArray:
    """φ(z) / Φ(z), also where both are nearly 0.

    >>> hazard(np.array([0.0, -40.0])).round(3).tolist()
    [0.798, 40.025]
    """
    near = np.maximum(z, _FAR)
    square = np.minimum(z, _FAR) ** -2.0
    series = 1 - square + 3 * square**2 - 15 * square**3 + 105 * square**4
    tail = -np.minimum(z, _FAR) / series
    found = np.exp(-near * near / 2) / (math.sqrt(2 * math.pi) * ndtr(near))
    return np.asarray(np.where(z < _FAR, tail, found))
