"""Many sizes by cutting every part in two again (F'-privacy paper, Section 5.2, Algorithm 2)."""

from __future__ import annotations

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.settings import (
    Choice,
    Limits,
    loss,
    partition_pair,
    setting_of,
)
from sfumato.mechanisms.buckets.two_size import best_two_size


def recursive_multi_size(counts: IntArray, limits: Limits, max_size: int) -> Choice | None:
    """A valid setting with any number of sizes, and who goes where; None if even two sizes fail.

    Errata F11: the search starts from one bucket with everything, a part is cut only where that
    lowers its loss, the ceilings stay those of the whole table, and records move in the order of
    their codes.
    """
    leaves = _cut(counts, None, limits, max_size)
    if leaves is None:
        return None
    sizes, row = np.unique([size for size, _, _ in leaves], return_inverse=True)
    buckets, shares = np.zeros(len(sizes), np.int64), np.zeros((len(sizes), len(counts)), np.int64)
    for number, (_, many, part_counts) in zip(row, leaves, strict=True):
        buckets[number] += many
        shares[number] += part_counts
    return Choice(setting_of(sizes, buckets), shares)


def _cut(
    counts: IntArray, before: int | None, limits: Limits, max_size: int
) -> list[tuple[int, int, IntArray]] | None:
    """Leaves (size, buckets, counts) below one part; None where nothing beats `before`."""
    setting = best_two_size(counts, limits, max_size)
    if setting is None or (before is not None and loss(setting) >= before):
        return None
    shares = partition_pair(setting, counts, limits)
    leaves: list[tuple[int, int, IntArray]] = []
    for part, part_counts in zip(setting, shares, strict=True):
        deeper = _cut(part_counts, part.loss, limits, max_size) if len(setting) > 1 else None
        leaves += deeper or [(part.size, part.buckets, part_counts)]
    return leaves
