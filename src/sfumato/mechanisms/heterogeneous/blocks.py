"""One joint k-d split of all buckets into blocks with equally many records of every bucket.

Every bucket is cut at the same share of its own order, so blocks keep the global buckets and with
them the guarantee; only quasi values decide (methods, section 6; cutting first would not do, H19).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.heterogeneous.ncp import Axis, NumericAxis

SAMPLE = 4  # how many records a row is thought to draw when the gain of a cut is judged


def split(records: IntArray, axes: Sequence[Axis], size: int) -> list[IntArray]:
    """Cut `records[bucket, place]` into blocks of at most `size` places. O(N log N).

    >>> axis = NumericAxis("x", np.array([5, 0, 9, 4, 1, 8]), np.arange(10), 9)
    >>> [block.tolist() for block in split(np.array([[0, 1, 2], [3, 4, 5]]), [axis], 2)]
    [[[1, 0], [4, 3]], [[2], [5]]]
    """
    waiting, blocks = [records], []
    while waiting:
        node = waiting.pop()
        if node.shape[1] <= size:
            blocks.append(node)
            continue
        axis, rank, cut = _best_cut(node, axes, size)
        order = np.argsort(rank[axis.codes[node]], axis=1, kind="stable")
        node = np.take_along_axis(node, order, axis=1)
        waiting += [node[:, cut:], node[:, :cut]]
    return blocks


def _best_cut(node: IntArray, axes: Sequence[Axis], size: int) -> tuple[Axis, IntArray, int]:
    """The column whose halves promise the smallest ranges and sets: its order and the cut."""
    places = node.shape[1]
    leaves = -(-places // size)
    half = (leaves // 2) / leaves
    best: tuple[float, Axis, IntArray, int] | None = None
    for axis in axes:
        counts = np.bincount(axis.codes[node].ravel(), minlength=axis.values)
        if isinstance(axis, NumericAxis):
            order = np.arange(axis.values)
        else:
            order = np.argsort(-counts, kind="stable")
        share = np.cumsum(counts[order]) / node.size
        near = share[np.argmin(np.abs(share - half))]
        # a cut between two values is worth an uneven block, unless it is very uneven
        cut_share = near if 0.25 <= near <= 0.75 else half
        cut = min(max(round(cut_share * places), 1), places - 1)
        left = np.minimum(np.cumsum(counts[order]), cut_share * node.size)
        left = np.diff(left, prepend=0.0)
        right = counts[order] - left
        gain = _expected(axis, order, counts[order].astype(np.float64)) - (
            cut_share * _expected(axis, order, left)
            + (1 - cut_share) * _expected(axis, order, right)
        )
        if best is None or gain > best[0]:
            rank = np.empty(axis.values, np.int64)
            rank[order] = np.arange(axis.values)
            best = (gain, axis, rank, cut)
    assert best is not None
    return best[1], best[2], best[3]


def _expected(axis: Axis, order: IntArray, counts: np.ndarray) -> float:
    """The NCP of `SAMPLE` random records: by the chance to meet each value or each gap."""
    total = counts.sum()
    if total <= 0 or axis.denominator == 0:
        return 0.0
    if isinstance(axis, NumericAxis):
        below = np.cumsum(counts)[:-1] / total
        gaps = np.diff(axis.positions[order])
        crossed = 1 - below**SAMPLE - np.maximum(1 - below, 0) ** SAMPLE
        return float((gaps * crossed).sum() / axis.denominator)
    met = 1 - (1 - counts / total) ** SAMPLE
    return float((met.sum() - 1) / axis.denominator)
