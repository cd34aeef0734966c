"""Phase 2: an order in which neighbours share values (thesis, Figure 13)."""

from __future__ import annotations

import numpy as np

from sfumato.draws import BoolArray, IntArray


def reverse_cuthill_mckee(groups: IntArray) -> list[int]:
    """Reverse Cuthill–McKee on A·Aᵀ, groups as rows of A.

    The order is not unique; this rule gives the thesis's Example 8 (errata T8): components by
    their smallest group, a pseudo-peripheral root (George–Liu) found from it, neighbours by
    (degree, number), reversed within each component.

    >>> example = np.array([[6, 6, 6, 0, 0, 0, 0], [4, 0, 0, 4, 4, 0, 0], [2, 2, 0, 0, 0, 2, 0],
    ...                     [0, 0, 0, 1, 0, 1, 1]])
    >>> reverse_cuthill_mckee(example)
    [0, 2, 1, 3]
    """
    linked = _linked(groups > 0)
    np.fill_diagonal(linked, False)
    degrees = linked.sum(axis=1)
    neighbours = [
        sorted(np.flatnonzero(row).tolist(), key=lambda other: (int(degrees[other]), other))
        for row in linked
    ]
    seen: set[int] = set()
    order: list[int] = []
    for start in range(len(groups)):
        if start not in seen:
            component = _breadth_first(_peripheral(start, neighbours, degrees), neighbours)[0]
            seen.update(component)
            order += reversed(component)
    return order


def _linked(holds: BoolArray) -> BoolArray:
    """Which groups share a value: the non-zeros of A·Aᵀ."""
    if holds.size < 1 << 20:
        dense = holds.astype(np.float32)
        return np.asarray((dense @ dense.T) > 0)
    from scipy.sparse import csr_array

    sparse = csr_array(holds.astype(np.int32))
    return np.asarray((sparse @ sparse.T).toarray() > 0)


def _breadth_first(root: int, neighbours: list[list[int]]) -> tuple[list[int], list[int]]:
    """Groups in the order of a breadth-first walk, and the last level of it."""
    order, level, seen = [root], [root], {root}
    while True:
        following = []
        for group in level:
            for other in neighbours[group]:
                if other not in seen:
                    seen.add(other)
                    following.append(other)
        if not following:
            return order, level
        order += following
        level = following


def _depth(root: int, neighbours: list[list[int]]) -> int:
    depth, level, seen = 0, [root], {root}
    while level:
        level = [other for group in level for other in neighbours[group] if other not in seen]
        level = list(dict.fromkeys(level))
        seen.update(level)
        depth += 1
    return depth


def _peripheral(start: int, neighbours: list[list[int]], degrees: IntArray) -> int:
    """George and Liu: go to the least-linked group of the last level while the walk deepens.

    Where it deepens no more, the far end is the root: that is how Example 8 comes out.
    """
    root, depth = start, _depth(start, neighbours)
    while True:
        _, last = _breadth_first(root, neighbours)
        other = min(last, key=lambda group: (int(degrees[group]), group))
        deeper = _depth(other, neighbours)
        if deeper <= depth:
            return other
        root, depth = other, deeper
