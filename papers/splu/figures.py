"""The tables and series of Section 6, small and large counts apart."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from papers.coded import People
from papers.splu import methods
from papers.splu.bounds import large_sum_curve, small_sum_curve
from papers.splu.four_states import reconstruct_counting
from papers.splu.methods import LAPLACE, Pool
from papers.steps import Outcome
from papers.tables import Series
from sfumato.draws import Draws, IntArray
from sfumato.operators.base import FloatArray
from sfumato.results import Cell, ResultTable

Pairs = tuple[IntArray, IntArray]

SELECTIVITIES = (0.005, 0.01, 0.02, 0.03, 0.04, 0.05)
WIDE_SELECTIVITIES = tuple(share / 100 for share in range(1, 10))
METHODS = ("SPLU, ours", "SPLU, paper", "Anatomy", "DBR", *LAPLACE)


@dataclass(frozen=True)
class Setting:
    """How much to simulate."""

    conditions: int
    queries: int
    runs: int
    groups: Sequence[int]


def relative_errors(estimates: FloatArray, truth: IntArray) -> FloatArray:
    return np.asarray(np.abs(estimates - truth) / truth)


def curves() -> Outcome:
    """Figures 4 and 5; Figure 4 once as printed and once corrected (errata S1)."""
    tenth, three = Fraction(1, 10), Fraction(3, 10)
    counts = range(100, 1000, 100)
    figure4 = Series(
        "Figure 4",
        "Chance that a sum is off by 0.1 or more, groups of 10.",
        "sum",
        "chance",
        {
            "exact": large_sum_curve(10, tenth, counts),
            "Chebyshev": large_sum_curve(10, tenth, counts, "chebyshev"),
        },
        {"as printed": large_sum_curve(10, tenth, counts, "paper")},
        note="The printed bound is false: errata S1.",
    )
    figure5 = Series(
        "Figure 5",
        "Chance that a small sum is off by 0.3 or more.",
        "sum",
        "chance",
        {f"c = {groups}": small_sum_curve(groups, three, 12) for groups in (2, 5, 10)},
    )
    return [], [figure4, figure5]


def answers(
    pool: Pool, people: People, groups: int, pairs: Pairs, draws: Draws
) -> dict[str, FloatArray]:
    """Every method's answers to some queries of the pool."""
    truth = pool.truth[pairs]
    found = {
        "SPLU, ours": methods.exact(pool, people, groups, draws)[0][pairs],
        "SPLU, paper": methods.paper(pool, people, groups, pairs, draws),
        "Anatomy": methods.anatomy(pool, people, groups, draws)[pairs],
        "DBR": methods.resampled(pool, people, draws)[pairs],
    }
    for name, epsilon in LAPLACE.items():
        found[name] = methods.laplace(truth, epsilon, draws)
    return found


def small_counts(figure: str, people: People, pool: Pool, setting: Setting) -> Outcome:
    """Figures 7 and 10: relative error of counts up to 10, by group size: mean and median."""
    truth = pool.truth[pool.small]
    rows: list[tuple[Cell, ...]] = []
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name in METHODS}
    for groups in _possible(people, setting.groups):
        cells: list[Cell] = [groups]
        drawn = Draws.from_seed(groups).child(figure)
        for name, answer in answers(pool, people, groups, pool.small, drawn).items():
            errors = relative_errors(answer, truth)
            cells += [float(errors.mean()), float(np.median(errors))]
            lines[name].append((groups, float(errors.mean())))
        rows.append(tuple(cells))
    columns = ("c", *(f"{name} {what}" for name in METHODS for what in ("mean", "median")))
    title = f"relative error of {len(truth):,} counts from 1 to 10 (large is private)"
    return (
        [ResultTable(figure, title, columns, rows)],
        [Series(figure, title + ".", "c", "mean relative error", lines)],
    )


