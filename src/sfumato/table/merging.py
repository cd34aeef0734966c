"""Classes of at least k people in quasi space, cut so that little is lost to ranges and sets.

Top down, as Mondrian cuts (LeFevre and others 2006), but along the column and at the place where
the two halves lose least, instead of the middle of the widest column. All on distinct combinations
of quasi values and how many people have them, so people with equal values stay together and the
order of the rows does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_LEAST_SHARE = 16  # a cut leaves at least one part in so many on either side, while it can


@dataclass(frozen=True, eq=False)
class MergedAxis:
    """One quasi column: places 0 … size − 1 in its domain.

    `positions` are the numbers behind the places of an ordered column, None for categories.
    """

    size: int
    positions: FloatArray | None = None

    def penalties(self, places: IntArray) -> FloatArray:
        """The normalized certainty penalty of showing places as one range or set, for every
        beginning of a list of them.

        >>> MergedAxis(5, np.array([0.0, 1, 2, 3, 10])).penalties(np.array([1, 3])).tolist()
        [0.0, 0.2]
        >>> MergedAxis(4).penalties(np.array([0, 3, 3])).tolist()
        [0.0, 0.5, 0.5]
        """
        if self.positions is not None:
            numbers = self.positions[places]
            whole = self.positions[-1] - self.positions[0]
            wide = np.maximum.accumulate(numbers) - np.minimum.accumulate(numbers)
            return np.asarray(wide / whole if whole else wide)
        _, first = np.unique(places, return_index=True)
        new = np.zeros(len(places))
        new[first] = 1
        different = np.cumsum(new)
        return np.asarray(np.where(different > 1, different / self.size, 0.0))


def classes(axes: Sequence[MergedAxis], places: IntArray, people: IntArray, k: int) -> IntArray:
    """The class of every combination: `places[column, combination]`, held by so many `people`.

    Every class has at least k people, if there are k at all. O(columns² × combinations × depth).

    >>> age = MergedAxis(6, np.array([20.0, 21, 22, 60, 61, 62]))
    >>> classes([age], np.array([[0, 1, 2, 3, 4, 5]]), np.ones(6, int), 3).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    class_of, number = np.zeros(places.shape[1], np.int64), 0
    waiting = [np.arange(places.shape[1])]
    while waiting:
        members = waiting.pop()
        cut = _best_cut(axes, places[:, members], people[members], k)
        if cut is None:
            class_of[members], number = number, number + 1
        else:
            waiting += [members[cut], members[~cut]]
    return class_of


def _best_cut(
    axes: Sequence[MergedAxis], places: IntArray, people: IntArray, k: int
) -> npt.NDArray[np.bool_] | None:
    """Which combinations go to one side, where the sides lose least; None where none has k."""
    total = int(people.sum())
    if total < 2 * k:
        return None
    best, chosen = np.inf, None
    for axis, positions in zip(axes, places, strict=True):
        ranks = _order(axis, positions, people)
        order = np.argsort(ranks, kind="stable")
        sorted_ranks, counted = ranks[order], np.cumsum(people[order])
        ends = np.flatnonzero(np.diff(sorted_ranks))  # the last of each value but the largest
        for least in (max(k, total // _LEAST_SHARE), k):
            fits = ends[(counted[ends] >= least) & (total - counted[ends] >= least)]
            if len(fits):
                break
        else:
            continue
        before, after = np.zeros(len(order)), np.zeros(len(order))
        for other, theirs in zip(axes, places, strict=True):
            before += other.penalties(theirs[order])
            after += other.penalties(theirs[order[::-1]])[::-1]
        losses = counted[fits] * before[fits] + (total - counted[fits]) * after[fits + 1]
        place = int(np.argmin(losses))
        if losses[place] < best:
            best = float(losses[place])
            chosen = ranks > sorted_ranks[fits[place]]
    return chosen


def _order(axis: MergedAxis, own: IntArray, people: IntArray) -> IntArray:
    """The order in which a column can be cut: of its numbers, or the commonest first."""
    if axis.positions is not None:
        return own
    counts = np.bincount(own, people, minlength=axis.size)
    return np.asarray(np.argsort(np.argsort(-counts, kind="stable"), kind="stable")[own])


def certainty_penalty(
    axes: Sequence[MergedAxis], places: IntArray, people: IntArray, found: IntArray
) -> float:
    """The global certainty penalty: what a person's value is widened to, as a share of its domain.

    The mean over people and columns; 0 where nothing is widened, 1 where everything is hidden.
    """
    order = np.argsort(found, kind="stable")
    starts = np.flatnonzero(np.diff(found[order], prepend=-1))
    lost = 0.0
    for members in np.split(order, starts[1:]):
        size = int(people[members].sum())
        lost += size * sum(
            float(axis.penalties(positions[members])[-1])
            for axis, positions in zip(axes, places, strict=True)
        )
    return lost / (int(people.sum()) * len(axes))
