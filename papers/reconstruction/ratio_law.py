"""Ratio disclosure: two differentially private counts tell how likely a value is.

Somebody's quasi values match x records, y of them with some sensitive value. Two answers with
Laplace noise of scale b, X = x + ξ and Y = y + ξ', keep ε-differential privacy with b = 2/ε, and
Y/X is close to y/x as soon as b/x is small (Reconstruction privacy, Section 2; F'-privacy,
Section 2.1). That is no flaw of differential privacy, which promises something else; it shows who
can be concluded about all the same.

E[Y/X] does not exist, because X has positive density at 0 (errata R10, F1): what is reported are
medians and quantiles, and the papers' formulas only as the approximations that they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from papers.laplace import laplace_noise
from sfumato.draws import Draws
from sfumato.errors import UsageError
from sfumato.mechanisms.reconstruction.tails import FloatArray

SENSITIVITY = 2  # two count queries about one record
_POINTS = 2001  # of the quadrature over ξ


def noise_scale(epsilon: float) -> float:
    """b = 2/ε: both answers together cost ε (errata F1)."""
    if not epsilon > 0:
        raise UsageError(f"'epsilon' must be above 0. Got {epsilon} instead.")
    return SENSITIVITY / epsilon


def indicator(scale: float, x: float) -> float:
    """2(b/x)², the paper's measure of how close Y/X is to y/x (Table 2): smaller is closer.

    >>> round(indicator(20, 500), 6), indicator(200, 100)
    (0.0032, 8.0)
    """
    return 2 * (scale / x) ** 2


def approximate_spread(scale: float, x: float, y: float) -> float:
    """√2·(b/x)·√(1+(y/x)²): the delta method's standard deviation of Y/X; good for b/x ≤ 1/20.

    >>> round(approximate_spread(20, 501, 420), 4)
    0.0737
    """
    return math.sqrt(2) * scale / x * math.sqrt(1 + (y / x) ** 2)


def ratio_quantiles(
    scale: float, x: float, y: float, levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)
) -> list[float]:
    """Quantiles of Y/X, from its distribution function by quadrature; good to about 1e-3.

    >>> [round(q, 2) for q in ratio_quantiles(20, 501, 420)]
    [0.72, 0.8, 0.84, 0.88, 0.97]
    """
    middle = (np.arange(_POINTS) + 0.5) / _POINTS
    denominator = x + scale * _laplace_quantile(middle)

    def below(r: float) -> float:  # Pr(Y/X ≤ r): the inequality turns where X is negative
        reach = _laplace_share((r * denominator - y) / scale)
        return float(np.where(denominator > 0, reach, 1 - reach).mean())

    return [_inverse(below, level, y / x, approximate_spread(scale, x, y)) for level in levels]


def _inverse(below: Any, level: float, start: float, step: float) -> float:
    low, high = start - step, start + step
    while below(low) > level:
        low -= 2 * (high - low)
    while below(high) < level:
        high += 2 * (high - low)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < level else (low, middle)
    return (low + high) / 2


def _laplace_share(t: FloatArray) -> FloatArray:
    tail = 0.5 * np.exp(-np.abs(t))
    return np.asarray(np.where(t < 0, tail, 1 - tail))


def _laplace_quantile(u: FloatArray) -> FloatArray:
    return np.asarray(-np.sign(u - 0.5) * np.log1p(-2 * np.abs(u - 0.5)))


def simulated_ratios(scale: float, x: float, y: float, trials: int, draws: Draws) -> FloatArray:
    """Y/X, drawn `trials` times."""
    noisy_x = x + laplace_noise(scale, trials, draws, "ratio x")
    return np.asarray((y + laplace_noise(scale, trials, draws, "ratio y")) / noisy_x)
