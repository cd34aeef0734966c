"""The two-size search without its shortcuts, for Figures 6 and 7 of the paper."""

from __future__ import annotations

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.settings import Limits, Setting, loss, setting_of
from sfumato.mechanisms.buckets.two_size import PairList

_POSITIONS = 1 << 14  # pairs that are tested at once


def sequential_two_size(
    counts: IntArray, limits: Limits, max_size: int, *, prune_by_loss: bool
) -> Setting | None:
    """Test every pair of every list Γ(S₁, S₂) by Theorem 3, or only the prefix of smaller loss.

    "No-pruning" and "Loss-pruning" of Section 7.3: O(m·N) and less.
    """
    rows = int(counts.sum())
    sizes = np.arange(limits.smallest_size, max_size + 1, dtype=np.int64)
    allowed = limits.table(sizes)
    best: Setting | None = None
    best_loss: int | None = None
    for i, small in enumerate(sizes.tolist()):
        for j in range(i + 1, len(sizes)):
            pairs = PairList.of(small, int(sizes[j]), rows)
            if pairs is None:
                continue
            last = pairs.last
            if prune_by_loss and best_loss is not None:
                last = min(last, (best_loss - pairs.first_loss - 1) // pairs.loss_step)
            position = _first_valid(
                pairs, last, counts, allowed[i], allowed[j], whole=not prune_by_loss
            )
            if position is None:
                continue
            found = setting_of((small, int(sizes[j])), pairs.at(position))
            if best_loss is None or loss(found) < best_loss:
                best, best_loss = found, loss(found)
    return best


def _first_valid(
    pairs: PairList,
    last: int,
    counts: IntArray,
    small_allowed: IntArray,
    large_allowed: IntArray,
    *,
    whole: bool,
) -> int | None:
    """The first valid position; `whole` looks at all of them first, as without any pruning."""
    first: int | None = None
    for begin in range(0, last + 1, _POSITIONS):
        position = np.arange(begin, min(begin + _POSITIONS, last + 1))
        small = pairs.small_buckets - position * pairs.small_step
        large = pairs.large_buckets + position * pairs.large_step
        in_small = np.minimum(small[:, None] * small_allowed, counts)
        in_large = np.minimum(large[:, None] * large_allowed, counts)
        valid = (
            (in_small + in_large >= counts).all(axis=1)
            & (in_small.sum(axis=1) >= pairs.small * small)
            & (in_large.sum(axis=1) >= pairs.large * large)
        )
        if first is None and valid.any():
            first = begin + int(np.argmax(valid))
            if not whole:
                return first
    return first
