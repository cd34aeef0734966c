"""Before publishing under l-diversity or beta-likeness: what the data allow, and at which cost."""

from __future__ import annotations

import math
from fractions import Fraction

from sfumato.guarantees import BetaLikeness, Guarantee, LDiversity
from sfumato.mechanisms import Plan
from sfumato.mechanisms.heterogeneous.buckets import Layers, attained_beta
from sfumato.mechanisms.heterogeneous.diversity import diversity_layers
from sfumato.mechanisms.heterogeneous.likeness import likeness_layers
from sfumato.profile import Histogram, Profile
from sfumato.release import GeneralizedRelease
from sfumato.results import Cell, ResultTable

DIVERSITIES = (2, 3, 5, 8, 10, 15, 20, 30)
LIKENESSES = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(3), Fraction(5), Fraction(10))
_MOST_CELLS = 1 << 16  # matches times values: with more, filling buckets takes too long for that
_MOST_ROWS = 2_000_000  # larger tables have too many bucket sizes to try for a description


def describe_generalized(
    profile: Profile, guarantee: Guarantee, plan: Plan
) -> tuple[list[ResultTable], list[str]]:
    """For ranges and sets: which l and beta this histogram allows."""
    if plan.kind != GeneralizedRelease.kind or not isinstance(guarantee, LDiversity | BetaLikeness):
        return [], []
    return [allowed(histogram) for histogram in profile.histograms.values()], []


def allowed(histogram: Histogram) -> ResultTable:
    """The matches per record, for each l and beta that can be kept.

    >>> import numpy as np
    >>> table = allowed(Histogram("disease", tuple("abcd"), np.array([6, 6, 6, 6])))
    >>> [row[:2] for row in table.rows][:3]
    [('l-diversity(2)', 2), ('l-diversity(3)', 3), ('l-diversity(4)', 4)]
    """
    present = histogram.counts[histogram.counts > 0]
    most = histogram.rows // int(present.max()) if len(present) else 0
    rows = [
        _row(LDiversity(number), diversity_layers(histogram.counts, number))
        for number in sorted({n for n in (*DIVERSITIES, most) if 2 <= n <= most})
    ]
    if len(present) > 1 and histogram.rows <= _MOST_ROWS:
        rows += [
            _row(
                BetaLikeness(beta),
                likeness_layers(histogram.counts, BetaLikeness(beta).ceilings(histogram)),
            )
            for beta in LIKENESSES
            if _matches(histogram, beta) * len(present) <= _MOST_CELLS
        ]
    return ResultTable(
        "Allowed",
        f"what column {histogram.column} allows with heterogeneous generalization",
        ("guarantee", "matches per record", "at most", "attained beta"),
        rows,
        note=f"The largest l is {most}: the commonest value has {int(present.max()):,} of "
        f"{histogram.rows:,} records. Any beta above 0 can be kept; more matches make ranges "
        "wider; betas that need very many are not listed."
        if len(present)
        else "",
    )


def _matches(histogram: Histogram, beta: Fraction) -> int:
    """How many matches the rarest value needs at least."""
    rarest = int(histogram.counts[histogram.counts > 0].min())
    return math.ceil(histogram.rows / (rarest * (1 + beta)))


def _row(guarantee: Guarantee, layers: Layers) -> tuple[Cell, ...]:
    numbers = [layer.number for layer in layers]
    return str(guarantee), min(numbers), max(numbers), float(attained_beta(layers))
