"""What a guarantee allows of each value, exactly for checking and coarsely for planning.

A plan is published, so it must not betray what it was made from. Limits that follow from shares
(theta) are rounded down, which is the safe side, and objectives look at rounded counts: an
operator then tells roughly how common each value is, and hardly ever what one record was.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.fine_rho import FineRhoPrivacy
from sfumato.guarantees.rho import RhoPrivacy
from sfumato.operators.base import FloatArray
from sfumato.profile import Histogram

LIMIT_BITS = 6  # significant binary digits of γ − 1 that planning sees where it follows from shares
COUNT_BITS = 4  # and of counts in objectives


def limits_of(guarantee: Guarantee, histogram: Histogram) -> list[Fraction | None]:
    """How much the guarantee lets each value's odds rise; None where it promises nothing."""
    if isinstance(guarantee, RhoPrivacy):
        uncovered = set(guarantee.uncovered(histogram))
        return [
            None if code in uncovered else guarantee.gamma for code in range(len(histogram.values))
        ]
    assert isinstance(guarantee, FineRhoPrivacy)
    return guarantee.gammas(histogram)


def planning_limits(guarantee: Guarantee, histogram: Histogram) -> list[Fraction | None]:
    """The limits that a plan is made with: at most the exact ones."""
    exact = limits_of(guarantee, histogram)
    if not isinstance(guarantee, FineRhoPrivacy) or guarantee.theta is None:
        return exact
    return [None if gamma is None else 1 + round_down(gamma - 1, LIMIT_BITS) for gamma in exact]


def round_down(number: Fraction, bits: int) -> Fraction:
    """The largest number with that many significant binary digits that is at most `number` > 0.

    >>> round_down(Fraction(28, 5), 4), round_down(Fraction(1, 3), 2)
    (Fraction(11, 2), Fraction(1, 4))
    """
    above, below = number.numerator, number.denominator
    shift = bits + below.bit_length() - above.bit_length()  # one too many digits, or as many
    digits = _shifted(above, shift) // _shifted(below, -shift)
    if digits >> bits:
        digits, shift = digits >> 1, shift - 1
    return Fraction(digits << max(-shift, 0), 1 << max(shift, 0))


def _shifted(number: int, by: int) -> int:
    return number << by if by > 0 else number


def planning_counts(histogram: Histogram) -> FloatArray:
    """Counts rounded to a few significant binary digits; 0 stays 0.

    >>> planning_counts(Histogram("s", ("a", "b", "c"), np.array([1001, 5, 0]))).tolist()
    [1024.0, 5.0, 0.0]
    """
    counts = histogram.counts.astype(np.float64)
    step = 2.0 ** (np.floor(np.log2(np.maximum(counts, 1))) + 1 - COUNT_BITS)
    return np.asarray(np.round(counts / step) * step)


def objective_weights(guarantee: Guarantee, histogram: Histogram) -> FloatArray:
    """What keeping a record of each value is worth: the stated weights, else the shares."""
    rough = planning_counts(histogram) / max(histogram.rows, 1)
    if isinstance(guarantee, FineRhoPrivacy) and guarantee.limits is not None:
        rows = guarantee.limits.for_values(histogram.values)
        stated = [None if row is None else row.weight for row in rows]
        return np.array(
            [
                share if weight is None else float(weight)
                for share, weight in zip(rough, stated, strict=True)
            ]
        )
    return rough
