"""Values drawn for records from what is likely of them, given what they show.

A record that shows a symbol has P(value | quasi, symbol) ∝ P(value | quasi)·Pr(symbol | value), and
is drawn by itself. In a bucket the listed values are dealt to its people, a way to deal them being
as likely as the product of its P(value | quasi): such a way is drawn by swapping the values of two
people at a time, each swap with its chance given all the others, so that the law of the ways is
kept at every step (methods, section 9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.links import Links

Uniform = Callable[[int], FloatArray]  # so many numbers from [0, 1), each asked for once

_SWEEPS = 24  # of swaps, at least,
_PER_PERSON = 8  # and for every person of a bucket
_CELLS = 1 << 22  # (person, value) pairs that are looked at at once


def drawn_values(chances: FloatArray, uniform: FloatArray) -> IntArray:
    """One value per row, in proportion to the row's chances.

    >>> drawn_values(np.array([[1.0, 3.0], [1.0, 3.0]]), np.array([0.2, 0.3])).tolist()
    [0, 1]
    """
    below = np.cumsum(chances, axis=1)
    codes = (below <= (uniform * below[:, -1])[:, None]).sum(axis=1)
    return np.asarray(np.minimum(codes, chances.shape[1] - 1), np.int64)


def values_given_symbols(
    rule: Links, codes: Sequence[IntArray], likelihood: FloatArray, uniform: Uniform
) -> IntArray:
    """Draw the value of every record; `likelihood` has Pr(what it shows | value) in a row."""
    scores = rule.scores(codes)
    chances = np.exp(scores - scores.max(axis=1, keepdims=True)) * likelihood
    return drawn_values(chances, uniform(len(chances)))


@dataclass(frozen=True, eq=False)
class Lists:
    """Buckets with as many values as people, both in the order of the buckets."""

    sizes: IntArray  # by bucket
    values: IntArray  # that the buckets list, one after the other

    def alike(self) -> Iterator[IntArray]:
        """Places of people, (buckets, size), for buckets of one size, a few at a time."""
        first = np.cumsum(self.sizes) - self.sizes
        for size in np.unique(self.sizes).tolist():
            if not size:
                continue
            chosen = first[self.sizes == size]
            step = max(_CELLS // size**2, 1)
            for low in range(0, len(chosen), step):
                yield chosen[low : low + step, None] + np.arange(size)


def dealt_values(
    rule: Links, codes: Sequence[IntArray], lists: Lists, uniform: Uniform
) -> IntArray:
    """Deal every bucket's values to its people, who stand in the order of the buckets."""
    assigned = np.empty(len(lists.values), np.int64)
    for people in lists.alike():
        slots = lists.values[people]
        person, value = np.broadcast_arrays(people[:, :, None], slots[:, None, :])
        scores = rule.pair_scores(codes, person, value)
        dealt = swapped(scores, uniform)
        assigned[people] = np.take_along_axis(slots, dealt, axis=1)
    return assigned


def swapped(scores: FloatArray, uniform: Uniform) -> IntArray:
    """For matrices of log weights, (matrices, n, n): a column for every row, each way in
    proportion to the product of its weights.

    >>> heavy = np.log([[[1e9, 1.0], [1.0, 1e9]]] * 3)
    >>> swapped(heavy, np.random.default_rng(1).random).tolist()
    [[0, 1], [0, 1], [0, 1]]
    """
    many, size, _ = scores.shape
    row = np.arange(many)[:, None]
    dealt = np.argsort(uniform(many * size).reshape(many, size), axis=1)
    pairs = size // 2
    for _ in range(_SWEEPS + _PER_PERSON * size if pairs else 0):
        order = np.argsort(uniform(size))
        one, other = order[:pairs][None], order[pairs : 2 * pairs][None]
        mine, theirs = dealt[row, one], dealt[row, other]
        gain = scores[row, one, theirs] + scores[row, other, mine]
        gain -= scores[row, one, mine] + scores[row, other, theirs]
        chance = 1 / (1 + np.exp(-np.clip(gain, -700, 700)))
        swap = uniform(many * pairs).reshape(many, pairs) < chance
        dealt[row, one] = np.where(swap, theirs, mine)
        dealt[row, other] = np.where(swap, mine, theirs)
    return dealt
