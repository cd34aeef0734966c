"""The paper's other matchers, and its ways to make matches: for the figures that compare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.guarantees import Guarantee
from sfumato.mechanisms.heterogeneous.mechanism import (
    HeterogeneousGeneralization,
    HeterogeneousPlan,
)
from sfumato.mechanisms.heterogeneous.ncp import Axis, Floats
from sfumato.mechanisms.heterogeneous.regions import Region
from sfumato.mechanisms.heterogeneous.sweeps import Covers, Matcher, Matching, hungarian
from sfumato.profile import Profile


def greedy(cost: Floats) -> IntArray:
    """Row by row the cheapest record that is left ([16] of the paper). O(p²).

    Of equally cheap ones the record that costs the rows most in the mean: others want it least.

    >>> greedy(np.array([[1.0, 2.0], [0.0, 5.0]])).tolist()
    [1, 0]
    """
    wanted = np.argsort(-cost.mean(axis=1), kind="stable")
    by_row = np.ascontiguousarray(cost[wanted].T)
    matched = np.empty(len(cost), np.int64)
    taken = np.zeros(len(cost))
    for row, costs in enumerate(by_row):
        best = int(np.argmin(costs + taken))
        matched[row] = wanted[best]
        taken[best] = np.inf
    return matched


def sort_greedy(cost: Floats) -> IntArray:
    """The cheapest pair that is left, again and again ([16]); ties along diagonals.

    All pairs that are the cheapest of both their row and their record are taken at once, which
    gives the same matching as going through the sorted list: O(p²) for each of a few rounds.

    >>> sort_greedy(np.array([[1.0, 2.0], [0.0, 5.0]])).tolist()
    [1, 0]
    """
    size = len(cost)
    position = np.arange(size)
    tie = ((position[None, :] - position[:, None]) % size) * size + position[None, :]
    # ranks of (cost, tie): a total order without a large sort by pairs
    _, rank = np.unique(cost, return_inverse=True)
    order = rank.reshape(cost.shape).astype(np.int64) * (size * size) + tie
    matched = np.empty(size, np.int64)
    records, rows = position, position
    while len(rows):
        best_record = np.argmin(order, axis=0)
        best_row = np.argmin(order, axis=1)
        mutual = best_row[best_record] == np.arange(len(rows))
        chosen = np.flatnonzero(mutual)
        matched[rows[chosen]] = records[best_record[chosen]]
        keep_rows = ~mutual
        keep_records = np.ones(len(records), np.bool_)
        keep_records[best_record[chosen]] = False
        order = order[np.ix_(keep_records, keep_rows)]
        records, rows = records[keep_records], rows[keep_rows]
    return matched


MATCHERS: dict[str, Matcher] = {
    "hungarian": hungarian,
    "sort-greedy": sort_greedy,
    "greedy": greedy,
}


@dataclass(frozen=True, eq=False)
class MatchedPlan(HeterogeneousPlan):
    """One region with everybody, matched as the paper says."""

    match: str = "hungarian"
    block: int | None = None

    def regions(self, axes: Sequence[Axis], codes: IntArray, draws: Draws) -> list[Region]:
        return [Region(np.arange(len(codes)), self.promise.layers(self.histogram.counts))]

    def matching(self, axes: Sequence[Axis]) -> Matching:
        return matching(axes, self.match)

    def rows_at_once(self, people: int) -> int:
        return self.block or super().rows_at_once(people)


@dataclass(frozen=True)
class Matched(HeterogeneousGeneralization):
    """Buckets of the whole table, without sweeps."""

    match: str = "hungarian"
    block: int | None = None

    name: ClassVar[str] = "heterogeneous"

    def __str__(self) -> str:
        return self.name  # what its releases are read as

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> MatchedPlan:
        made = super().plan(profile, guarantee, draws)
        return MatchedPlan(
            made.histogram, made.ceilings, made.promise, match=self.match, block=self.block
        )


@dataclass(frozen=True, eq=False)
class WholeRows(Matching):
    """A pair costs the penalty of the whole row, not its growth alone."""

    def add_costs(
        self, cost: Floats, axes: Sequence[Axis], covers: Covers, codes: Sequence[IntArray]
    ) -> None:
        super().add_costs(cost, axes, covers, codes)
        for axis, unit, cover in zip(axes, self.units, covers, strict=True):
            cost += (unit * axis.size(cover)).astype(np.float64)[:, None, :]


def matching(axes: Sequence[Axis], match: str) -> Matching:
    """Rounds by this matcher; sort-greedy goes by the penalty of whole rows."""
    kind = WholeRows if match == "sort-greedy" else Matching
    return kind(axes, MATCHERS[match], 0)
