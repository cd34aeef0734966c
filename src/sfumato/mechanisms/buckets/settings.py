"""Bucket settings: how many buckets of which size, and whether records can fill them.

A setting is valid when every value x can be spread over the buckets so that no bucket of size S
holds more than ⌊f'_x S⌋ records of x, f'_x being the promise's ceiling (F'-privacy paper, Section
3.4). All of it is decided on counts, in integers: the floors of f'·S are exact (errata F4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.draws import IntArray


class SizedBuckets(NamedTuple):
    """`buckets` buckets of `size` records each: B_j(S_j, b_j) in the paper."""

    size: int
    buckets: int

    @property
    def records(self) -> int:
        return self.size * self.buckets

    @property
    def loss(self) -> int:
        return self.buckets * (self.size - 1) ** 2


Setting = tuple[SizedBuckets, ...]

_LARGEST = 1 << 62  # records: no bucket is larger
_ALL_SIZES = 200  # sizes that are all looked at
_SOME_SIZES = 48  # of each sort where there are more


def setting_of(sizes: Iterable[int], buckets: Iterable[int]) -> Setting:
    """The setting with empty parts dropped and sizes ascending, so that equal ones compare equal.

    >>> setting_of([14, 4, 7], [1, 9, 0])
    (SizedBuckets(size=4, buckets=9), SizedBuckets(size=14, buckets=1))
    """
    return tuple(
        sorted(SizedBuckets(int(s), int(b)) for s, b in zip(sizes, buckets, strict=True) if b > 0)
    )


def loss(setting: Setting) -> int:
    """Σ b_S (S−1)² (Equation 2); the mean squared error is this over N − 1."""
    return sum(part.loss for part in setting)


def mean_squared_error(setting: Setting) -> Fraction:
    """MSE of Definition 3; 0 for a single record, where the paper leaves it undefined (F16)."""
    rows = sum(part.records for part in setting)
    return Fraction(loss(setting), max(rows - 1, 1))


@dataclass(frozen=True, eq=False)
class Limits:
    """What a promise allows inside a bucket: at most ⌊f'_x S⌋ records of x among S.

    `distinct` allows each value once per bucket at most, which fake values need (Section 6).

    >>> limits = Limits((Fraction(29, 100), Fraction(57, 100)))
    >>> limits.table([100, 50]).tolist()
    [[29, 57], [14, 28]]
    >>> limits.smallest_size
    2
    """

    ceilings: tuple[Fraction, ...]
    distinct: bool = False

    def table(self, sizes: Sequence[int] | IntArray) -> IntArray:
        """⌊f'_x S⌋ for every size (rows) and value (columns), exact (errata F4)."""
        column = np.asarray(sizes, np.int64)
        tops, bottoms = self._fractions
        longest = int(max(tops.max(initial=0), bottoms.max(initial=0)))
        fits = longest * max(int(column.max(initial=0)), 1) < 1 << 62
        kind: type = np.int64 if fits else object  # Python integers where 64 bits do not suffice
        products: npt.NDArray[Any] = column.astype(kind)[:, None] * tops.astype(kind)
        allowed: IntArray = (products // bottoms.astype(kind)).astype(np.int64)
        return np.minimum(allowed, 1) if self.distinct else allowed

    @cached_property
    def _fractions(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Numerators and denominators, in 64 bits where they fit."""
        tops = [ceiling.numerator for ceiling in self.ceilings]
        bottoms = [ceiling.denominator for ceiling in self.ceilings]
        kind: type = np.int64 if max([*tops, *bottoms], default=0) < 1 << 62 else object
        return np.array(tops, kind), np.array(bottoms, kind)

    def of(self, codes: IntArray) -> Limits:
        """The limits of some values."""
        return Limits(tuple(self.ceilings[code] for code in codes.tolist()), self.distinct)

    @cached_property
    def first_sizes(self) -> IntArray:
        """⌈1/f'_x⌉ by value, from which on a bucket may hold it; 0 where no bucket may."""
        tops, bottoms = self._fractions
        sizes = np.minimum(-(-bottoms // np.maximum(tops, 1)), _LARGEST)
        return np.where(tops > 0, sizes, 0).astype(np.int64)

    @property
    def smallest_size(self) -> int:
        """M = min over x of ⌈1/f'_x⌉: no smaller bucket can hold any record."""
        some = self.first_sizes[self.first_sizes > 0]
        return int(some.min()) if some.size else 1

    def needed_size(self, counts: IntArray) -> int:
        """max over the values present of ⌈1/f'_x⌉: no smaller maximum will do (errata F2)."""
        return max(int(self.first_sizes[counts > 0].max(initial=1)), 1)

    def sizes(self, counts: IntArray, largest: int) -> IntArray:
        """The sizes up to `largest` that a search looks at: all, or some where there are many.

        Room grows where a size reaches 1/f'_x for one more value, so of many sizes those are
        looked at, and others evenly spaced in proportion; `largest` always.
        """
        least = self.smallest_size
        if largest - least < _ALL_SIZES:
            return np.arange(least, largest + 1, dtype=np.int64)
        steps = np.unique(self.first_sizes[(counts > 0) & (self.first_sizes > 0)])
        steps = steps[steps <= largest]
        some = steps[np.unique(np.linspace(0, len(steps) - 1, _SOME_SIZES).astype(np.int64))]
        spaced = np.geomspace(least, largest, _SOME_SIZES).astype(np.int64)
        return np.unique(np.concatenate([some, spaced, [largest]]))

    def usable_sizes(self, counts: IntArray, largest: int) -> IntArray:
        """Those of `sizes` of which at least one bucket can be filled (errata F12)."""
        sizes = self.sizes(counts, min(largest, int(counts.sum())))
        room = np.minimum(self.table(sizes), counts).sum(axis=1)
        return np.asarray(sizes[room >= sizes])


@dataclass(frozen=True, eq=False)
class Choice:
    """A setting, who goes where (parts by values), and the loss of the linear program, if any."""

    setting: Setting
    shares: IntArray
    bound: Fraction = Fraction(0)


def part_rooms(setting: Setting, counts: IntArray, limits: Limits) -> IntArray:
    """a_{xj} = min(⌊f'_x S_j⌋ b_j, o_x), parts by values (Definition 6)."""
    buckets = np.array([part.buckets for part in setting], np.int64)
    allowed = limits.table([part.size for part in setting]) * buckets[:, None]
    return np.asarray(np.minimum(allowed, counts))


def partition_pair(setting: Setting, counts: IntArray, limits: Limits) -> IntArray:
    """Section 4.3: how many records of each value go to each of at most two valid parts.

    The first part starts with all it may hold; its surplus moves to the second, value by value in
    the order of codes, as far as the second may take it (errata F11: the order is ours).

    >>> from fractions import Fraction as F
    >>> counts = np.array([1] * 8 + [6] * 4 + [9] * 2)
    >>> limits = Limits(tuple(2 * F(int(o), 50) + F(1, 20) for o in counts))
    >>> partition_pair(setting_of([4, 14], [9, 1]), counts, limits)[1].tolist()
    [1, 1, 1, 1, 1, 1, 1, 1, 4, 2, 0, 0, 0, 0]
    """
    rooms = part_rooms(setting, counts, limits)
    if len(setting) == 1:
        return counts[None, :].copy()
    first = rooms[0].copy()
    movable = np.minimum(rooms[1] - (counts - first), first)
    surplus = int(first.sum()) - setting[0].records
    before = np.concatenate([[0], np.cumsum(movable)[:-1]])
    first -= np.clip(surplus - before, 0, movable)
    return np.stack([first, counts - first])


def check_parts(setting: Setting, shares: IntArray, counts: IntArray, limits: Limits) -> None:
    """Assert that `shares` (parts by values) fills a setting within its limits."""
    assert shares.shape == (len(setting), len(counts)), (shares.shape, setting)
    assert bool((shares >= 0).all()), shares
    assert bool((shares.sum(axis=0) == counts).all()), shares
    assert bool((shares <= part_rooms(setting, counts, limits)).all()), shares
    records = [part.records for part in setting]
    assert shares.sum(axis=1).tolist() == records, (shares.sum(axis=1), records)
