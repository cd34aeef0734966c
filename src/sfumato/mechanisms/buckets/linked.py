"""Local buckets under ceilings so low that a reader who knows the links stays below 1/l.

How much that reader believes depends on who meets whom in a bucket, so it is measured: the people
are dealt by the plan, everybody's likeliest value is weighed over all ways to deal the buckets
(`operators.dealt`), and the inner ceilings 1/l' are lowered until few enough people are above. The
people who will be dealt in earnest meet others; the plan keeps room for that, four standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sfumato.draws import Draws, IntArray
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.l_diversity import LDiversity
from sfumato.guarantees.ladders import one_in
from sfumato.guarantees.linked_diversity import MODEL, LinkedDiversity
from sfumato.mechanisms.buckets.local import LocalBuckets
from sfumato.mechanisms.buckets.plan import BucketedPlan
from sfumato.mechanisms.protocol import Standing
from sfumato.operators.base import FloatArray
from sfumato.operators.dealt import Dealt
from sfumato.operators.links import Links, count_links
from sfumato.profile import Cells, Profile

MOST_PEOPLE = 5_000_000  # dealt in memory while planning
_ERRORS = 4  # standard errors of room: too many people above in one release of 30,000
_STEP = 1.5  # from one inner ceiling to the next


@dataclass(frozen=True, eq=False)
class Believed:
    """Everybody's bucket, and the largest chance of a value to the reader who knows the links."""

    bucket: IntArray
    largest: FloatArray

    def keeps(self, l: Fraction, share: Fraction, draws: int = 1) -> bool:  # noqa: E741
        """Whether few enough are above 1/l, with room for so many more draws of who meets whom."""
        above = self.largest > float(1 / l)
        together = np.bincount(self.bucket, above)  # those of one bucket come together
        room = draws * _ERRORS * math.sqrt(float((together**2).sum()))
        return int(above.sum()) + room <= allowed(share, len(above))

    def nearest(self, share: Fraction) -> Fraction:
        """The largest l, in hundredths, that these chances keep for a share; 0 where none."""
        ranks = np.linspace(float(share), 1.0, 100)
        for chance in np.quantile(self.largest, ranks):
            l = Fraction(math.floor(100 / float(chance)), 100)  # noqa: E741
            if l > 1 and self.keeps(l, share, draws=2):  # one when it is planned, one in earnest
                return l
        return Fraction(0)


