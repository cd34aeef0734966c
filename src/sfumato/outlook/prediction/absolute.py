"""E|error| of counts so small that no normal law fits them."""

from __future__ import annotations

import math

import numpy as np

from sfumato.operators.absolute import expected_absolute
from sfumato.operators.base import FloatArray

SMOOTH = 9.0  # a count of this variance is as good as normal: its mean deviation to 1 %
_TAIL = 9  # standard deviations of a binomial that are summed


def lattice_absolute(
    scale: float,
    own: tuple[float, float],
    others: tuple[float, float],
    variance: float,
    bias: float = 0.0,
) -> float:
    """E|error| of an estimate whose noise is mostly scale·(X − E X), X a count.

    X is Bin(*own) + Bin(*others), the records that show what is asked for; `variance` is that of
    the whole estimate. Where X is large the estimate is as good as normal; where it is small, its
    law is summed up, and the noise beside it is taken as normal.

    >>> round(lattice_absolute(1.0, (4, 0.5), (0, 0.1), 1.0), 6)  # |Bin(4, 1/2) − 2|
    0.75
    """
    shown = sum(n * p * (1 - p) for n, p in (own, others))
    if shown > SMOOTH or shown <= 0 or variance <= 0:
        return float(expected_absolute(bias, variance))
    first, low = _binomial(*own)
    second, other_low = _binomial(*others)
    law = np.asarray(np.convolve(first, second), np.float64)
    mean = own[0] * own[1] + others[0] * others[1]
    away = np.asarray(np.arange(len(law)) + (low + other_low - mean), np.float64)
    rest = variance - scale**2 * shown
    if rest < 0:  # the count moves the rest of the estimate against itself
        scale, rest = math.sqrt(variance / shown), 0.0
    return float(law @ expected_absolute(bias + scale * away, rest))


def _binomial(n: float, p: float) -> tuple[FloatArray, int]:
    """The law of Bin(n, p), n rounded, where it is not negligible, and its first number."""
    from scipy.special import gammaln, xlog1py, xlogy

    number = max(round(n), 0)
    reach = _TAIL * math.sqrt(number * p * (1 - p)) + _TAIL
    low = max(int(number * p - reach), 0)
    k = np.arange(low, min(int(number * p + reach) + 1, number) + 1)
    logs = gammaln(number + 1) - gammaln(k + 1) - gammaln(number - k + 1)
    law = np.exp(logs + xlogy(k, p) + xlog1py(number - k, -p))
    return law / law.sum(), low
