"""Who stands in which bucket: by mixed blocks, or round robin as the papers have it.

A filling takes the slots 0 … h_x − 1 of every value to buckets numbered from 0, and lists the
contents of its buckets as runs: (first bucket, how many buckets, their values), one row per run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sfumato.draws import IntArray
from sfumato.operators.buckets import BucketKinds

Runs = Iterator[tuple[int, IntArray, npt.NDArray[np.int32]]]


class Filling(Protocol):
    """`MixedGroups` (see `mechanisms.mixing`) and `RoundRobin`."""

    @property
    def counts(self) -> IntArray: ...

    @property
    def buckets(self) -> int: ...

    def place(self, values: npt.ArrayLike, slots: npt.ArrayLike) -> tuple[IntArray, IntArray]: ...

    def runs(self) -> Runs: ...

    def check(self) -> None: ...


@dataclass(frozen=True, eq=False)
class RoundRobin:
    """Bucket = (records of earlier values + slot) mod b (F'-privacy paper, Section 4.1).

    Sizes are ⌊N/b⌋ or ⌈N/b⌉, and a value stands ⌊o/b⌋ or ⌈o/b⌉ times in a bucket (errata F14).

    >>> buckets = RoundRobin(np.array([2, 2, 3]), 3)
    >>> [(first, lengths.tolist(), held.tolist()) for first, lengths, held in buckets.runs()]
    [(0, [1], [[0, 1, 2]]), (1, [1, 1], [[0, 2], [1, 2]])]
    """

    counts: IntArray
    buckets: int

    @property
    def edges(self) -> IntArray:
        return np.concatenate([[0], np.cumsum(self.counts)])

    def place(self, values: npt.ArrayLike, slots: npt.ArrayLike) -> tuple[IntArray, IntArray]:
        position = self.edges[np.asarray(values)] + np.asarray(slots, np.int64)
        row, bucket = np.divmod(position, self.buckets)
        return bucket, row

    def runs(self) -> Runs:
        rows, more = divmod(int(self.counts.sum()), self.buckets)
        begins = np.unique(np.append(self.edges[:-1] % self.buckets, [0, more]))
        begins = begins[begins < self.buckets]
        lengths = np.diff(np.append(begins, self.buckets))
        for size, chosen in ((rows + 1, begins < more), (rows, begins >= more)):
            if chosen.any():
                places = np.arange(size)[None, :] * self.buckets + begins[chosen][:, None]
                held = np.searchsorted(self.edges[1:], places, side="right").astype(np.int32)
                yield int(begins[chosen][0]), lengths[chosen], held

    def check(self) -> None:
        assert self.buckets >= 1, self
        assert bool((self.counts >= 0).all()), self


def kinds_of(runs: Iterable[tuple[IntArray, npt.NDArray[np.int32]]]) -> Iterator[BucketKinds]:
    """Runs (lengths, contents) as pieces for `BucketOperator.of`, about 2¹⁸ entries each."""
    gathered: list[BucketKinds] = []
    work = 0
    for lengths, held in runs:
        size = held.shape[1]
        kinds = np.repeat(np.arange(len(held)), size)
        ones = np.ones(held.size, np.int64)
        gathered.append(BucketKinds(lengths, kinds, held.reshape(-1).astype(np.int64), ones))
        work += held.size * size
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