@dataclass(frozen=True, eq=False)
class DealtPeople:
    """Everybody in the table: quasi codes, true values, and the records as the cuts see them."""

    codes: list[IntArray]
    truth: IntArray
    rule: Links
    records: pa.Table  # one row per cell
    cell: IntArray  # per person

    @classmethod
    def of(cls, cells: Cells, values: int) -> DealtPeople:
        by_cell = cells.quasi_codes()
        cell = np.repeat(np.arange(len(cells.counts)), cells.counts)
        records = pa.table(
            {
                column: pa.array(domain).take(pa.array(by_cell[column]))
                for column, domain in zip(cells.columns, cells.domains, strict=True)
            }
        )
        codes, truth = [by_cell[column][cell] for column in cells.columns], cells.values[cell]
        sizes = [len(domain) for domain in cells.domains]
        return cls(codes, truth, count_links(codes, sizes, truth, values), records, cell)

    def alone(self) -> FloatArray:
        """The largest chance of a value to whoever knows the links and no release."""
        step = max(1, (1 << 22) // self.rule.values)
        found = [
            np.exp(self.rule.log_chances(self.codes, rows)).max(axis=1)
            for rows in np.array_split(np.arange(len(self.truth)), len(self.truth) // step + 1)
        ]
        return np.concatenate(found)

    def dealt(self, plan: BucketedPlan, draws: Draws) -> Believed:
        """A bucket for everybody, as the plan deals, and the largest chance of a value there."""
        blocks = np.zeros(len(self.truth), np.int64)
        if plan.tree is not None:
            blocks = plan.tree.numbers(self.records)[self.cell]
        order = draws.order("dealt", len(self.truth))
        group = blocks * self.rule.values + self.truth
        sorted_people = order[np.argsort(group[order], kind="stable")]
        counts = np.bincount(group)
        rank = np.empty(len(order), np.int64)
        starts = np.cumsum(counts) - counts
        rank[sorted_people] = np.arange(len(order)) - np.repeat(starts, counts)
        _, bucket = np.unique(plan.bucket_in(blocks, self.truth, rank), return_inverse=True)
        listed, count = np.unique(bucket * self.rule.values + self.truth, return_counts=True)
        where, value = np.divmod(listed, self.rule.values)
        seen = Dealt(bucket, where, value, count, self.rule.values)
        pairs = seen.given(self.rule, self.codes).summed()
        return Believed(bucket, pairs.likeliest(len(bucket)))


@dataclass(frozen=True)
class LinkedBuckets(LocalBuckets):
    """Blocks as `local` cuts them, and inner ceilings that hold off who knows the links."""

    name: ClassVar[str] = "local-linked"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (LinkedDiversity,)
    sentence: ClassVar[str] = (
        "Shows records in local buckets whose ceilings are lowered until a reader who knows the "
        "links stays below the promised chance, for the promised share of people."
    )
    standing: ClassVar[Standing] = "offered"
    needs_cells: ClassVar[bool] = True

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> BucketedPlan:
        assert isinstance(guarantee, LinkedDiversity)
        (histogram,) = profile.histograms.values()
        guarantee.require_feasible(histogram)
        if profile.cells is None:
            raise UsageError(f"{self} looks at groups of people: count them first.")
        if self.fakes:
            raise UsageError(f"The mechanism {self.name} has no fakes: its readers are measured.")
        if histogram.rows > MOST_PEOPLE:
            raise UsageError(
                f"{self.name} deals people in memory while it plans: at most {MOST_PEOPLE:,}. "
                f"This table has {histogram.rows:,}."
            )
        people = DealtPeople.of(profile.cells, len(histogram.values))
        best = None
        for inner in _inner(guarantee.l, one_in(histogram, [])):
            plan = super().plan_column(profile, LDiversity(inner), draws.child(f"inner {inner}"))
            believed = people.dealt(plan, draws.child("measure"))
            if believed.keeps(guarantee.l, guarantee.share):
                return plan
            if best is None or believed.nearest(guarantee.share) > best.nearest(guarantee.share):
                best = believed
        raise _infeasible(guarantee, people, best)


def _inner(least: Fraction, most: int) -> Iterator[int]:
    """Whole l' from the promised one to the largest that the histogram allows."""
    inner = min(max(2, math.ceil(least)), most)
    while 2 <= inner <= most:
        yield inner
        inner = most if inner < most < inner * _STEP else max(inner + 1, int(inner * _STEP))


def _infeasible(
    guarantee: LinkedDiversity, people: DealtPeople, best: Believed | None
) -> InfeasibleGuarantee:
    """How many people the links alone put above 1/l, and what the best buckets would keep."""
    limit = float(1 / guarantee.l)
    above, everybody = int((people.alone() > limit).sum()), len(people.truth)
    nearest = Fraction(0) if best is None else best.nearest(guarantee.share)
    found = LinkedDiversity(nearest, guarantee.share) if nearest > 1 else None
    dealt = (
        "" if best is None else f", the best buckets found {int((best.largest > limit).sum()):,}"
    )
    return InfeasibleGuarantee(
        f"'{guarantee}' cannot be kept. To a reader who knows the links ({MODEL}) a value is above "
        f"1 in {float(guarantee.l):.4g} for {above:,} of {everybody:,} people with no release at "
        f"all{dealt}; {allowed(guarantee.share, everybody):,} are allowed. "
        + (f"The nearest: {found}." if found else "No l can be kept for that share."),
        witness=f"{above:,} people",
        nearest=None if found is None else str(found),
    )


def allowed(share: Fraction, people: int) -> int:
    """How many people may be above, exactly."""
    return math.floor((1 - share) * people)
