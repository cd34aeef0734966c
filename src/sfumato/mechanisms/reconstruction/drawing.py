"""Sampling, perturbing, scaling (Section 5), on counts alone and in whole numbers.

All groups of a block are drawn at once. Rounding is controlled: a group's sample has exactly n
records and its published form exactly N, and every value's number is its expectation rounded up
or down with the right chances, so that nothing is biased (errata R3, R5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.draws import Draws, IntArray, Positions
from sfumato.mechanisms.reconstruction.groups import PersonalGroups
from sfumato.operators import Uniform


@dataclass(frozen=True, eq=False)
class Drawn:
    """What is published of a run of groups: `counts` copies of (group, value)."""

    groups: IntArray  # places in `PersonalGroups`
    values: IntArray
    counts: IntArray


def draw_block(
    groups: PersonalGroups, samples: IntArray, run: slice, operator: Uniform, draws: Draws
) -> Drawn:
    """Sample, perturb and scale the groups of a run. The draws' addresses are cells, groups and
    records of the whole table, so that blocks may come in any order."""
    owner, values, counts = groups.block(run)
    sizes, sample = groups.sizes[run], samples[run]
    taken = round_shares(
        owner, counts, sizes, sample, draws.child("sample"), int(groups.starts[run.start]), run
    )
    trial_owner, trial_value = np.repeat(owner, taken), np.repeat(values, taken)
    first = int(samples[: run.start].sum())
    published = operator.apply(trial_value, "perturb", Positions(first, len(trial_value)), draws)
    key, hits = np.unique(trial_owner * operator.values + published, return_counts=True)
    owner, values = np.divmod(key, operator.values)
    copies = round_shares(owner, hits, sample, sizes, draws.child("scale"), None, run)
    return Drawn(owner + run.start, values, copies)


def round_shares(
    owner: IntArray,
    counts: IntArray,
    totals: IntArray,
    wanted: IntArray,
    draws: Draws,
    first_cell: int | None,
    run: slice,
) -> IntArray:
    """`counts` of groups that add up to `totals`, brought to `wanted` by systematic rounding.

    Every cell becomes its exact share c·wanted/total rounded down, or up with the chance of the
    remainder, and every group adds up. With `first_cell` the cells of a group line up in random
    order, so that no two values are taken together more often than chance would have it.

    >>> owner, counts = np.array([0, 0, 0]), np.array([5, 3, 2])
    >>> taken = round_shares(owner, counts, np.array([10]), np.array([4]), Draws.from_seed(1), 0,
    ...                      slice(0, 1))
    >>> int(taken.sum()), bool((abs(taken - counts * 0.4) < 1).all())
    (4, True)
    """
    total, want = totals[owner], wanted[owner]
    exact = counts * want
    rounded, rest = np.divmod(exact, np.maximum(total, 1))
    order = np.flatnonzero(rest)
    if not len(order):
        return rounded
    if first_cell is not None:
        words = draws.words("order", Positions(first_cell, len(owner)))[order]
        order = order[np.lexsort((words, owner[order]))]
    left, whose = rest[order], owner[order]
    reached = np.cumsum(left)
    # where each group begins to add up, and its random start
    begins = np.flatnonzero(np.diff(whose, prepend=-1))
    before = np.repeat(reached[begins] - left[begins], np.diff(begins, append=len(whose)))
    start = np.zeros(len(totals), np.int64)
    present = whose[begins]
    bounds = np.maximum(totals, 1)
    start[present] = draws.below("start", Positions(run.start, len(totals)), bounds)[present]
    end = reached - before + start[whose]
    up = end // total[order] > (end - left) // total[order]
    rounded[order[up]] += 1
    return rounded
