"""Answers to count queries by each method of the paper's Section 6, on integer codes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from papers.coded import Conjunctions, People, laplace_noise, random_conjunctions
from sfumato.draws import BoolArray, Draws, IntArray, Positions
from sfumato.guarantees.small_sum import SmallSum
from sfumato.mechanisms.splu import DecoyValues
from sfumato.operators import Decoy
from sfumato.operators.base import FloatArray

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
    planning = draws.child("plan")
    plan = DecoyValues().plan(people.profile, SmallSum(groups), planning)
    if greedy:
        (column,) = plan.columns
        made_so: Any = GreedyGroups.plan(
            column.grouped, size=groups, draws=planning.child("decoy s")
        )
        plan = replace(plan, columns=(replace(column, groups=made_so),))
    made = people.published(plan, draws)
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
    pool: Pool, people: People, groups: int, pairs: tuple[IntArray, IntArray], draws: Draws
) -> FloatArray:
    """The paper's procedure: greedy groups, its matrix, its 1 % stop (Section 5.1)."""
    kept, codes = published(people, groups, draws, greedy=True)
    counts = shown_counts(pool, people, kept, codes)
    whole = np.bincount(codes, minlength=people.values)
    condition, value = pairs
    own, size = counts[condition, value], counts[condition].sum(axis=1)
    rest = whole[value] - own
    states = np.stack([len(kept) - size - rest, rest, size - own, own], axis=1)
    return np.asarray(reconstruct(states, groups, most=MOST_ROUNDS)[0][:, 3])


def anatomy(pool: Pool, people: People, groups: int, draws: Draws) -> FloatArray:
    """Anatomy's answer: matching records of every group, shared evenly among its values."""
    grouped = people.counts - draws.hypergeometric("spare", people.counts, people.rows % groups)
    made = GreedyGroups.plan(grouped, size=groups, draws=draws.child("anatomy"))
    slots = draws.permutation("slots", people.counts)(people.sensitive, people.ranks)
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


