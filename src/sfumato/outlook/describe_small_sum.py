"""Before publishing decoys: what each group size hides and keeps, and the steward's two curves."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.guarantees import Guarantee, SmallSum
from sfumato.guarantees.small_sum import USUAL_ERROR, USUAL_PROBABILITY, USUAL_UP_TO
from sfumato.guarantees.small_sum_tails import (
    large_sum,
    small_sum_curve,
    small_sum_privacy,
    wrong_sums,
)
from sfumato.mechanisms import Plan
from sfumato.operators import Decoy
from sfumato.profile import Histogram, Profile
from sfumato.results import Cell, ResultTable

GROUP_SIZES = (2, 3, 4, 5, 6, 8, 10, 15, 20, 30)
LARGE_SUMS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_TENTH = Fraction(1, 10)


def describe_small_sum(
    profile: Profile, guarantee: Guarantee, plan: Plan
) -> tuple[list[ResultTable], list[str]]:
    """For small-sum privacy: the trade-off by group size, and the two curves of the chosen one."""
    if not isinstance(guarantee, SmallSum):
        return [], []
    error, up_to = guarantee.error or USUAL_ERROR, guarantee.up_to or USUAL_UP_TO
    tables = [trade_off(h, error, up_to, guarantee.size) for h in profile.histograms.values()]
    tables += [small_sums(guarantee.size, error), large_sums(guarantee.size)]
    return tables, [f"Groups of {guarantee.size} different values."]


def trade_off(
    histogram: Histogram, error: Fraction, up_to: int, chosen: int | None = None
) -> ResultTable:
    """Per group size that the histogram allows: what is hidden, what stays accurate, what it costs.

    The last column is the standard error, relative, of the commonest value's count within a
    condition that a tenth of the records satisfy.

    >>> even = Histogram("disease", tuple("abcdef"), np.full(6, 1000))
    >>> [row[0] for row in trade_off(even, Fraction(3, 10), 3).rows]
    [2, 3, 4, 5, 6]
    """
    most = histogram.rows // max(int(histogram.counts.max()), 1) if len(histogram.counts) else 0
    sizes = sorted({size for size in (*GROUP_SIZES, chosen or most, most) if 2 <= size <= most})
    rows: list[tuple[Cell, ...]] = [
        (
            size,
            float(small_sum_privacy(size, error, up_to)),
            large_sum(size, error, USUAL_PROBABILITY),
            large_sum(size, _TENTH, USUAL_PROBABILITY),
            _conditional_error(histogram, size),
        )
        for size in sizes
        if size <= max(GROUP_SIZES) or size == chosen
    ]
    wrong = f"{float(error):g}"
    return ResultTable(
        "Trade-off",
        f"groups of different values of {histogram.column}; at most {most:,}",
        (
            "groups",
            f"chance that a sum up to {up_to} is off by {wrong}",
            f"sums within {wrong} from",
            "sums within 0.1 from",
            "error within a tenth",
        ),
        rows,
        note=f"'From' sums are off by more with a chance of at most {float(USUAL_PROBABILITY):g}. "
        "The last column: relative standard error of the commonest value's count within a tenth "
        "of the records; – where nothing could be told.",
    )


def _conditional_error(histogram: Histogram, size: int) -> float | None:
    operator = Decoy(len(histogram.counts), size).observed(histogram.counts)
    common = int(np.argmax(histogram.counts))
    if common in operator.at_the_limit():
        return None
    within = histogram.counts / 10
    return float(np.sqrt(operator.variances(within)[common]) / within[common])


def small_sums(groups: int, error: Fraction = USUAL_ERROR, up_to: int = 15) -> ResultTable:
    """The first curve: the chance of a wrong small sum (the paper's Figure 5)."""
    return ResultTable(
        "Small sums",
        f"chance that a published sum is off by {float(error):g} or more, groups of {groups}",
        ("sum", "chance"),
        small_sum_curve(groups, error, up_to),
    )


def large_sums(groups: int, error: Fraction = _TENTH) -> ResultTable:
    """The second curve: the chance of a right large sum (Figure 4, corrected)."""
    tails = wrong_sums(LARGE_SUMS, groups, error)
    return ResultTable(
        "Large sums",
        f"chance that a published sum is within {float(error):g}, groups of {groups}",
        ("sum", "chance"),
        [(count, 1 - float(tail)) for count, tail in zip(LARGE_SUMS, tails, strict=True)],
    )
