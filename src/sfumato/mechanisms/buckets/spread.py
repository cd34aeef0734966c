"""Who goes to which part, spread as evenly as the ceilings let.

Most settings leave a choice. A value that fills all the room it has in a part stands in every
bucket there, and values that always stand together cannot be told apart in answers (methods,
section 1). So records are dealt with the largest entropy: every (value, part) is filled to
σ(a_x + b_j) of its room, σ the logistic function, which stays away from empty and from full
wherever it can. Rounding down and a maximum flow make it whole; of two parts, what one does not
take is the other's, so there rounding is enough.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.settings import Limits, Setting, part_rooms
from sfumato.mechanisms.buckets.transport import transport

FloatArray = npt.NDArray[np.float64]

_ROUNDS = 60
_NEAR = 1e-4  # of a part's records: the flow sees to the rest
_STEPS = 40
_CLOSE = 1e-9  # of a total
_REACH = 40.0  # σ(40) is 1 to the last bit


def spread_evenly(setting: Setting, counts: IntArray, limits: Limits) -> IntArray | None:
    """Records by part and value; None where no assignment fills the setting within its limits.

    O(rounds · parts · values), then a flow.
    """
    rooms = part_rooms(setting, counts, limits)
    if sum(part.records for part in setting) != int(counts.sum()) or bool(
        (rooms.sum(axis=0) < counts).any()
    ):
        return None
    if len(setting) < 2:
        return np.broadcast_to(counts, (len(setting), len(counts))).copy()
    demands = np.array([part.records for part in setting], np.int64)
    even = _even(rooms.astype(float), counts.astype(float), demands.astype(float))
    if len(setting) == 2:
        return _two_parts(even[1], counts, int(demands[1]), rooms)
    by_value = counts / np.maximum(even.sum(axis=0), 1e-300)
    by_part = demands / np.maximum(even.sum(axis=1), 1e-300)
    scale = np.minimum(np.minimum(by_value[None, :], by_part[:, None]), 1.0)
    start = np.minimum(np.floor(even * scale * (1 - 1e-9)).astype(np.int64), rooms)
    flow = transport(counts, demands, rooms, start)
    return None if flow.short else flow.amounts


def _two_parts(even: FloatArray, counts: IntArray, demand: int, rooms: IntArray) -> IntArray | None:
    """Whole numbers near `even` for the second part, the rest for the first."""
    least, most = np.maximum(counts - rooms[0], 0), rooms[1]
    if not int(least.sum()) <= demand <= int(most.sum()):
        return None
    portions = np.clip(np.floor(even).astype(np.int64), least, most)
    short = demand - int(portions.sum())
    if short >= 0:
        portions += _portions(most - portions, even - portions, short)
    else:
        portions -= _portions(portions - least, portions - even, -short)
    return np.stack([counts - portions, portions])


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


def _even(rooms: FloatArray, counts: FloatArray, demands: FloatArray) -> FloatArray:
    """rooms · σ(a_x + b_j) with row sums `demands` and column sums `counts`, nearly."""
    parts, values = rooms.shape
    of_part, of_value = np.zeros(parts), np.zeros(values)
    for _ in range(_ROUNDS):
        of_value = _level(rooms, of_part[:, None], counts, of_value)
        even = rooms * _filled(of_part[:, None] + of_value[None, :])
        if bool((np.abs(even.sum(axis=1) - demands) <= _NEAR * demands).all()):
            break
        of_part = _level(rooms.T, of_value[:, None], demands, of_part)
    return rooms * _filled(of_part[:, None] + of_value[None, :])


def _level(
    rooms: FloatArray, offsets: FloatArray, totals: FloatArray, level: FloatArray
) -> FloatArray:
    """For each column t with Σ rooms·σ(offset + t) = total: Newton's steps from `level`, halving
    where they leave what is known (the sum grows with t)."""
    low = np.full(rooms.shape[1], -2 * _REACH)
    high = np.full(rooms.shape[1], 2 * _REACH)
    for _ in range(_STEPS):
        filled = _filled(offsets + level[None, :])
        filled_rooms = rooms * filled
        beyond = filled_rooms.sum(axis=0) - totals
        low, high = np.where(beyond < 0, level, low), np.where(beyond < 0, high, level)
        if bool((np.abs(beyond) <= _CLOSE * totals).all()):
            break
        slope = (filled_rooms * (1 - filled)).sum(axis=0)
        step = level - beyond / np.maximum(slope, 1e-300)
        level = np.where((step > low) & (step < high), step, (low + high) / 2)
    return np.asarray(np.clip(level, -_REACH, _REACH))


def _filled(level: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-np.clip(level, -_REACH, _REACH))))
