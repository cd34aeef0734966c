"""Who stands in which bucket: mixed (`mechanisms.mixed`), or listed place by place: where a person
has several marks (`exchange`), and round robin as the papers have it.

A filling takes the slots of every (block, combination) to buckets, which are numbered part by part,
and says what its buckets hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.mixed import BucketParts, SmallArray
from sfumato.operators.buckets import BucketKinds

Runs = Iterator[tuple[int, BucketKinds]]
Entries = tuple[IntArray, IntArray, IntArray]  # bucket, combination, count
_AT_ONCE = 1 << 20  # entries that are listed together


class Filling(Protocol):
    """`Mixed` and `Listed`."""

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
class Listed:
    """The combination at every place, bucket after bucket."""

    parts: BucketParts
    places: IntArray

    @classmethod
    def round_robin(cls, counts: IntArray, buckets: int) -> Self:
        """Bucket = (records of earlier values + slot) mod b (F'-privacy paper, Section 4.1).

        Sizes are ⌊N/b⌋ or ⌈N/b⌉, and a value stands ⌊o/b⌋ or ⌈o/b⌉ times in a bucket (errata F14).

        >>> Listed.round_robin(np.array([2, 2, 3]), 3).places.tolist()
        [0, 1, 2, 0, 2, 1, 2]
        """
        rows = int(counts.sum())
        size, more = divmod(rows, buckets)
        bucket = np.arange(rows) % buckets
        values = np.repeat(np.arange(len(counts)), counts)
        part = (bucket >= more).astype(np.int64) if more else 0 * bucket
        shares = np.zeros((2 if more else 1, len(counts)), np.int64)
        np.add.at(shares, (part, values), 1)
        sizes = np.array([size + 1, size] if more else [size])
        many = np.array([more, buckets - more] if more else [buckets])
        return cls(
            BucketParts(0 * sizes, sizes, many, shares),
            values[np.argsort(bucket, kind="stable")],
        )

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