@dataclass(frozen=True, eq=False)
class GreedyGroups:
    """Groups of `size` different values: time and again one record of the commonest values.

    For comparison: the same values meet again and again, and the operator that takes them for
    mixed is wrong (errata S5; ties by draw, not by code, which would be worse still). O(N·m/c)
    time and N places of memory. With N a multiple of c and no value above N/c nothing is left
    over (errata S11).

    >>> groups = GreedyGroups.plan([2, 2, 1, 1], size=2, draws=Draws.from_seed(1))
    >>> all(len(set(row)) == 2 for row in groups.rows.tolist())
    True
    """

    counts: IntArray
    size: int
    rows: IntArray  # the values of every group, shape (groups, size)
    seats: IntArray  # group · size + place of every (value, slot), values one after the other
    starts: IntArray  # where each value's slots begin in `seats`

    @classmethod
    def plan(cls, counts: npt.ArrayLike, *, size: int, draws: Draws) -> GreedyGroups:
        left = np.asarray(counts, np.int64).copy()
        total = int(left.sum())
        if total % size or bool((left * size > total).any()):
            raise ValueError("some value has more than 1/size of the records, or some are left")
        rows = np.empty((total // size, size), np.int64)
        values = len(left)
        for number in range(len(rows)):
            ties = draws.words("ties", Positions(number * values, values))
            rows[number] = np.lexsort((ties, -left))[:size]
            left[rows[number]] -= 1
        flat = rows.reshape(-1)
        seats = np.argsort(flat, kind="stable")
        held_counts = np.bincount(flat, minlength=values)
        return cls(
            np.asarray(counts, np.int64), size, rows, seats, np.cumsum(held_counts) - held_counts
        )

    def mates(self, values: npt.ArrayLike, slots: npt.ArrayLike, steps: npt.ArrayLike) -> IntArray:
        """The value `steps` places on in the record's own group, going round."""
        group, place = np.divmod(self._seats(values, slots), self.size)
        return np.asarray(self.rows[group, (place + np.asarray(steps)) % self.size])

    def numbers(self, values: npt.ArrayLike, slots: npt.ArrayLike) -> IntArray:
        """The group of every (value, slot)."""
        return self._seats(values, slots) // self.size

    def _seats(self, values: npt.ArrayLike, slots: npt.ArrayLike) -> IntArray:
        return np.asarray(self.seats[self.starts[np.asarray(values)] + np.asarray(slots)])


Matrix = Literal["paper", "exact"]

TOLERANCE, MOST_ITERATIONS = 0.01, 10_000  # the paper's 1 %, and a cap that it does not state


def transition(shares: FloatArray, groups: int, matrix: Matrix) -> FloatArray:
    """Pr(published state | true state) of one value against the rest, shape (…, 2, 2).

    `shares` are f_s/N. The paper prints f_s/N for a record without s (Equations 6 to 9); exact is
    r = f_s(c−1)/(c(N−f_s)) (errata S2).

    >>> transition(np.array([0.1]), 5, "paper")[0].tolist()
    [[0.9, 0.1], [0.8, 0.2]]
    """
    rate = shares if matrix == "paper" else shares * (groups - 1) / (groups * (1 - shares))
    own = np.full_like(rate, 1 / groups)
    return np.stack([np.stack([1 - rate, rate], -1), np.stack([1 - own, own], -1)], -2)


def reconstruct(
    observed: npt.ArrayLike,
    groups: int,
    *,
    matrix: Matrix = "paper",
    tolerance: float = TOLERANCE,
    most: int = MOST_ITERATIONS,
) -> tuple[FloatArray, IntArray]:
    """Estimated counts by state from the published ones, and the rounds that each question took.

    `observed` has shape (questions, K). Starts at the published counts, takes the matrix from the
    current estimate in every round (Equations 13 and 14), and stops a question when no state
    changed by more than `tolerance` of itself (0/0 counting as no change) or after `most` rounds.

    >>> reconstruct([[700.0, 100.0, 150.0, 50.0]], 5)[0].round(1).tolist()
    [[742.9, 57.1, 92.8, 107.2]]
    """
    published = np.asarray(observed, np.float64)
    estimate = published.copy()
    rounds = np.zeros(len(published), np.int64)
    active = np.arange(len(published))
    for _ in range(most):
        if not active.size:
            break
        now, shown = estimate[active], published[active]
        following = one_round(now, shown, groups, matrix)
        change = np.divide(np.abs(following - now), now, out=np.zeros_like(now), where=now > 0).max(
            axis=1
        )
        estimate[active] = following
        rounds[active] += 1
        active = active[change > tolerance]
    return estimate, rounds


def one_round(now: FloatArray, shown: FloatArray, groups: int, matrix: Matrix) -> FloatArray:
    """One round of Equation 14: every published record is shared among its possible states."""
    whole = _whole_matrix(now, groups, matrix)
    expected = np.einsum("qi,qij->qj", now, whole)
    ratio = np.divide(shown, expected, out=np.zeros_like(shown), where=expected > 0)
    return np.asarray(now * np.einsum("qij,qj->qi", whole, ratio))


def _whole_matrix(estimate: FloatArray, groups: int, matrix: Matrix) -> FloatArray:
    """M = M0 ⊗ M1 ⊗ … ⊗ Mw, M0 being the identity: quasi columns are published as they are."""
    columns = estimate.shape[1].bit_length() - 2
    rows = estimate.sum(axis=1)
    whole = np.broadcast_to(np.eye(2), (len(estimate), 2, 2))
    for column in range(columns):
        bit = 1 << (columns - 1 - column)
        holding = [state for state in range(estimate.shape[1]) if state & bit]
        share = np.clip(estimate[:, holding].sum(axis=1) / rows, 0.0, 1 - 1e-12)
        single = transition(share, groups, matrix)
        size = whole.shape[1]
        whole = np.einsum("qij,qkl->qikjl", whole, single).reshape(-1, 2 * size, 2 * size)
    return whole
