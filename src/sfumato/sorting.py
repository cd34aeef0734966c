"""Sorting by counting: in which order small codes, and random words, come.

Arrow counts where there are few different values: five times as fast as numpy, to the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.keystream import IntArray, Words

_DIGIT = 11  # bits: Arrow counts up to 4,096 values, and up to 2,048 of them in the cache
_FEW = 1 << 12  # numbers that numpy sorts before Arrow has begun


def counted_order(codes: npt.NDArray[Any], values: int) -> IntArray:
    """A stable `argsort` of codes in `[0, values)`, by counting where that is possible.

    >>> counted_order(np.array([2, 0, 1, 0]), 3).tolist()
    [1, 3, 2, 0]
    """
    narrow = codes.astype(np.uint16, copy=False) if values <= 1 << 16 else codes
    if len(codes) < _FEW or values > 1 << _DIGIT:
        return np.argsort(narrow, kind="stable")
    import pyarrow as pa
    import pyarrow.compute as pc

    order: IntArray = pc.array_sort_indices(pa.array(narrow)).to_numpy().view(np.int64)
    return order


def sorted_places(words: Words) -> IntArray:
    """`argsort` of random words, in a third of its time.

    The highest bits part them into runs that fit into the cache. In each run two passes over eleven
    bits, from the lower, put the next bits in order; the few words in which these are equal are
    then sorted whole.

    >>> sorted_places(np.array([3 << 62, 7, 1 << 40], np.uint64)).tolist()
    [1, 2, 0]
    """
    if len(words) < _FEW:
        return np.argsort(words, kind="stable")
    bits = max(0, (len(words) >> 15).bit_length())
    runs = (words >> np.uint64(1)) >> np.uint64(63 - bits)  # a shift by 64 would be none
    order = counted_order(runs, 1 << bits)
    below = (words >> np.uint64(64 - bits - 2 * _DIGIT)).astype(np.uint32)
    places = np.empty(len(words), np.int64)
    start = 0
    for end in np.cumsum(np.bincount(runs.view(np.int64), minlength=1 << bits)).tolist():
        run = order[start:end]
        places[start:end] = run.take(_by_two_digits(below.take(run, mode="clip")), mode="clip")
        start = end
    _sort_tied(places, below, words)
    return places


def _by_two_digits(numbers: npt.NDArray[np.uint32]) -> IntArray:
    """The order of numbers by their lowest 22 bits."""
    mask, many = np.uint32((1 << _DIGIT) - 1), 1 << _DIGIT
    low = counted_order((numbers & mask).astype(np.uint16), many)
    high = (numbers >> np.uint32(_DIGIT)) & mask
    # `clip` spares numpy a look at places that are all inside
    return low.take(counted_order(high.astype(np.uint16).take(low, mode="clip"), many), mode="clip")


def _sort_tied(order: IntArray, below: npt.NDArray[np.uint32], words: Words) -> None:
    """Sort by whole words what is in order but for equal bits."""
    ranked = below.take(order, mode="clip")
    same = ranked[1:] == ranked[:-1]
    if same.any():
        tied = np.append(same, False)
        tied[1:] |= same
        places = np.flatnonzero(tied)
        order[places] = order[places][np.argsort(words[order[places]], kind="stable")]
