"""How much of a range or a set satisfies a condition, if every shown value stands there.

A published record spans μ people. Both ends of a range, and every value of a set, belong to one of
them at least; where the others stand follows weights of the values inside what is shown. Where it
is told how many people have each value, the weights are those with which the records add up to
these people; else the marginal that the records, so read, add up to. Both are iterated until they
stand.
The value that a record shows is that of one of its μ people, all equally likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.ranges import ConditionShares

_ROUNDS = 30
_SETTLED = 1e-4
_MOST_ROUNDS = 100
_NEAR = 0.02  # of a person
_NOTHING = 1e-300


@dataclass(frozen=True, eq=False)
class Marginal:
    """How many people of a column there are by cell; `cell` has that of every value."""

    cell: IntArray
    people: IntArray

    def by_cell(self, by_value: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(self.cell, by_value, minlength=len(self.people)))

    def of(self, places: IntArray) -> Marginal:
        """For other numbers of the values: the k-th is that at `places[k]` here."""
        return Marginal(self.cell[places], self.people)


class MatchedRecords:
    """One column of published records, each of which spans `matches` people: runs of values that a
    record shows, low and high place of each, and the values that it names.

    >>> ranges = MatchedRecords.of_ranges(np.array([0, 2]), np.array([4, 2]), values=5, matches=4)
    >>> ranges.share(np.arange(5) > 3).round(3).tolist()
    [0.333, 0.0]
    >>> sets = MatchedRecords.of_sets(np.array([0, 1, 1]), np.array([0, 2, 3]), values=2, matches=3)
    >>> sets.share(np.array([False, True])).round(3).tolist()
    [0.6, 1.0]
    """

    def __init__(
        self,
        runs: tuple[IntArray, IntArray, IntArray],  # record, low, high
        names: tuple[IntArray, IntArray],  # record, value
        records: int,
        values: int,
        matches: int,
        told: Marginal | None,
    ) -> None:
        self._runs, self._names, self._records = runs, names, records
        self.values, self.matches, self.told = values, matches, told
        self.named = np.bincount(names[0], minlength=records)  # values that each record names

    @classmethod
    def of_ranges(
        cls, low: IntArray, high: IntArray, values: int, matches: int, told: Marginal | None = None
    ) -> Self:
        """Of whole numbers, by their place in the domain; both ends are named."""
        every, wide = np.arange(len(low)), np.flatnonzero(high > low)
        names = np.concatenate([every, wide]), np.concatenate([low, high[wide]])
        return cls((every, low, high), names, len(low), values, matches, told)

    @classmethod
    def of_sets(
        cls,
        members: IntArray,
        starts: IntArray,
        values: int,
        matches: int,
        told: Marginal | None = None,
    ) -> Self:
        """The members of set i are those from `starts[i]` to `starts[i + 1]`; all are named."""
        record = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        runs, names = (record, members, members), (record, members)
        return cls(runs, names, len(starts) - 1, values, matches, told)

    def named_of(self, each: FloatArray) -> FloatArray:
        """The sum of `each` over the named values, by record."""
        record, value = self._names
        return np.bincount(record, each[value], self._records).astype(np.float64)

    def inside(self, each: FloatArray) -> FloatArray:
        """The sum of `each` over all values inside what a record shows."""
        record, low, high = self._runs
        until = np.concatenate([[0.0], np.cumsum(each)])
        inside = np.bincount(record, until[high + 1] - until[low], self._records)
        return inside.astype(np.float64)

    def added(self, by_record: FloatArray, each: FloatArray, named: FloatArray) -> FloatArray:
        """By value: `by_record`·`each` of records that show it, `named` of those that name it."""
        (record, low, high), (names, value) = self._runs, self._names
        weights, many = by_record[record], self.values + 1
        begun = np.bincount(low, weights, many) - np.bincount(high + 1, weights, many)
        return np.asarray(
            np.cumsum(begun)[:-1] * each + np.bincount(value, named[names], self.values)
        )

    @cached_property
    def _people(self) -> FloatArray:
        return np.maximum(self.matches, self.named).astype(np.float64)

    @cached_property
    def _free(self) -> FloatArray:
        """The share of a record's people whose value is not named for certain."""
        return np.asarray(1 - self.named / self._people)

    @cached_property
    def marginal(self) -> FloatArray:
        """What the people whose value is not named are spread by, inside what is shown."""
        return self._found() if self.told is None else self._scaled_to(self.told)

    def _found(self) -> FloatArray:
        shares = np.full(self.values, 1 / max(self.values, 1))
        for _ in range(_ROUNDS):
            renewed = self._add_up(shares)
            renewed /= max(float(renewed.sum()), _NOTHING)
            settled = float(np.abs(renewed - shares).sum()) < _SETTLED
            shares = renewed
            if settled:
                break
        return shares

    def _scaled_to(self, told: Marginal) -> FloatArray:
        people = told.people * (len(self.named) / max(int(told.people.sum()), 1))
        nobody = np.zeros(self.values)
        named = told.by_cell(self.added(np.zeros(len(self.named)), nobody, 1 / self._people))
        wanted = np.maximum(people - named, 0.0)  # people whose value is not named
        factor = (people / np.maximum(told.by_cell(np.ones(self.values)), 1))[told.cell]
        for _ in range(_MOST_ROUNDS):
            free = told.by_cell(self._add_up(factor)) - named
            if float(np.abs(free - wanted).max(initial=0.0)) < _NEAR:
                break
            ratio = np.divide(wanted, free, out=np.ones(len(people)), where=free > _NEAR / 100)
            factor = np.maximum(factor * ratio[told.cell], _NOTHING)
        return factor

    def _add_up(self, marginal: FloatArray) -> FloatArray:
        """By value: the people of all records, spread by the marginal."""
        mass = np.maximum(self.inside(marginal), _NOTHING)
        return self.added(self._free / mass, marginal, 1 / self._people)

    def reading(self, satisfied: BoolArray) -> ConditionShares:
        """Of every record, how many of its people satisfy a condition, whether all do or any may;
        and how many people there are, as far as cells that it cuts leave it open."""
        inside = self.inside(satisfied.astype(np.float64))
        everybody, anybody = inside >= self.inside(np.ones(self.values)), inside > 0
        least, most = 0.0, float(len(everybody))
        if self.told is not None:
            # of people whose rows are not published nothing is told
            apart = abs(float(self.told.people.sum()) - len(everybody))
            met, every = (
                self.told.by_cell(e.astype(np.float64)) for e in (satisfied, satisfied | True)
            )
            least = float(self.told.people[met >= every].sum()) - apart
            most = float(self.told.people[met > 0].sum()) + apart
        return ConditionShares(self.share(satisfied), everybody, anybody, (least, most))

    def share(self, satisfied: BoolArray) -> FloatArray:
        """Of each record's people, how many have a value that satisfies the condition."""
        yes = satisfied.astype(np.float64)
        mass = np.maximum(self.inside(self.marginal), _NOTHING)
        free = self._free * self.inside(self.marginal * yes) / mass
        return np.asarray(self.named_of(yes) / self._people + free)


def read_people(
    low: FloatArray, high: FloatArray, first: float, last: float, matches: int
) -> ConditionShares:
    """Of ranges of numbers that are not whole: both ends are named, the others spread evenly.

    >>> read_people(np.array([0.0]), np.array([4.0]), 3.0, 9.0, 4).people.tolist()
    [0.375]
    """
    width, people = np.where(high > low, high - low, 1.0), max(matches, 2)
    even = np.maximum(np.minimum(high, last) - np.maximum(low, first), 0.0) / width
    ends = [((first <= end) & (end <= last)).astype(np.float64) for end in (low, high)]
    spanned = (ends[0] + ends[1]) / people + (1 - 2 / people) * even
    return ConditionShares(
        np.where(high > low, spanned, ends[0]),
        (first <= low) & (high <= last),
        (low <= last) & (high >= first),
        (0.0, float(len(low))),
    )