def large_counts(
    figure: str,
    people: People,
    pool: Pool,
    groups: int,
    setting: Setting,
    selectivities: Sequence[float] = SELECTIVITIES,
) -> Outcome:
    """Figures 8 and 11: mean relative error of large counts, by selectivity."""
    errors = _mean_errors(people, pool, groups, setting.runs, figure)
    truth = pool.truth[pool.large] / people.rows
    rows: list[tuple[Cell, ...]] = []
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name in errors}
    for low, high in itertools.pairwise(selectivities):
        inside = (truth >= low) & (truth < high)
        if not inside.any():
            continue
        cells: list[Cell] = [f"{low:.1%} … {high:.1%}", int(inside.sum())]
        for name in METHODS:
            mean = float(errors[name][inside].mean())
            cells.append(mean)
            lines[name].append((100 * low, mean))
        rows.append(tuple(cells))
    title = f"mean relative error of large counts by selectivity, c = {groups}, N = {people.rows:,}"
    return (
        [ResultTable(figure, title, ("selectivity", "queries", *METHODS), rows)],
        [Series(figure, title + ".", "selectivity, %", "mean relative error", lines)],
    )


def sizes(people: People, groups: int, numbers: Sequence[int], setting: Setting) -> Outcome:
    """Figure 9: mean relative error of large counts by selectivity and number of records."""
    tables = []
    names = {"(a)": "SPLU, ours", "(a′)": "SPLU, paper", "(b)": "Anatomy", "(c)": "DBR"}
    rows: dict[str, list[tuple[Cell, ...]]] = {part: [] for part in names}
    for number in numbers:
        some = people.first(number)
        pool = Pool.of(some, setting.conditions, setting.queries, Draws.from_seed(9))
        errors = _mean_errors(some, pool, groups, setting.runs, "Figure 9", laplace=False)
        truth = pool.truth[pool.large] / number
        for part, name in names.items():
            cells: list[Cell] = [number]
            for low, high in itertools.pairwise(SELECTIVITIES):
                inside = (truth >= low) & (truth < high)
                cells.append(float(errors[name][inside].mean()) if inside.any() else None)
            rows[part].append(tuple(cells))
    columns = ("N", *(f"from {low:.1%}" for low in SELECTIVITIES[:-1]))
    for part, name in names.items():
        title = f"{name}: mean relative error of large counts, c = {groups}"
        tables.append(ResultTable(f"Figure 9{part}", title, columns, rows[part]))
    return tables, []


def overhead(people: People, setting: Setting) -> Outcome:
    """Section 6.5: seconds to publish, and to answer with and without iterating."""
    rows: list[tuple[Cell, ...]] = []
    for groups in _possible(people, setting.groups):
        start = time.process_time()
        methods.published(people, groups, Draws.from_seed(groups))
        mixed = time.process_time() - start
        start = time.process_time()
        methods.published(people, groups, Draws.from_seed(groups), greedy=True)
        rows.append((groups, people.rows, mixed, time.process_time() - start, "below 10"))
    columns = ("c", "records", "mixed groups", "greedy groups", "paper")
    publishing = ResultTable(
        "Section 6.5", "processor seconds to publish, in memory", columns, rows, paper=("paper",)
    )
    return [publishing], []


def iterations(observed: Mapping[int, FloatArray]) -> ResultTable:
    """Section 6.5: rounds that the paper's iteration takes, with two sensitive columns."""
    rows: list[tuple[Cell, ...]] = []
    for groups, states in observed.items():
        start = time.process_time()
        _, rounds = reconstruct_counting(states, groups, most=methods.MOST_ROUNDS)
        seconds = (time.process_time() - start) / max(len(states), 1)
        rows.append(
            (groups, len(states), float(np.median(rounds)), float(rounds.mean()), 1e6 * seconds)
        )
    return ResultTable(
        "Section 6.5, queries",
        "rounds of the iteration to its 1 % stop; the paper: median 16, mean 325, under 1 ms",
        ("c", "queries", "median rounds", "mean rounds", "µs a query"),
        rows,
    )


def _possible(people: People, groups: Sequence[int]) -> list[int]:
    return [size for size in groups if size <= people.largest_groups]


def _mean_errors(
    people: People, pool: Pool, groups: int, runs: int, figure: str, *, laplace: bool = True
) -> dict[str, FloatArray]:
    """Relative error of each large query, averaged over publications, by method."""
    truth = pool.truth[pool.large]
    total: dict[str, FloatArray] = {}
    for run in range(runs):
        draws = Draws.from_seed(run).child(figure)
        for name, answer in answers(pool, people, groups, pool.large, draws).items():
            if name in LAPLACE and not laplace:
                continue
            total[name] = total.get(name, np.zeros(len(truth))) + relative_errors(answer, truth)
    return {name: errors / runs for name, errors in total.items()}
