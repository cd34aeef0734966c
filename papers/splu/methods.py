"""Answers to count queries by each method of the paper's Section 6, on integer codes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from papers.coded import People
from papers.conjunctions import Conjunctions, random_conjunctions
from papers.laplace import laplace_noise
from papers.splu.four_states import reconstruct
from papers.splu.greedy import GreedyGroups
from sfumato.draws import BoolArray, Draws, IntArray, Positions
from sfumato.engines.stream import ranks_in_value
from sfumato.guarantees.small_sum import SmallSum
from sfumato.mechanisms import Batch
from sfumato.mechanisms.splu import DecoyValues
from sfumato.operators import Decoy
from sfumato.operators.base import FloatArray
from sfumato.profile import Histogram, Profile

MOST_ROUNDS = 2000  # of the paper's iteration; its 1 % stop comes far earlier for most queries
LAPLACE = {"Laplace ln 2": math.log(2), "Laplace ln 3": math.log(3)}


@dataclass(frozen=True, eq=False)
class Pool:
    """Count queries: pairs of a condition (by number) and a value, with their true counts."""

    conditions: Conjunctions
    sizes: IntArray  # n_A by condition
    truth: IntArray  # by (condition, value)
    small: tuple[IntArray, IntArray]  # pairs with a true count of 1 to 10 (errata S14)
    large: tuple[IntArray, IntArray]  # pairs with at least 0.5 % of the records, below 5 %, say

    @staticmethod
    def of(people: People, conditions: int, most: int, draws: Draws) -> Pool:
        """Random conjunctions of up to 3 quasi columns (Section 6.1), `most` queries of each."""
        drawn = random_conjunctions(people.quasi, conditions, draws)
        return Pool.over(people, drawn, most, draws, (0.005, 0.05))

    @staticmethod
    def wide(people: People, conditions: int, most: int, draws: Draws) -> Pool:
        """With every single value of a column, and everybody: counts of 1 to 9 % (Figure 11)."""
        drawn = random_conjunctions(people.quasi, conditions, draws)
        single = tuple(
            np.flatnonzero(codes == value)
            for codes in people.quasi.values()
            for value in range(int(codes.max()) + 1)
        )
        every = Conjunctions((np.arange(people.rows), *single, *drawn.rows))
        return Pool.over(people, every, most, draws, (0.01, 0.09))

    @staticmethod
    def over(
        people: People, drawn: Conjunctions, most: int, draws: Draws, large: tuple[float, float]
    ) -> Pool:
        truth = drawn.counts(people.sensitive, people.values)
        sizes = np.array([len(rows) for rows in drawn.rows], np.int64)

        def some(chosen: BoolArray, purpose: str) -> tuple[IntArray, IntArray]:
            condition, value = np.nonzero(chosen)
            taken = draws.order(purpose, len(condition))[:most]
            return condition[taken], value[taken]

        low, high = (share * people.rows for share in large)
        return Pool(
            drawn,
            sizes,
            truth,
            some((truth >= 1) & (truth <= 10), "small"),
            some((truth >= low) & (truth < high), "large"),
        )


def published(
    people: People, groups: int, draws: Draws, *, greedy: bool = False
) -> tuple[IntArray, IntArray]:
    """What SPLU-Gen publishes: (numbers of the published records, their codes); of the paper's
    greedy groups where asked."""
    histogram = Histogram("s", tuple(range(people.values)), people.counts)
    planning = draws.child("plan")
    plan = DecoyValues().plan(Profile(people.rows, {"s": histogram}), SmallSum(groups), planning)
    if greedy:
        (column,) = plan.columns
        made_so: Any = GreedyGroups.plan(
            column.grouped, size=groups, draws=planning.child("decoy s")
        )
        plan = replace(plan, columns=(replace(column, groups=made_so),))
    ranks = ranks_in_value(people.sensitive, np.zeros(people.values, np.int64))
    made = plan.apply(
        Batch({"s": people.sensitive}, {"s": ranks}, {"s": Positions(0, people.rows)}), draws
    )
    kept = np.arange(people.rows) if made.keep is None else np.flatnonzero(made.keep)
    return kept, made.codes["s"][kept]


def shown_counts(pool: Pool, people: People, kept: IntArray, codes: IntArray) -> IntArray:
    """Published counts by (condition, value)."""
    shown = np.full(people.rows, people.values, np.int64)  # withheld records show nothing
    shown[kept] = codes
    return pool.conditions.counts(shown, people.values + 1)[:, :-1]


def exact(pool: Pool, people: People, groups: int, draws: Draws) -> tuple[FloatArray, FloatArray]:
    """Ours: well-mixed groups and the exact operator. Estimates and standard errors."""
    kept, codes = published(people, groups, draws)
    counts = shown_counts(pool, people, kept, codes)
    operator = Decoy(people.values, groups).observed(np.bincount(codes, minlength=people.values))
    rate, size = operator.decoy_rates, counts.sum(axis=1, keepdims=True)
    estimates = (counts - size * rate) / (1 / groups - rate)
    every = np.broadcast_to(np.arange(people.values), estimates.shape)
    return estimates, np.sqrt(operator.variances_within(every, estimates, size))


def paper(
    pool: Pool,
    people: People,
    groups: int,
    pairs: tuple[IntArray, IntArray],
    draws: Draws,
) -> FloatArray:
    """The paper's procedure: greedy groups, its matrix, its 1 % stop (Section 5.1)."""
    kept, codes = published(people, groups, draws, greedy=True)
    counts = shown_counts(pool, people, kept, codes)
    whole = np.bincount(codes, minlength=people.values)
    condition, value = pairs
    own, size = counts[condition, value], counts[condition].sum(axis=1)
    rest = whole[value] - own
    states = np.stack([len(kept) - size - rest, rest, size - own, own], axis=1)
    return np.asarray(reconstruct(states, groups, most=MOST_ROUNDS)[:, 3])


def anatomy(pool: Pool, people: People, groups: int, draws: Draws) -> FloatArray:
    """Anatomy's answer: matching records of every group, shared evenly among its values."""
    grouped = people.counts - draws.hypergeometric("spare", people.counts, people.rows % groups)
    made = GreedyGroups.plan(grouped, size=groups, draws=draws.child("anatomy"))
    ranks = ranks_in_value(people.sensitive, np.zeros(people.values, np.int64))
    slots = draws.permutation("slots", people.counts)(people.sensitive, ranks)
    inside = np.flatnonzero(slots < grouped[people.sensitive])
    home = np.full(people.rows, -1, np.int64)
    home[inside] = made.numbers(people.sensitive[inside], slots[inside])
    answers = np.zeros((len(pool.sizes), people.values))
    for number, rows in enumerate(pool.conditions.rows):
        held = home[rows]
        values = made.rows[held[held >= 0]]
        answers[number] = np.bincount(values.ravel(), minlength=people.values) / groups
    return answers


def resampled(pool: Pool, people: People, draws: Draws) -> FloatArray:
    """DBR: every value redrawn from the overall distribution, answers are published counts."""
    edges = np.cumsum(people.counts)
    drawn = draws.below("resample s", Positions(0, people.rows), int(edges[-1]))
    codes = np.searchsorted(edges, drawn, side="right")
    return pool.conditions.counts(codes, people.values).astype(np.float64)


def laplace(truth: IntArray, epsilon: float, draws: Draws) -> FloatArray:
    """True counts with Laplace noise of scale 1/ε."""
    return truth + laplace_noise(1 / epsilon, len(truth), draws, f"laplace {epsilon}")
