"""Who stands in which bucket: by mixed blocks, or round robin as the papers have it.

A filling takes the slots 0 … h_x − 1 of every value to buckets numbered from 0, and lists the
contents of its buckets as runs: (first bucket, kinds), `times` buckets of the first kind, then
those of the second, and so on. All buckets of one piece have the same size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.steps import SlotRuns
from sfumato.operators.buckets import BucketKinds

Runs = Iterator[tuple[int, BucketKinds]]


class Filling(Protocol):
    """`MixedGroups` (see `mechanisms.mixing`) and `RoundRobin`."""

    @property
    def counts(self) -> IntArray: ...

    @property
    def buckets(self) -> int: ...

    def slot_runs(self) -> SlotRuns: ...

    def runs(self) -> Runs: ...

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

    def slot_runs(self) -> SlotRuns:
        held, begins = self.counts[:, None], self.edges[:-1, None]
        return SlotRuns(held, begins, np.array([self.buckets]), np.zeros(1, np.int64))

    def runs(self) -> Runs:
        rows, more = divmod(int(self.counts.sum()), self.buckets)
        begins = np.unique(np.append(self.edges[:-1] % self.buckets, [0, more]))
        begins = begins[begins < self.buckets]
        lengths = np.diff(np.append(begins, self.buckets))
        for size, chosen in ((rows + 1, begins < more), (rows, begins >= more)):
            if chosen.any():
                spots = np.arange(size)[None, :] * self.buckets + begins[chosen][:, None]
                held = np.searchsorted(self.edges[1:], spots, side="right")
                yield int(begins[chosen][0]), kinds_of_rows(lengths[chosen], held)

    def check(self) -> None:
        assert self.buckets >= 1, self
        assert bool((self.counts >= 0).all()), self


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
