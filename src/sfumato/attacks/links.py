"""How quasi-identifiers and a sensitive value are associated in the raw table: what the strongest
reader knows, by naive Bayes, whose tables are counted, or by softmax (`operators.links`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.links import CELLS, HELD_OUT, RIDGES, Design, Links, fit_links, seen_truth

_BINS = 8  # that numeric columns are cut into besides


def know_links(
    codes: Sequence[IntArray],
    sizes: Sequence[int],
    bins: Mapping[int, IntArray],
    truth: IntArray,
    values: int,
    pick: Callable[[int, int], IntArray],
) -> Links:
    """The raw table's own links: naive Bayes or softmax, whichever makes people who were kept back
    likelier, then learned from everybody."""
    everybody = np.sort(pick(len(truth), len(truth)))
    order = pick(len(truth), len(truth))
    kept, rest = np.sort(order[::HELD_OUT]), np.setdiff1d(everybody, order[::HELD_OUT])
    if not len(rest):
        return count_links(codes, sizes, truth, values)

    def learned(rows: IntArray, ridges: Sequence[float]) -> Links:
        inside = [column[rows] for column in codes]
        prior = (np.bincount(truth[rows], minlength=values) + 1) / (len(rows) + values)
        design = Design.of(inside, sizes, bins)
        return fit_links(design, seen_truth(truth[rows], values), prior, pick, ridges)

    counted = count_links([column[rest] for column in codes], sizes, truth[rest], values)
    fitted = learned(rest, RIDGES)
    if foreseen(fitted, codes, truth, kept) <= foreseen(counted, codes, truth, kept):
        return count_links(codes, sizes, truth, values)
    return learned(everybody, (fitted.ridge or RIDGES[0],))


def count_links(
    codes: Sequence[IntArray], sizes: Sequence[int], truth: IntArray, values: int, alpha: float = 1
) -> Links:
    """Naive Bayes, counted, with Laplace's correction.

    >>> sex, ill = np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])
    >>> np.exp(count_links([sex], [2], ill, 2).log_chances([sex])).round(2).tolist()
    [[0.78, 0.22], [0.78, 0.22], [0.55, 0.45], [0.55, 0.45]]
    """
    tables = []
    for column, size in zip(codes, sizes, strict=True):
        counts = np.bincount(column * values + truth, minlength=size * values)
        table = counts.reshape(size, values) + alpha
        tables.append(np.log(table / table.sum(axis=0)))
    start = np.bincount(truth, minlength=values) + alpha
    return Links("naive Bayes", np.log(start / start.sum()), tuple(tables))


def foreseen(rule: Links, codes: Sequence[IntArray], truth: IntArray, rows: IntArray) -> float:
    """The log likelihood of some people's true values under a rule."""
    step = max(1, CELLS // rule.values)
    return sum(
        float(rule.log_chances(codes, some)[np.arange(len(some)), truth[some]].sum())
        for some in (rows[start : start + step] for start in range(0, len(rows), step))
    )


def quantile_bins(numbers: FloatArray, counts: IntArray) -> IntArray | None:
    """A coarse column beside a numeric one: the bin of every code; None where there are few codes.

    >>> quantile_bins(np.arange(20.0), np.ones(20, np.int64)).tolist()
    [0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 5, 5, 6, 6, 7, 7, 7]
    """
    if len(numbers) <= _BINS:
        return None
    order = np.argsort(numbers, kind="stable")
    below = np.cumsum(counts[order]) - counts[order] / 2
    bins = np.empty(len(numbers), np.int64)
    bins[order] = np.minimum(below * _BINS // max(int(counts.sum()), 1), _BINS - 1)
    return bins
