"""Who goes to which part: as many of every value as the ceilings let, in proportion.

Most settings leave a choice. A value that fills all the room it has in a part stands in every
bucket there, and values that always stand together cannot be told apart in answers (methods,
section 1). So the larger buckets take the same share of every value, but what smaller ones cannot
hold and no more than they have room for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.foretold import Judge, whole_error
from sfumato.mechanisms.buckets.settings import Limits, Setting, part_rooms
from sfumato.mechanisms.buckets.sizes import SIZES, View, foreseen_settings, in_proportion
from sfumato.operators.base import FloatArray


def best_foreseen(
    views: Sequence[View], largest: int, sizes: int = SIZES, judged: Judge = whole_error
) -> tuple[Setting, list[IntArray]] | None:
    """The first of `foreseen_settings` that each column can fill, and who goes where in each."""
    for setting in foreseen_settings(views, largest, sizes, judged):
        spread = [spread_evenly(setting, counts, limits) for counts, limits in views]
        whole = [shares for shares in spread if shares is not None]
        if len(whole) == len(views):
            return setting, whole
    return None


def spread_evenly(setting: Setting, counts: IntArray, limits: Limits) -> IntArray | None:
    """Records by part and value; None where the setting cannot be filled within its limits.

    Of more than two parts one after the other is filled, from the largest: that may fail although
    some assignment exists (Example 5), which `transport` finds.

    >>> from fractions import Fraction as F
    >>> from sfumato.mechanisms.buckets.settings import setting_of
    >>> spread_evenly(setting_of([4, 6], [15, 10]), np.full(4, 30), Limits((F(1, 2),) * 4)).tolist()
    [[15, 15, 15, 15], [15, 15, 15, 15]]
    """
    rooms, left = part_rooms(setting, counts, limits), counts
    if sum(part.records for part in setting) != int(counts.sum()):
        return None
    shares = np.zeros((len(setting), len(counts)), np.int64)
    for number in range(len(setting) - 1, -1, -1):
        least = np.maximum(left - rooms[:number].sum(axis=0), 0)
        most, amount = np.minimum(rooms[number], left), setting[number].records
        if bool((least > most).any()) or not int(least.sum()) <= amount <= int(most.sum()):
            return None
        even = in_proportion(left, least[None], most[None], np.array([amount]))[0]
        shares[number] = _whole(even, least, most, amount)
        left = left - shares[number]
    return shares


def _whole(even: FloatArray, least: IntArray, most: IntArray, amount: int) -> IntArray:
    """Whole numbers near these that sum to the amount."""
    portions = np.clip(np.floor(even + 1e-9).astype(np.int64), least, most)
    short = amount - int(portions.sum())
    if short >= 0:
        return portions + _portions(most - portions, even - portions, short)
    return portions - _portions(portions - least, portions - even, -short)


def _portions(free: IntArray, wanted: FloatArray, amount: int) -> IntArray:
    """At most `free` of each, `amount` together: one of each that wants most, then what is left.

    >>> _portions(np.array([1, 0, 5, 1]), np.array([0.1, 0.9, 0.5, 0.7]), 4).tolist()
    [1, 0, 2, 1]
    """
    order = np.argsort(-wanted, kind="stable")
    once = np.minimum(free[order], 1)
    once[np.cumsum(once) > amount] = 0
    left = free[order] - once
    before = np.cumsum(left) - left
    portions = np.empty_like(free)
    portions[order] = once + np.clip(amount - int(once.sum()) - before, 0, left)
    return portions
