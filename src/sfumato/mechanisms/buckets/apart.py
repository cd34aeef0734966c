"""Buckets for several sensitive columns, dealt apart: every column has buckets of its own.

The deals are independent, so each column's buckets are as small as its own ceilings allow, and its
values are told as well as if it were published alone. The promise about a column holds for who sees
that column; who also knows how the columns hang together concludes from one to another (see
`operators.told_apart`), which shared buckets rule out (`shared`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.columns import bucket_column, listing_file
from sfumato.draws import Draws, IntArray
from sfumato.guarantees.base import Guarantee
from sfumato.mechanisms.buckets.filling import places
from sfumato.mechanisms.buckets.plan import BucketedPlan
from sfumato.mechanisms.protocol import Batch, Published, RecordPlan
from sfumato.operators.told_apart import Apart, told_apart
from sfumato.profile import Histogram, Kinds

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.mechanisms.buckets.association import Records

MOST_PLACES = 1 << 20  # ways to stand in buckets of all columns that are looked at in planning


@dataclass(frozen=True, eq=False)
class ApartPlan(RecordPlan):
    """A plan for every column, made with draws of its own.

    `kinds` are the combinations that people have, where the engine counts them: they decide what
    all columns tell together, never who goes where.
    """

    plans: tuple[BucketedPlan, ...]
    kinds: Kinds | None = None

    kind: ClassVar[str] = "bucketed-apart"
    needs_rank: ClassVar[bool] = True

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(plan.histogram.column for plan in self.plans)

    # -- records -------------------------------------------------------------------------------

    def apply(self, batch: Batch, draws: Draws) -> Published:
        own = {
            bucket_column(name): plan.bucket_of(batch.codes[name], batch.ranks[name])
            for name, plan in zip(self.columns, self.plans, strict=True)
        }
        return Published({}, own)

    def side_tables(self, records: Records) -> Mapping[str, Iterator[pa.Table]]:
        tables = [plan.side_tables(records)["sensitive"] for plan in self.plans]
        return {listing_file(place): table for place, table in enumerate(tables)}

    def public(self) -> dict[str, Any]:
        return {
            "columns": {n: plan.public() for n, plan in zip(self.columns, self.plans, strict=True)}
        }

    def of(self, column: str) -> BucketedPlan:
        """The plan of one column."""
        return self.plans[self.columns.index(column)]

    def statement(self, guarantee: Guarantee, histogram: Histogram) -> str:
        return self.of(histogram.column).statement(guarantee, histogram)

    def caveats(self) -> list[str]:
        return [sentence for plan in self.plans for sentence in plan.caveats()]

    def listed(self) -> list[IntArray]:
        """By column, how often every bucket lists every value, by (bucket, value)."""
        return [_listed(plan) for plan in self.plans]

    # -- what it tells, and what it is worth ---------------------------------------------------

    @property
    def narrower(self) -> str:
        if self._holds_together:
            return ""
        return "whoever sees the buckets of several columns and knows how the columns hang together"

    @cached_property
    def _holds_together(self) -> bool:
        """Whether no way to stand in buckets of all columns takes a value beyond its ceiling; False
        where there are too many ways to look at, or combinations were not counted."""
        if self.kinds is None:
            return False
        # buckets with equal lists tell the same
        listed = [np.unique(each, axis=0) for each in self.listed()]
        numbers = [len(each) for each in listed]
        if int(np.prod(numbers, dtype=object)) > MOST_PLACES:
            return False
        totals = [plan.histogram.counts for plan in self.plans]
        apart = Apart(self.kinds.held[:, 0], self.kinds.counts, listed, totals)
        at = np.array(list(product(*map(range, numbers))), np.int64)
        return not any(
            told_apart(apart, at, place, plan.limits.ceilings).beyond.any()
            for place, plan in enumerate(self.plans)
        )

    def predicted_error(self) -> float:
        """That of the column which is told worst."""
        return max(plan.predicted_error() for plan in self.plans)

    def check(self) -> None:
        """Every column's buckets within its ceilings, exactly; columns dealt apart."""
        for plan in self.plans:
            plan.check()


def _listed(plan: BucketedPlan) -> IntArray:
    values = len(plan.histogram.values)
    found = np.zeros((plan.buckets, values), np.int64)
    for first, kinds in plan.contents():
        held = np.repeat(places(kinds), kinds.times, axis=0).astype(np.int64)
        rows = np.repeat(np.arange(first, first + len(held)), held.shape[1])
        np.add.at(found, (rows, held.reshape(-1)), 1)
    return found
