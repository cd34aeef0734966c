"""How much of a range or a set satisfies a condition, if every shown value stands there.

A published record spans μ people. Both ends of a range, and every value of a set, belong to one of
them at least; where the others stand follows the column's marginal inside what is shown, and the
marginal is what the records, so read, add up to (iterated until it stands). The value that a record
shows is that of one of its μ people, all equally likely.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.overlap import share_of_intervals

_ROUNDS = 30
_SETTLED = 1e-4


class Matched(ABC):
    """One column of published records, each of which spans `matches` people."""

    def __init__(self, values: int, matches: int) -> None:
        self.values, self.matches = values, matches

    @property
    @abstractmethod
    def named(self) -> IntArray:
        """How many values each record names."""

    @abstractmethod
    def named_of(self, each: FloatArray) -> FloatArray:
        """The sum of `each` over the named values, by record."""

    @abstractmethod
    def inside(self, each: FloatArray) -> FloatArray:
        """The sum of `each` over all values inside what a record shows."""

    @abstractmethod
    def added(self, by_record: FloatArray, each: FloatArray, named: FloatArray) -> FloatArray:
        """By value: `by_record`·`each` of records that show it, `named` of those that name it."""

    @cached_property
    def _people(self) -> FloatArray:
        return np.maximum(self.matches, self.named).astype(np.float64)

    @cached_property
    def _free(self) -> FloatArray:
        """The share of a record's people whose value is not named for certain."""
        return np.asarray(1 - self.named / self._people)

    @cached_property
    def marginal(self) -> FloatArray:
        found = np.full(self.values, 1 / max(self.values, 1))
        for _ in range(_ROUNDS):
            mass = np.maximum(self.inside(found), 1e-300)
            renewed = self.added(self._free / mass, found, 1 / self._people)
            renewed /= max(float(renewed.sum()), 1e-300)
            settled = float(np.abs(renewed - found).sum()) < _SETTLED
            found = renewed
            if settled:
                break
        return found

    def share(self, satisfied: BoolArray) -> FloatArray:
        """Of each record's people, how many have a value that satisfies the condition."""
        yes = satisfied.astype(np.float64)
        mass = np.maximum(self.inside(self.marginal), 1e-300)
        free = self._free * self.inside(self.marginal * yes) / mass
        return np.asarray(self.named_of(yes) / self._people + free)


class MatchedRanges(Matched):
    """Ranges of whole numbers, by their place in the domain; both ends are named.

    >>> ranges = MatchedRanges(np.array([0, 2]), np.array([4, 2]), values=5, matches=4)
    >>> ranges.share(np.arange(5) > 3).round(3).tolist()
    [0.333, 0.0]
    """

    def __init__(self, low: IntArray, high: IntArray, values: int, matches: int) -> None:
        super().__init__(values, matches)
        self._low, self._high, self._apart = low, high, high > low

    @property
    def named(self) -> IntArray:
        return 1 + self._apart.astype(np.int64)

    def named_of(self, each: FloatArray) -> FloatArray:
        return np.asarray(each[self._low] + np.where(self._apart, each[self._high], 0.0))

    def inside(self, each: FloatArray) -> FloatArray:
        until = np.concatenate([[0.0], np.cumsum(each)])
        return np.asarray(until[self._high + 1] - until[self._low])

    def added(self, by_record: FloatArray, each: FloatArray, named: FloatArray) -> FloatArray:
        many = self.values + 1
        begun = np.bincount(self._low, by_record, many) - np.bincount(
            self._high + 1, by_record, many
        )
        found = np.cumsum(begun)[:-1] * each + np.bincount(self._low, named, self.values)
        return np.asarray(
            found + np.bincount(self._high, np.where(self._apart, named, 0.0), self.values)
        )


class MatchedSets(Matched):
    """Sets of codes; the members of set i are those from `starts[i]` to `starts[i + 1]`.

    >>> sets = MatchedSets(np.array([0, 1, 1]), np.array([0, 2, 3]), values=2, matches=3)
    >>> sets.share(np.array([False, True])).round(3).tolist()
    [0.6, 1.0]
    """

    def __init__(self, members: IntArray, starts: IntArray, values: int, matches: int) -> None:
        super().__init__(values, matches)
        self._members, self._starts = members, starts
        self._record = np.repeat(np.arange(len(starts) - 1), np.diff(starts))

    @property
    def named(self) -> IntArray:
        return np.diff(self._starts)

    def named_of(self, each: FloatArray) -> FloatArray:
        until = np.concatenate([[0.0], np.cumsum(each[self._members])])
        return np.asarray(until[self._starts[1:]] - until[self._starts[:-1]])

    def inside(self, each: FloatArray) -> FloatArray:
        return self.named_of(each)

    def added(self, by_record: FloatArray, each: FloatArray, named: FloatArray) -> FloatArray:
        weights = by_record[self._record] * each[self._members] + named[self._record]
        return np.asarray(np.bincount(self._members, weights, self.values))


def share_of_people(
    low: FloatArray, high: FloatArray, first: float, last: float, matches: int
) -> FloatArray:
    """Of ranges of numbers that are not whole: both ends are named, the others spread evenly.

    >>> share_of_people(np.array([0.0]), np.array([4.0]), 3.0, 9.0, 4).tolist()
    [0.375]
    """
    even, people = share_of_intervals(low, high, first, last), max(matches, 2)
    ends = [((first <= each) & (each <= last)).astype(np.float64) for each in (low, high)]
    spanned = (ends[0] + ends[1]) / people + (1 - 2 / people) * even
    return np.where(high > low, spanned, even)
