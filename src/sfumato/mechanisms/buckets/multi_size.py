"""Many sizes by cutting every part in two again (F'-privacy paper, Section 5.2, Algorithm 2)."""

from __future__ import annotations

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.settings import (
    Limits,
    Setting,
    loss,
    partition_pair,
    setting_of,
)
from sfumato.mechanisms.buckets.two_size import best_two_size


def recursive_multi_size(
    counts: IntArray, limits: Limits, max_size: int
) -> tuple[Setting, IntArray] | None:
    """A valid setting with any number of sizes, and who goes where; None if even two sizes fail.

    Errata F11: the search starts from one bucket with everything, a part is cut only where that
    lowers its loss, the ceilings stay those of the whole table, and records move in the order of
    their codes.
    """
    leaves = _cut(counts, None, limits, max_size)
    if leaves is None:
        return None
    setting = setting_of(
        (size for size in {size for size, _, _ in leaves}),
        (
            sum(buckets for other, buckets, _ in leaves if other == size)
            for size in {size for size, _, _ in leaves}
        ),
    )
    shares = np.zeros((len(setting), len(counts)), np.int64)
    row = {part.size: number for number, part in enumerate(setting)}
    for size, _, part_counts in leaves:
        shares[row[size]] += part_counts
    return setting, shares


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
