"""Which groups are private by the exact tails, and how many of their records to perturb."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.reconstruction.groups import PersonalGroups
from sfumato.mechanisms.reconstruction.levels import Level, level_of
from sfumato.mechanisms.reconstruction.tails import (
    FloatArray,
    Setting,
    Tails,
    distinct_rows,
    tails,
)

# by setting, sizes, samples, counts and largest counts of cells: which keep the promise
Private = Callable[[Setting, IntArray, IntArray, IntArray, IntArray], BoolArray]


def distinct_tails(
    setting: Setting, sizes: IntArray, samples: IntArray, counts: IntArray
) -> tuple[Tails, IntArray]:
    """The tails of the different cases, and where each case is among them."""
    first, inverse = distinct_rows(sizes, samples, counts)
    return tails(setting, sizes[first], samples[first], counts[first]), inverse


def private_cells(
    setting: Setting, sizes: IntArray, samples: IntArray, counts: IntArray, largest: IntArray
) -> BoolArray:
    """Whether each (group, value) keeps the promise, given its group's size, sample and maximum."""
    chances, inverse = distinct_tails(setting, sizes, samples, counts)
    chance = float(setting.chance)
    both, either = chances.both_ways(chance)[inverse], chances.either_way(chance)[inverse]
    return np.where(counts == largest, both, either)


def choose_samples(
    groups: PersonalGroups,
    setting: Setting,
    levels: tuple[Level, ...],
    private: Private = private_cells,
) -> IntArray:
    """How many records of each group to perturb: all, its level's number, or fewer; 0 for none.

    A group gets the number of its level, or all its records where it has no more than that. Where
    the test, on the group's own counts, does not allow it (the tails are a sawtooth, and rounding
    can raise a share), the next smaller number that it allows, or else one up to the next level's.
    Groups for which no number will do are not published (errata R4).
    """
    shares = groups.largest / groups.sizes
    allowed = np.array([level.sample for level in levels] + [levels[-1].sample], np.int64)
    level = level_of(shares, levels)
    wanted, more = (
        np.minimum(groups.sizes, allowed[candidate]) for candidate in (level, level + 1)
    )
    samples = np.zeros(len(groups), np.int64)
    for run in groups.blocks():
        none = np.zeros(run.stop - run.start, np.int64)
        samples[run] = _lowered(groups, run, wanted[run], none, setting, private)
        beyond = np.where(samples[run] == 0, more[run], 0)  # seldom: the next level's, then
        samples[run] += _lowered(groups, run, beyond, wanted[run], setting, private)
    return samples


def _lowered(
    groups: PersonalGroups,
    run: slice,
    samples: IntArray,
    floor: IntArray,
    setting: Setting,
    private: Private,
) -> IntArray:
    """The largest number from `samples` down to above `floor` that the test allows, else 0."""
    owner, _, counts = groups.block(run)
    sizes, largest = groups.sizes[run], groups.largest[run]
    chosen = np.where(samples > floor, samples, 0)
    unsure = chosen > 0
    while unsure.any():
        cells = unsure[owner]
        which = owner[cells]
        passed = private(setting, sizes[which], chosen[which], counts[cells], largest[which])
        failed = np.zeros(len(chosen), np.bool_)
        failed[which[~passed]] = True
        chosen[failed] -= 1
        given_up = failed & (chosen <= floor)
        chosen[given_up] = 0
        unsure = failed & ~given_up
    return chosen


def worst_tail(
    groups: PersonalGroups, samples: IntArray, setting: Setting
) -> tuple[FloatArray, BoolArray]:
    """Per published group: the smaller exact tail of its commonest value; whether all is kept."""
    worst, kept = np.ones(len(groups)), np.ones(len(groups), np.bool_)
    sizes, largest = groups.sizes, groups.largest
    chance = float(setting.chance)
    for run in groups.blocks():
        owner, _, counts = groups.block(run)
        cells = samples[run][owner] > 0
        which = owner[cells]
        chances, inverse = distinct_tails(
            setting, sizes[run][which], samples[run][which], counts[cells]
        )
        top = counts[cells] == largest[run][which]
        smaller = np.minimum(chances.above, chances.below)[inverse]
        np.minimum.at(worst, run.start + which[top], smaller[top])
        passed = np.where(
            top, chances.both_ways(chance)[inverse], chances.either_way(chance)[inverse]
        )
        kept[run.start + which[~passed]] = False
    return worst, kept
