"""Phases 1 and 2: groups with few values, each as balanced as the table, and an order of them
(thesis, Figures 10 and 13)."""

from __future__ import annotations

import numpy as np

from sfumato.draws import BoolArray, IntArray


def balanced_groups(counts: IntArray, protected: BoolArray) -> IntArray:
    """Counts by (group, value). `protected` marks SA', the values that the promise covers.

    Figure 10 with h = min(μ_θ, ⌊|T₀|/θ⌋ − μ_{θ+1}) (errata T4, T5), θ taken on the covered records
    (T6), ties by count, then index (T7). The other records follow in proportion to the groups'
    sizes, commonest value first, the rest to the last group. At most m + 1 groups; O(m log m) each.

    >>> example = np.array([12, 8, 6, 5, 4, 3, 1, 1, 1, 1])
    >>> balanced_groups(example, np.ones(10, bool)).tolist()[:2]
    [[6, 6, 6, 0, 0, 0, 0, 0, 0, 0], [4, 0, 0, 4, 4, 0, 0, 0, 0, 0]]
    """
    left = np.where(protected, counts, 0).astype(np.int64)
    covered = int(left.sum())
    if covered == 0:
        raise ValueError("no covered record: there is nothing to balance")
    theta = covered // int(left.max())
    groups: list[IntArray] = []
    m = len(left)
    order = np.arange(m)
    while int(left.sum()) > 0:
        # count down, then index; nearly sorted from the round before, which a merge sort likes
        order = order[np.argsort((order - left[order] * m), kind="stable")]
        ranked = left[order]
        following = int(ranked[theta]) if theta < len(ranked) else 0
        h = min(int(ranked[theta - 1]), int(left.sum()) // theta - following)
        group = left.copy()
        if h > 0:
            group = np.zeros_like(left)
            group[order[:theta]] = h
        groups.append(group)
        left = left - group
    table = np.array(groups, np.int64)
    return table + _spread_rest(np.where(protected, 0, counts), table.sum(axis=1), covered)


def _spread_rest(rest: IntArray, sizes: IntArray, covered: int) -> IntArray:
    """The uncovered records: ⌊|g|·|T''|/|T'|⌋ for each group, the remainder for the last."""
    total = int(rest.sum())
    quotas = np.array([int(size) * total // covered for size in sizes], np.int64)
    quotas[-1] += total - quotas.sum()
    order = np.argsort(-rest, kind="stable")
    ends = np.cumsum(rest[order])
    edges = np.cumsum(quotas)
    spread = np.zeros((len(sizes), len(rest)), np.int64)
    # overlap of the run of value k, [ends[k-1], ends[k]), with the run of each group
    low = np.maximum((ends - rest[order])[None, :], (edges - quotas)[:, None])
    high = np.minimum(ends[None, :], edges[:, None])
    spread[:, order] = np.maximum(high - low, 0)
    return spread


def neighbours_first(groups: IntArray) -> list[int]:
    """Neighbours share values: reverse Cuthill–McKee on A·Aᵀ, groups as rows of A.

    The order is not unique; the thesis's own, of its Example 8, merges no better (errata T8).
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    holds = csr_array((groups > 0).astype(np.int32))
    order = reverse_cuthill_mckee(csr_array(holds @ holds.T), symmetric_mode=True)
    return [int(group) for group in order]
