"""Partitioned perturbation: sub-tables with few values, each perturbed by itself (Chapter 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from sfumato.draws import Draws, IntArray, Permutation
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.rho import SHARES_READER, RhoPrivacy
from sfumato.guarantees.words import SHARES_ONLY, Reader
from sfumato.mechanisms.partitioning.balance import balanced_groups, neighbours_first
from sfumato.mechanisms.partitioning.coupling import posterior_odds
from sfumato.mechanisms.partitioning.merge import best_merging
from sfumato.mechanisms.partitioning.part import ROUNDING, perturbed_parts
from sfumato.mechanisms.perturbed import within
from sfumato.mechanisms.protocol import Batch, Mechanism, Published, RecordPlan
from sfumato.operators import Parts
from sfumato.profile import Histogram, Profile
from sfumato.public import PublicPlan, fitted, from_stated


@dataclass(frozen=True, eq=False)
class SubTables:
    """How one sensitive column is cut: counts by (part, value), operators, and their limits.

    `limits` hold, for every symbol (part, value), how much its odds may rise within the part: by
    its own record or, where the promise is `coupled`, by all records of the part.
    """

    histogram: Histogram
    quotas: IntArray
    operator: Parts
    limits: Sequence[Fraction | None]
    coupled: bool = False

    @property
    def symbol_counts(self) -> IntArray:
        return self.quotas[self.operator.symbol_parts, self.operator.symbol_codes]

    @cached_property
    def _line(self) -> tuple[IntArray, IntArray, IntArray]:
        """All values' slots end to end, a line of N places that the quotas cut into symbols: where
        each value starts, where each cut ends, and the symbol of each cut."""
        order = np.lexsort((self.operator.symbol_parts, self.operator.symbol_codes))
        counts = self.histogram.counts
        return np.cumsum(counts) - counts, np.cumsum(self.symbol_counts[order]), order

    def symbols_of_slots(self, codes: IntArray, slots: IntArray) -> IntArray:
        """The symbol of every (value, slot): value x fills parts 0, 1, … by its quotas."""
        starts, ends, symbols = self._line
        return symbols[np.searchsorted(ends, starts[codes] + slots, side="right")]

    def rises(self) -> list[Fraction | None]:
        """By how much the odds of every symbol rise, as `limits` count it."""
        if not self.coupled:
            return list(self.operator.odds_gains())
        gains = list[Fraction | None]()
        for quota, part in zip(self.quotas, self.operator.parts, strict=True):
            counts = quota[list(part.codes)]
            odds = posterior_odds(counts, part.operator.retentions, self.operator.values)
            with np.errstate(invalid="ignore"):
                rises = odds * (counts.sum() - counts) / counts
            # the bound is of floats: half the margin that planning leaves covers what they lose
            margin = 1 + Fraction(ROUNDING - 1) / 2
            gains += [
                Fraction(rise) * margin if math.isfinite(rise) else None for rise in rises.tolist()
            ]
        return gains

    def total_variance(self) -> float:
        """Σ_x Var(n̂_x): the parts are independent, so their variances add up."""
        return float(self.operator.variances(self.symbol_counts.astype(np.float64)).sum())


@dataclass(frozen=True, eq=False)
class PartitionedPlan(RecordPlan):
    """Exact quotas of every value in every part; the keyed slot of a record decides its part."""

    columns: Mapping[str, SubTables]
    _slots: dict[str, tuple[Draws, Permutation]] = field(default_factory=dict, repr=False)

    kind: ClassVar[str] = "perturbed"
    needs_rank: ClassVar[bool] = True

    def part_column(self, column: str) -> str:
        """Where the records show their part: `part`, or `part_<column>` if there are several."""
        return "part" if len(self.columns) == 1 else f"part_{column}"

    def apply(self, batch: Batch, draws: Draws) -> Published:
        codes, extra = {}, {}
        for column, cut in self.columns.items():
            symbols = self._symbols(column, cut, batch, draws)
            published = cut.operator.apply(
                symbols, f"perturb {column}", batch.addresses[column], draws
            )
            codes[column] = cut.operator.symbol_codes[published]
            extra[self.part_column(column)] = cut.operator.symbol_parts[published]
        return Published(codes, extra)

    def _symbols(self, column: str, cut: SubTables, batch: Batch, draws: Draws) -> IntArray:
        owner, permutation = self._slots.get(column, (None, None))
        if permutation is None or owner is not draws:  # made once per run, not per batch
            permutation = draws.permutation(f"parts {column}", cut.histogram.counts)
            self._slots[column] = (draws, permutation)
        codes = batch.codes[column]
        return cut.symbols_of_slots(codes, permutation(codes, batch.ranks[column]))

    def public(self) -> PublicPlan:
        return {
            "operators": fitted({c: cut.operator.to_json() for c, cut in self.columns.items()}),
            "part_columns": from_stated({c: self.part_column(c) for c in self.columns}),
        }

    def predicted_error(self) -> float:
        return max(
            math.sqrt(len(cut.histogram.values) * cut.total_variance()) / max(cut.histogram.rows, 1)
            for cut in self.columns.values()
        )

    def check(self) -> None:
        for column, cut in self.columns.items():
            assert bool((cut.quotas >= 0).all()), column
            assert bool((cut.quotas.sum(axis=0) == cut.histogram.counts).all()), column
            assert bool((cut.symbol_counts > 0).all()), column
            for symbol, (gain, limit) in enumerate(zip(cut.rises(), cut.limits, strict=True)):
                assert within(gain, limit), (column, symbol, gain, limit)


@dataclass(frozen=True)
class PartitionedPerturbation(Mechanism):
    """Split the table into sub-tables with few values and perturb each in its own domain.

    Every sub-table i keeps (ρ₁ᵢ, ρ₂) with ρ₁ᵢ the largest share of a covered value in it
    (Equations 8 and 9), so the promise is for readers who know the shares: `publish` says
    `reader=shares` and holds its sub-tables to what all their records tell together
    (`partitioning.coupling`). A promise without that is planned as in the thesis, from a
    person's own record alone.

    >>> example = Histogram("s", tuple("abcdefghij"), np.array([12, 8, 6, 5, 4, 3, 1, 1, 1, 1]))
    >>> plan = PartitionedPerturbation().plan(
    ...     Profile(42, {"s": example}), RhoPrivacy("1/3", "2/3"), Draws.from_seed(1))
    >>> [part.codes for part in plan.columns["s"].operator.parts]
    [(0, 1, 2, 3, 4, 5), (3, 5, 6, 7, 8, 9)]
    """

    name: ClassVar[str] = "partitioned"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (RhoPrivacy,)
    sentence: ClassVar[str] = (
        "Splits the table into parts with few values each and perturbs inside a part."
    )
    holds_against: ClassVar[Reader | None] = SHARES_ONLY

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> PartitionedPlan:
        assert isinstance(guarantee, RhoPrivacy)
        columns = {}
        for column, histogram in profile.histograms.items():
            guarantee.require_feasible(histogram)
            columns[column] = cut_table(histogram, guarantee)
        return PartitionedPlan(columns)


def cut_table(histogram: Histogram, guarantee: RhoPrivacy) -> SubTables:
    """Balance, arrange, merge; then an operator for every sub-table.

    A promise to readers of whole sub-tables also tries no cut: what cuts cost is known only when
    their operators are.
    """
    protected = np.ones(len(histogram.values), np.bool_)
    protected[guarantee.left_out(histogram)] = False
    coupled = guarantee.reader == SHARES_READER
    groups = balanced_groups(histogram.counts, protected)
    orders = [range(len(groups)), neighbours_first(groups)]
    best = best_merging(groups, protected, guarantee.rho2, orders, coupled=coupled)

    def filled(parts: Sequence[Sequence[int]]) -> SubTables:
        quotas = np.array([groups[list(part)].sum(axis=0) for part in parts], np.int64)
        operator, limits = perturbed_parts(quotas, protected, guarantee.rho2, coupled=coupled)
        return SubTables(histogram, quotas, operator, limits, coupled)

    whole = (tuple(range(len(groups))),)
    cuts = dict.fromkeys([best.parts, whole] if coupled else [best.parts])
    return min(map(filled, cuts), key=SubTables.total_variance)
