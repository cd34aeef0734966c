"""Cutting quasi space: a region in two halves, and all buckets of a layer into joint blocks.

Only quasi values decide where to cut: the column whose halves promise the smallest ranges and sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.draws import IntArray
from sfumato.mechanisms.heterogeneous.ncp import Axis, Floats, NumericAxis

SAMPLE = 4  # how many records a row is thought to draw when the gain of a cut is judged


def halves(records: IntArray, axes: Sequence[Axis], least: int) -> tuple[IntArray, IntArray] | None:
    """The records on either side of the best cut between two values, at least `least` on each.

    >>> axis = NumericAxis("x", np.array([5, 0, 9, 4]), np.arange(10), 9)
    >>> [side.tolist() for side in halves(np.arange(4), [axis], 1)]
    [[1, 3], [0, 2]]
    """
    best: tuple[float, Axis, IntArray] | None = None
    for axis in axes:
        counts, order = _ordered(axis, axis.codes[records])
        below = np.cumsum(counts)
        cuts = np.flatnonzero((below >= least) & (len(records) - below >= least))
        if not len(cuts):
            continue
        cut = int(cuts[np.argmin(np.abs(2 * below[cuts] - len(records)))])
        left = np.where(np.arange(len(counts)) <= cut, counts, 0)
        gain = _gain(axis, order, counts, left)
        if best is None or gain > best[0]:
            best = gain, axis, order[: cut + 1]
    if best is None:
        return None
    _, axis, low = best
    left_side = np.isin(axis.codes[records], low)
    return records[left_side], records[~left_side]


def split(records: IntArray, axes: Sequence[Axis], size: int) -> list[IntArray]:
    """Cut `records[bucket, place]` into blocks of at most `size` places. O(N log N).

    Every bucket is cut at the same share of its own order, so blocks keep the buckets and with
    them the guarantee (methods, section 6; errata H19).

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
        counts, order = _ordered(axis, axis.codes[node].ravel())
        share = np.cumsum(counts) / node.size
        near = share[np.argmin(np.abs(share - half))]
        # a cut between two values is worth an uneven block, unless it is very uneven
        cut_share = near if 0.25 <= near <= 0.75 else half
        cut = min(max(round(cut_share * places), 1), places - 1)
        left = np.diff(np.minimum(np.cumsum(counts), cut_share * node.size), prepend=0.0)
        gain = _gain(axis, order, counts, left)
        if best is None or gain > best[0]:
            rank = np.empty(axis.values, np.int64)
            rank[order] = np.arange(axis.values)
            best = (gain, axis, rank, cut)
    assert best is not None
    return best[1], best[2], best[3]


def _ordered(axis: Axis, codes: IntArray) -> tuple[IntArray, IntArray]:
    """How often each value occurs, in an order in which neighbours belong together, and the order:
    numbers as they are, categories with the commonest first."""
    counts = np.bincount(codes, minlength=axis.values)
    if isinstance(axis, NumericAxis):
        return counts, np.arange(axis.values)
    order = np.argsort(-counts, kind="stable")
    return counts[order], order


def _gain(axis: Axis, order: IntArray, counts: IntArray, left: npt.NDArray[Any]) -> float:
    """By how much a cut makes rows of this column smaller, records on either side alike."""
    whole, part = counts.astype(np.float64), left.astype(np.float64)
    share = float(part.sum() / whole.sum())
    inside = share * _expected(axis, order, part) + (1 - share) * _expected(
        axis, order, whole - part
    )
    return _expected(axis, order, whole) - inside


def _expected(axis: Axis, order: IntArray, counts: Floats) -> float:
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
