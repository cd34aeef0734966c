"""Before publishing under l-diversity or beta-likeness: what the data allow, and at which cost."""

from __future__ import annotations

from fractions import Fraction

from sfumato.guarantees import BetaLikeness, Guarantee, LDiversity
from sfumato.mechanisms import Plan
from sfumato.mechanisms.heterogeneous.buckets import diversity_buckets, likeness_buckets
from sfumato.pages.tables import Cell, ReportTable
from sfumato.profile import Histogram, Profile

DIVERSITIES = (2, 3, 5, 8, 10, 15, 20, 30)
LIKENESSES = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(3), Fraction(5), Fraction(10))
_MOST_ROWS = 2_000_000  # larger tables have too many bucket sizes to try for a description


def describe_generalized(
    profile: Profile, guarantee: Guarantee, plan: Plan
) -> tuple[list[ReportTable], list[str]]:
    """For l-diversity and beta-likeness: which l and beta this histogram allows."""
    if not isinstance(guarantee, LDiversity | BetaLikeness):
        return [], []
    return [allowed(histogram) for histogram in profile.histograms.values()], []


def allowed(histogram: Histogram) -> ReportTable:
    """The matches per record and the records withheld, for each l and beta that can be kept.

    >>> import numpy as np
    >>> table = allowed(Histogram("disease", tuple("abcd"), np.array([6, 6, 6, 6])))
    >>> [row[:3] for row in table.rows][:3]
    [('l-diversity(2)', 2, 0), ('l-diversity(3)', 3, 0), ('l-diversity(4)', 4, 0)]
    """
    present = histogram.counts[histogram.counts > 0]
    rows: list[tuple[Cell, ...]] = []
    most = histogram.rows // int(present.max()) if len(present) else 0
    for number in sorted({n for n in (*DIVERSITIES, most) if 2 <= n <= most}):
        buckets = diversity_buckets(histogram.counts, number)
        several = int((buckets.spread > 1).sum())
        rows.append(
            (
                str(LDiversity(number)),
                buckets.number,
                int(buckets.withheld.sum()),
                float(buckets.attained_beta()),
                several,
            )
        )
    for beta in LIKENESSES if len(present) > 1 and histogram.rows <= _MOST_ROWS else ():
        buckets = likeness_buckets(histogram.counts, beta)
        rows.append(
            (
                str(BetaLikeness(beta)),
                buckets.number,
                int(buckets.withheld.sum()),
                float(buckets.attained_beta()),
                0,
            )
        )
    return ReportTable(
        "Allowed",
        f"what column {histogram.column} allows with heterogeneous generalization",
        ("guarantee", "matches per record", "withheld", "attained beta", "values in two buckets"),
        rows,
        note=f"The largest l is {most}: the commonest value has {int(present.max()):,} of "
        f"{histogram.rows:,} records. Any beta above 0 can be kept; more matches make ranges wider."
        if len(present)
        else "",
    )
