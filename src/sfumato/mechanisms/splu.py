"""SPLU-Gen (the SPLU paper, Section 3): publish a value of a hidden group of different values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.columns import list_some, value_text
from sfumato.draws import BoolArray, Draws, IntArray, Permutation
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.small_sum import SmallSum
from sfumato.mechanisms.mixed import Mixed
from sfumato.mechanisms.perturbed import relative_error
from sfumato.mechanisms.protocol import Batch, Mechanism, Published, RecordPlan
from sfumato.operators import Decoy
from sfumato.operators.decoy import NEAR
from sfumato.profile import Histogram, Profile
from sfumato.public import PublicPlan, from_stated


@dataclass(frozen=True, eq=False)
class DecoyGroups:
    """The groups of one sensitive column.

    A record's slot is a keyed permutation of its rank among the records with its value; slots
    0 … grouped[x]−1 stand in groups, the others (fewer than c over all values) are *spare*.
    """

    column: str
    size: int  # c
    counts: IntArray  # all records by value
    grouped: IntArray  # records by value that stand in groups
    groups: Mixed
    slots: Permutation

    def draw(
        self, values: IntArray, ranks: IntArray, chosen: IntArray
    ) -> tuple[IntArray, BoolArray | None]:
        """What records publish that choose the `chosen` value of their group; which are not spare.

        A spare record borrows a group that holds its value; where none does, it stands in for a
        record with some other value. Either way it has c different values to choose from, its own
        among them. None instead of a mask means that no record is spare.
        """
        slots = self.slots(values, ranks)
        grouped = slots < self.grouped[values]
        if grouped.all():
            return self.groups.mates(values, slots, chosen), None
        hosts, lost = values.copy(), self.grouped[values] == 0
        hosts[lost] = np.argmax(self.grouped)
        slots = np.where(grouped, slots, slots % self.grouped[hosts])
        drawn = self.groups.mates(hosts, slots, chosen)
        np.copyto(drawn, values, where=lost & (drawn == hosts))
        return drawn, grouped

    def check(self) -> None:
        self.groups.check()
        spare = self.counts - self.grouped
        assert bool((spare >= 0).all()), (self.column, spare)
        assert int(spare.sum()) == int(self.counts.sum()) % self.size, (self.column, spare)


@dataclass(frozen=True, eq=False)
class DecoyPlan(RecordPlan):
    """Groups per sensitive column, independent of one another.

    N is made a multiple of c by withholding N mod c records, every such set equally likely: the
    spare records of the *first* sensitive column (how many of each value is a hypergeometric
    draw, which of them the permutation of ranks decides). The plan sees the columns' counts
    apart, so it cannot know the withheld records' values of a further column; there other records
    are spare, and are published from a borrowed group. So in every column every published record
    draws from c different values, its own among them; only the law of the published counts,
    Binomial(c·o, 1/c) in the first column, is off by at most 2(c−1) single draws in a further one.
    """

    columns: tuple[DecoyGroups, ...]
    histograms: Mapping[str, Histogram]
    withheld: int = 0

    kind: ClassVar[str] = "perturbed"
    needs_rank: ClassVar[bool] = True

    def apply(self, batch: Batch, draws: Draws) -> Published:
        keep: BoolArray | None = None
        codes = {}
        for number, column in enumerate(self.columns):
            name = column.column
            purpose, address = f"decoy {name}", batch.addresses[name]
            halves = draws.words(purpose, address) >> np.uint64(32)
            chosen = draws.below_small(purpose, address, halves, column.size)
            codes[name], is_kept = column.draw(batch.codes[name], batch.ranks[name], chosen)
            if number == 0:
                keep = is_kept
        return Published(codes, keep=keep)

    def public(self) -> PublicPlan:
        columns = ((c.column, Decoy(len(c.counts), c.size)) for c in self.columns)
        return {"operators": from_stated({name: decoy.to_json() for name, decoy in columns})}

    def notes(self) -> list[str]:
        """Values that stand in nearly every group: from hidden counts, so the manifest has none."""
        notes = []
        for column in self.columns:
            share = column.counts * column.size / max(int(column.counts.sum()), 1)
            values = self.histograms[column.column].values
            if named := [value_text(values[code]) for code in np.flatnonzero(share > NEAR)]:
                notes.append(
                    f"Column {column.column!r}: {list_some(named)} stand in nearly every group, so "
                    "counts of them within a condition will be very uncertain."
                )
        return notes

    def predicted_error(self) -> float:
        operators = (Decoy(len(c.counts), c.size).observed(c.counts) for c in self.columns)
        return max(
            relative_error(operator, np.array(operator.counts, np.float64))
            for operator in operators
        )

    def check(self) -> None:
        for column in self.columns:
            column.check()


@dataclass(frozen=True)
class DecoyValues(Mechanism):
    """Groups of c records with c different values; each publishes one of them, drawn uniformly.

    >>> counts = Histogram("s", tuple("abc"), np.array([2, 2, 3]))
    >>> plan = DecoyValues().plan(Profile(7, {"s": counts}), SmallSum(2), Draws.from_seed(1))
    >>> plan.withheld, plan.public()["operators"].value
    (1, {'s': {'form': 'decoy', 'values': 3, 'groups': 2}})
    """

    name: ClassVar[str] = "splu"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (SmallSum,)
    sentence: ClassVar[str] = (
        "Puts records with different values in groups and publishes one of their values each."
    )

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> DecoyPlan:
        assert isinstance(guarantee, SmallSum)
        columns = []
        for name, histogram in profile.histograms.items():
            guarantee.require_feasible(histogram)
            columns.append(self._groups(histogram, guarantee.size, draws.child(f"decoy {name}")))
        withheld = profile.rows % guarantee.size
        return DecoyPlan(tuple(columns), profile.histograms, withheld)

    def _groups(self, histogram: Histogram, size: int, draws: Draws) -> DecoyGroups:
        counts = histogram.counts
        # eligibility survives: no count exceeds ⌊N/c⌋, the number of groups (errata S11)
        spare = draws.hypergeometric("spare", counts, int(counts.sum()) % size)
        grouped = counts - spare
        groups = Mixed.groups(grouped, size, draws)
        permutation = draws.permutation("slots", counts)
        return DecoyGroups(histogram.column, size, counts, grouped, groups, permutation)
