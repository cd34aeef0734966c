"""Who stands in which bucket: mixed (`mechanisms.mixed`), round robin as the papers have it, or
listed place by place, as several marks of a person need it (`exchange`).

A filling takes the slots of every (block, combination) to buckets, which are numbered part by part,
and says what its buckets hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.mixed import BucketParts, SmallArray
from sfumato.operators.buckets import BucketKinds

Runs = Iterator[tuple[int, BucketKinds]]
Entries = tuple[IntArray, IntArray, IntArray]  # bucket, combination, count
_AT_ONCE = 1 << 20  # entries that are listed together


class Filling(Protocol):
    """`Mixed`, `RoundRobin` and `Listed`."""

    @property
    def parts(self) -> BucketParts: ...

    def slot_buckets(self) -> SmallArray:
        """The bucket of every slot, by block, combination and slot."""

    def listed(self) -> Iterator[Entries]:
        """What the buckets hold, bucket by bucket, some at a time."""

    def runs(self) -> Runs:
        """The same as runs of buckets with equal contents: (first bucket, kinds)."""

    def check(self) -> None: ...


@dataclass(frozen=True, eq=False)
class RoundRobin:
    """Bucket = (records of earlier values + slot) mod b (F'-privacy paper, Section 4.1).

    Sizes are ⌊N/b⌋ or ⌈N/b⌉, and a value stands ⌊o/b⌋ or ⌈o/b⌉ times in a bucket (errata F14).

    >>> buckets = RoundRobin(np.array([2, 2, 3]), 3)
    >>> [(first, kinds.times.tolist(), places(kinds).tolist()) for first, kinds in buckets.runs()]
    [(0, [1], [[0, 1, 2]]), (1, [1, 1], [[0, 2], [1, 2]])]
    """

    counts: IntArray
    buckets: int

    @property
    def edges(self) -> IntArray:
        return np.concatenate([[0], np.cumsum(self.counts)])

    @cached_property
    def parts(self) -> BucketParts:
        """The first buckets have a record more than the others."""
        size, more = divmod(int(self.counts.sum()), self.buckets)
        upto = self.edges // self.buckets * more + np.minimum(self.edges % self.buckets, more)
        first = np.diff(upto)
        counts = np.stack([first, self.counts - first])
        buckets = np.array([more, self.buckets - more])
        some = np.flatnonzero(buckets)
        return BucketParts(0 * some, np.array([size + 1, size])[some], buckets[some], counts[some])

    def slot_buckets(self) -> SmallArray:
        return (np.arange(int(self.counts.sum())) % self.buckets).astype(np.int32)

    def listed(self) -> Iterator[Entries]:
        return (expanded(first, kinds) for first, kinds in self.runs())

    def runs(self) -> Runs:
        rows, more = divmod(int(self.counts.sum()), self.buckets)
        begins = np.unique(np.append(self.edges[:-1] % self.buckets, [0, more]))
        begins = begins[begins < self.buckets]
        lengths = np.diff(np.append(begins, self.buckets))
        for size, chosen in ((rows + 1, begins < more), (rows, begins >= more)):
            if chosen.any():
                spots = np.arange(size)[None, :] * self.buckets + begins[chosen][:, None]
                value = np.searchsorted(self.edges[1:], spots, side="right")
                yield int(begins[chosen][0]), kinds_of_rows(lengths[chosen], value)

    def check(self) -> None:
        assert self.buckets >= 1, self
        assert bool((self.counts >= 0).all()), self


@dataclass(frozen=True, eq=False)
class Listed:
    """The combination at every place, bucket after bucket."""

    parts: BucketParts
    places: IntArray

    @cached_property
    def bucket(self) -> IntArray:
        """Of every place."""
        sizes = self.parts.bucket_sizes()
        return np.repeat(np.arange(len(sizes)), sizes)

    def slot_buckets(self) -> SmallArray:
        block = np.repeat(self.parts.blocks, self.parts.buckets)[self.bucket]
        order = np.argsort(block * self.parts.values + self.places, kind="stable")
        return self.bucket[order].astype(np.int32)

    def listed(self) -> Iterator[Entries]:
        cuts = np.searchsorted(self.bucket, self.bucket[_AT_ONCE::_AT_ONCE]).tolist()
        for low, high in zip([0, *cuts], [*cuts, len(self.bucket)], strict=True):
            keys = self.bucket[low:high] * self.parts.values + self.places[low:high]
            entries, counts = np.unique(keys, return_counts=True)
            yield (*np.divmod(entries, self.parts.values), counts)

    def runs(self) -> Runs:
        for bucket, combination, counts in self.listed():
            if len(bucket):
                first = int(bucket[0])
                times = np.ones(int(bucket[-1]) - first + 1, np.int64)
                yield first, BucketKinds(times, bucket - first, combination, counts)

    def check(self) -> None:
        counts, block = (
            self.parts.counts,
            np.repeat(np.arange(len(self.parts.sizes)), self.parts.buckets),
        )
        placed = np.zeros_like(counts)
        np.add.at(placed, (block[self.bucket], self.places), 1)
        assert np.array_equal(placed, counts), "a combination stands elsewhere than it was counted"


def kinds_of_rows(times: IntArray, rows: IntArray) -> BucketKinds:
    """Buckets given by their values, place by place: one row per kind.

    >>> kinds = kinds_of_rows(np.array([2]), np.array([[1, 0, 1]]))
    >>> kinds.values.tolist(), kinds.counts.tolist()
    ([0, 1], [1, 2])
    """
    ordered = np.sort(rows, axis=1)
    new = np.diff(ordered, axis=1, prepend=-1) != 0
    run, at = np.nonzero(new)
    counts = np.diff(np.append(np.flatnonzero(new), new.size))
    return BucketKinds(times, run, ordered[run, at].astype(np.int64), counts)


def places(kinds: BucketKinds) -> IntArray:
    """The values of buckets of one size, place by place, one row per kind."""
    return np.repeat(kinds.values, kinds.counts).reshape(len(kinds.times), -1)


def expanded(first: int, kinds: BucketKinds) -> Entries:
    """A run of buckets as entries: looked at once per kind, then repeated."""
    ordered = np.lexsort((kinds.values, kinds.kinds))
    entries = np.bincount(kinds.kinds, minlength=len(kinds.times))  # different values of each kind
    starts = np.cumsum(entries) - entries
    kind = np.repeat(np.arange(len(entries)), kinds.times)  # of each bucket
    many = entries[kind]
    offset = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
    entry = ordered[np.repeat(starts[kind], many) + offset]
    bucket = np.repeat(np.arange(first, first + len(kind)), many)
    return bucket, kinds.values[entry], kinds.counts[entry]


def in_pieces(runs: Iterable[BucketKinds]) -> Iterator[BucketKinds]:
    """Short runs joined, for `BucketOperator.of`: about 2²² products each."""
    gathered: list[BucketKinds] = []
    work = 0
    for kinds in runs:
        gathered.append(kinds)
        work += len(kinds.values) ** 2 // max(len(kinds.times), 1)
        if work > 1 << 22:
            yield _joined(gathered)
            gathered, work = [], 0
    if gathered:
        yield _joined(gathered)


def _joined(pieces: list[BucketKinds]) -> BucketKinds:
    before = np.cumsum([0] + [len(piece.times) for piece in pieces])
    return BucketKinds(
        np.concatenate([piece.times for piece in pieces]),
        np.concatenate([p.kinds + n for p, n in zip(pieces, before[:-1], strict=True)]),
        np.concatenate([piece.values for piece in pieces]),
        np.concatenate([piece.counts for piece in pieces]),
    )
