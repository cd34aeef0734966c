"""Figure 12: queries about two sensitive columns, age in ten intervals and occupation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from papers.coded import People
from papers.splu import methods
from papers.splu.figures import relative_errors
from papers.splu.four_states import reconstruct
from sfumato.draws import Draws, IntArray
from sfumato.errors import WeakPromiseWarning
from sfumato.operators import Decoy
from sfumato.operators.base import FloatArray
from sfumato.results import Cell, ResultTable

LOW, HIGH = 0.001, 0.007  # the selectivities of Figure 12
INTERVALS = 10


def age_intervals(age: IntArray) -> IntArray:
    """Ten intervals with about as many people each."""
    edges = np.quantile(age, np.arange(1, INTERVALS) / INTERVALS, method="higher")
    return np.searchsorted(edges, age, side="right")


def figure_12(
    people: People, groups: Sequence[int], queries: int
) -> tuple[ResultTable, dict[int, FloatArray]]:
    """Mean relative error by group size, ours and the paper's; and the states it iterates over.

    Queries: a value of one quasi column (or none), an age interval and an occupation. The weights
    of independent columns multiply.
    """
    ages = age_intervals(people.quasi["age"])
    quasi = {name: codes for name, codes in people.quasi.items() if name != "age"}
    second = People(quasi, ages, INTERVALS)
    conditions = [np.ones(people.rows, np.bool_)]
    for codes in quasi.values():
        conditions += [codes == value for value in range(int(codes.max()) + 1)]
    truth = np.stack([_joint(people.sensitive, ages, rows) for rows in conditions])
    share = truth / people.rows
    pairs = np.nonzero((share >= LOW) & (share < HIGH))
    taken = Draws.from_seed(12).order("queries", len(pairs[0]))[:queries]
    number, occupation, interval = (pair[taken] for pair in pairs)
    asked = truth[number, occupation, interval]
    rows: list[tuple[Cell, ...]] = []
    observed: dict[int, FloatArray] = {}
    largest = min(people.largest_groups, second.largest_groups)
    for size in groups:
        if size > largest:
            continue
        shown: list[IntArray] = []
        for each in (people, second):
            draws = Draws.from_seed(size).child(f"two {len(shown)}")
            kept, codes = methods.published(each, size, draws)
            column = np.full(people.rows, -1, np.int64)
            column[kept] = codes
            shown.append(column)
        both = (shown[0] >= 0) & (shown[1] >= 0)
        counts = np.stack([_joint(shown[0], shown[1], rows & both) for rows in conditions])
        operators = [
            Decoy(values, size).observed(np.bincount(column[both], minlength=values))
            for column, values in zip(shown, (people.values, INTERVALS), strict=True)
        ]
        error: float | None = None  # where some value stands in every group
        if not any(operator.at_the_limit().size for operator in operators):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", WeakPromiseWarning)
                weights = [operator.weights() for operator in operators]
            estimates = np.einsum("nab,ax,by->nxy", counts, *weights)
            found = relative_errors(estimates[number, occupation, interval], asked)
            error = float(found.mean())
        observed[size] = _states(counts, number, occupation, interval)
        iterated = reconstruct(observed[size], size, most=methods.MOST_ROUNDS)[:, -1]
        rows.append(
            (
                size,
                len(asked),
                error,
                float(relative_errors(iterated, asked).mean()),
            )
        )
    title = (
        f"two sensitive columns: mean relative error of counts of {LOW:.1%} to {HIGH:.1%}, mixed "
        "groups"
    )
    columns = ("c", "queries", "weights multiply", "iteration over 8 states")
    note = (
        "The weights of two columns multiply, and so do their error bars: unbiased, but noise for "
        "counts this small from c = 4. The iteration's early stop pulls towards independence "
        "(errata S4). – where an age interval stands in every group."
    )
    return ResultTable("Figure 12", title, columns, rows, note=note), observed


def _joint(first: IntArray, second: IntArray, chosen: np.ndarray) -> IntArray:
    """Counts by (occupation, age interval) of the chosen records."""
    values = int(first.max()) + 1
    flat = first[chosen] * INTERVALS + second[chosen]
    return np.bincount(flat, minlength=values * INTERVALS).reshape(values, INTERVALS)


def _states(
    counts: IntArray, number: IntArray, occupation: IntArray, interval: IntArray
) -> FloatArray:
    """Published counts by the eight states (condition, occupation, interval) of each query."""

    def four(table: IntArray) -> FloatArray:
        both = table[:, occupation, interval] if table.ndim == 3 else table[occupation, interval]
        one = table.sum(axis=-1)[..., occupation]
        other = table.sum(axis=-2)[..., interval]
        whole = table.sum(axis=(-2, -1))[..., None]
        return np.stack(
            np.broadcast_arrays(whole - one - other + both, other - both, one - both, both), axis=-1
        )

    inside = four(counts)[number, np.arange(len(number))]
    everything = four(counts[0])
    return np.concatenate([everything - inside, inside], axis=-1).astype(np.float64)
