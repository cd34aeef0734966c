"""Which groups are private, by Chernoff's bound and by the exact tails."""

from __future__ import annotations

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.reconstruction.groups import PersonalGroups
from sfumato.mechanisms.reconstruction.levels import Bound, Level, level_of
from sfumato.mechanisms.reconstruction.tails import (
    FloatArray,
    Reach,
    Setting,
    Tails,
    distinct_rows,
    tails,
)


def choose_samples(
    groups: PersonalGroups, setting: Setting, bound: Bound, levels: tuple[Level, ...]
) -> IntArray:
    """How many records of each group to perturb: all, its level's number, or fewer; 0 for none.

    A group gets the number of its level, or all its records where it has no more than that. Where
    the bound, tested on the group's own counts, does not allow it (the tails are a sawtooth, and
    rounding can raise a share), the next smaller number that it allows, or else one up to the next
    level's. Groups for which no number will do are not published (errata R4).
    """
    shares = groups.largest / groups.sizes
    allowed = np.array([level.sample for level in levels] + [levels[-1].sample], np.int64)
    level = level_of(shares, levels)
    wanted, more = (np.minimum(groups.sizes, allowed[place]) for place in (level, level + 1))
    samples = np.zeros(len(groups), np.int64)
    for run in groups.blocks():
        none = np.zeros(run.stop - run.start, np.int64)
        samples[run] = _lowered(groups, run, wanted[run], none, setting, bound)
        beyond = np.where(samples[run] == 0, more[run], 0)  # seldom: the next level's, then
        samples[run] += _lowered(groups, run, beyond, wanted[run], setting, bound)
    return samples


def _lowered(
    groups: PersonalGroups,
    run: slice,
    samples: IntArray,
    floor: IntArray,
    setting: Setting,
    bound: Bound,
) -> IntArray:
    """The largest number from `samples` down to above `floor` that the bound allows, else 0."""
    owner, _, counts = groups.block(run)
    sizes, largest = groups.sizes[run], groups.largest[run]
    chosen = np.where(samples > floor, samples, 0)
    unsure = chosen > 0
    while unsure.any():
        cells = unsure[owner]
        which = owner[cells]
        passed = private_cells(
            setting, bound, sizes[which], chosen[which], counts[cells], largest[which]
        )
        failed = np.zeros(len(chosen), np.bool_)
        failed[which[~passed]] = True
        chosen[failed] -= 1
        given_up = failed & (chosen <= floor)
        chosen[given_up] = 0
        unsure = failed & ~given_up
    return chosen


def private_cells(
    setting: Setting,
    bound: Bound,
    sizes: IntArray,
    samples: IntArray,
    counts: IntArray,
    largest: IntArray,
    reach: Reach | None = None,
) -> BoolArray:
    """Whether each (group, value) keeps the promise, given its group's size, sample and maximum."""
    if bound == "chernoff":
        return chernoff_private(setting, sizes, samples, counts)
    found, place = distinct_tails(setting, sizes, samples, counts, reach)
    chance = float(setting.chance)
    both, either = found.both_ways(chance)[place], found.either_way(chance)[place]
    return np.where(counts == largest, both, either)


def chernoff_private(
    setting: Setting, sizes: IntArray, samples: IntArray, counts: IntArray
) -> BoolArray:
    """Equation 9 on the sample as rounding may leave it (errata R3): n ≤ s(⌈n·c/N⌉/n)."""
    share = -(-samples * counts // sizes) / samples
    p, q = float(setting.retention), float(setting.background)
    limit = -2 * (share * p + q) * np.log(float(setting.chance))
    return np.asarray(samples * (float(setting.error) * p * share) ** 2 <= limit)


def distinct_tails(
    setting: Setting,
    sizes: IntArray,
    samples: IntArray,
    counts: IntArray,
    reach: Reach | None = None,
) -> tuple[Tails, IntArray]:
    """The tails of the different cases, and where each case is among them."""
    first, place = distinct_rows(sizes, samples, counts)
    return tails(setting, sizes[first], samples[first], counts[first], reach), place


def violations(groups: PersonalGroups, setting: Setting, bound: Bound) -> BoolArray:
    """Which groups plain uniform perturbation of every record would expose (v_g, v_r).

    Beyond s_g the exact tails need not be computed: Chernoff's bound is above them.
    """
    sizes, largest = groups.sizes, groups.largest
    exposed = ~chernoff_private(setting, sizes, sizes, largest)
    if bound == "chernoff":
        return exposed
    for run in groups.blocks():
        owner, _, counts = groups.block(run)
        cells = ~exposed[run][owner]
        which = owner[cells]
        size, most = sizes[run][which], largest[run][which]
        passed = private_cells(setting, bound, size, size, counts[cells], most)
        exposed[run.start + which[~passed]] = True
    return exposed


def worst_tail(
    groups: PersonalGroups, samples: IntArray, setting: Setting, reach: Reach | None = None
) -> tuple[FloatArray, BoolArray]:
    """Per published group: the smaller exact tail of its commonest value; whether all is kept."""
    worst, kept = np.ones(len(groups)), np.ones(len(groups), np.bool_)
    sizes, largest = groups.sizes, groups.largest
    chance = float(setting.chance)
    for run in groups.blocks():
        owner, _, counts = groups.block(run)
        cells = samples[run][owner] > 0
        which = owner[cells]
        found, place = distinct_tails(
            setting, sizes[run][which], samples[run][which], counts[cells], reach
        )
        top = counts[cells] == largest[run][which]
        smaller = np.minimum(found.above, found.below)[place]
        np.minimum.at(worst, run.start + which[top], smaller[top])
        passed = np.where(top, found.both_ways(chance)[place], found.either_way(chance)[place])
        kept[run.start + which[~passed]] = False
    return worst, kept
