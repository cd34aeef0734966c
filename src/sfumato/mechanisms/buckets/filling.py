"""Who stands in which bucket: mixed (`mechanisms.mixed`), or listed place by place, where a person
has several marks (`exchange`).

A filling takes the slots of every (block, combination) to buckets, which are numbered part by part,
and says what its buckets hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.mixed import BucketParts, Mixed, SmallArray

Entries = tuple[IntArray, IntArray, IntArray]  # bucket, combination, count
_AT_ONCE = 1 << 20  # entries that are listed together


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
        """The bucket of every slot, by block, combination and slot."""
        block = np.repeat(self.parts.blocks, self.parts.buckets)[self.bucket]
        order = np.argsort(block * self.parts.values + self.places, kind="stable")
        return self.bucket[order].astype(np.int32)

    def listed(self) -> Iterator[Entries]:
        """What the buckets hold, bucket by bucket, some at a time."""
        cuts = np.searchsorted(self.bucket, self.bucket[_AT_ONCE::_AT_ONCE]).tolist()
        for low, high in zip([0, *cuts], [*cuts, len(self.bucket)], strict=True):
            keys = self.bucket[low:high] * self.parts.values + self.places[low:high]
            entries, counts = np.unique(keys, return_counts=True)
            yield (*np.divmod(entries, self.parts.values), counts)

    def check(self) -> None:
        counts, block = (
            self.parts.counts,
            np.repeat(np.arange(len(self.parts.sizes)), self.parts.buckets),
        )
        placed = np.zeros_like(counts)
        np.add.at(placed, (block[self.bucket], self.places), 1)
        assert np.array_equal(placed, counts), "a combination stands elsewhere than it was counted"


Filling = Mixed | Listed
