"""The tables and series of Section 6, small and large counts apart."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from papers.coded import People
from papers.splu import methods
from papers.splu.methods import LAPLACE, Pool, reconstruct
from papers.steps import Outcome
from papers.tables import Series
from sfumato.draws import Draws, IntArray
from sfumato.errors import WeakPromiseWarning
from sfumato.guarantees import RhoPrivacy
from sfumato.guarantees.small_sum_tails import small_sum_privacy, wrong_sum, wrong_sums
from sfumato.operators import Decoy, Uniform
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
        _, rounds = reconstruct(states, groups, most=methods.MOST_ROUNDS)
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


Bound = Literal["exact", "chebyshev", "paper"]


def wrong_sum_bound(count: int, groups: int, error: Fraction, bound: Bound) -> float:
    """The chance of a wrong sum, exactly or by one of the bounds, at most 1.

    >>> wrong_sum_bound(400, 10, Fraction(1, 10), "paper")  # Theorem 3 as printed: false
    6.25e-05
    >>> round(wrong_sum_bound(400, 10, Fraction(1, 10), "exact"), 4)
    0.0373
    """
    if bound == "exact":
        return float(wrong_sums([count], groups, error)[0])
    if bound == "chebyshev":
        return min(1.0, float((1 - Fraction(1, groups)) / (error**2 * count)))
    return min(1.0, float(1 / (groups * error**2 * count**2)))


def large_sum_curve(
    groups: int, error: Fraction, counts: Iterable[int], bound: Bound = "exact"
) -> list[tuple[int, float]]:
    """(T_f, T_E) along the counts: the paper's Figure 4, which inherits errata S1 in `paper`."""
    return [(count, wrong_sum_bound(count, groups, error, bound)) for count in counts]


ERROR, UP_TO = Fraction(3, 10), 3
GROUPS = 5


def wrong_by_uniform(drawn: Uniform, people: int, rows: int, error: Fraction) -> float:
    """The chance that the estimated count of a value is off by `error` of itself or more: of f
    people with it and N − f without, Binomial(f, p + q) + Binomial(N − f, q) show it.

    >>> round(wrong_by_uniform(Uniform(4, Fraction(1, 2)), 3, 100, ERROR), 2)
    0.88
    """
    from scipy import stats

    if not drawn.retention:
        return 1.0
    middle = rows * drawn.off_diagonal + people * drawn.retention
    far = error * people * drawn.retention
    low, high = math.floor(middle - far) + 1, math.ceil(middle + far) - 1
    kept, rate = np.arange(people + 1), float(drawn.off_diagonal)
    right = stats.binom.cdf(high - kept, rows - people, rate)
    right -= stats.binom.cdf(low - 1 - kept, rows - people, rate)
    return float(1 - stats.binom.pmf(kept, people, float(drawn.diagonal)) @ right)


def section_8(people: People) -> ResultTable:
    """The least chance, over sums of 1 to 3 people, of an answer off by 0.3 of it or more."""
    asked = float(small_sum_privacy(GROUPS, ERROR, UP_TO))
    drawn = Uniform.for_amplification(
        people.values, RhoPrivacy(Fraction(1, 13), Fraction(1, 6)).gamma
    )
    counts = people.counts.copy()
    rarest = int(np.argmin(counts))

    def uniform(count: int) -> float:
        counts[rarest] = count
        return wrong_by_uniform(drawn, counts[rarest], counts.sum(), ERROR)

    chances: dict[str, float] = {
        f"decoys, groups of {GROUPS}": asked,
        "uniform, rho-privacy(1/13, 1/6)": min(uniform(count) for count in range(1, UP_TO + 1)),
        "buckets, ranges": 0.0,
    }
    for name, epsilon in (("ln 3", math.log(3)), ("ln 2", math.log(2)), ("0.1", 0.1)):
        chances[f"Laplace answers, epsilon = {name}"] = math.exp(-epsilon * float(ERROR) * UP_TO)
    rows: list[tuple[Cell, ...]] = [
        (name, chance, "yes" if chance >= asked else "no") for name, chance in chances.items()
    ]
    title = f"least chance that a sum of 1 to {UP_TO} is off by {float(ERROR)} of it or more"
    columns = ("release", "chance", f"as much as small-sum({GROUPS})")
    return ResultTable("Section 8", title, columns, rows)


LOW, HIGH = 0.05, 0.08
INTERVALS = 12  # of about 8 % each
PRINTED = 0.01
SETS = 40  # drawn sets of values, by interval


def section_6_2_1(people: People, groups: int, runs: int) -> ResultTable:
    """Mean relative error by reading, over several publications."""
    ages = age_intervals(people.quasi["age"], INTERVALS)
    truth = _joint(ages, people.sensitive, people.values)
    questions = {
        "one value, neighbouring intervals": _stretches(truth),
        "one interval, many values": _value_sets(truth),
    }
    errors: dict[str, list[float]] = {name: [] for name in questions}
    for run in range(runs):
        kept, codes = methods.published(people, groups, Draws.from_seed(run).child("ages"))
        shown = _joint(ages[kept], codes, people.values)
        rate = Decoy(people.values, groups).observed(shown.sum(axis=0)).decoy_rates
        estimates = (shown - shown.sum(axis=1, keepdims=True) * rate) / (1 / groups - rate)
        for name, masks in questions.items():
            true = np.einsum("qav,av->q", masks, truth)
            found = np.einsum("qav,av->q", masks, estimates)
            errors[name].append(float(np.mean(np.abs(found - true) / true)))
    rows: list[tuple[Cell, ...]] = [
        (name, len(masks), float(np.mean(errors[name])), PRINTED)
        for name, masks in questions.items()
    ]
    title = f"counts of {LOW:.0%} to {HIGH:.0%}, ages in {INTERVALS} intervals, c = {groups}"
    columns = ("reading", "queries", "mean error", "paper")
    return ResultTable("Section 6.2.1", title, columns, rows, paper=("paper",))


def _joint(ages: IntArray, codes: IntArray, values: int) -> FloatArray:
    flat = np.bincount(ages * values + codes, minlength=INTERVALS * values)
    return flat.reshape(INTERVALS, values).astype(np.float64)


def _stretches(truth: FloatArray) -> FloatArray:
    """All stretches of intervals and values whose count is asked for, as masks."""
    total, stretches = truth.sum(), []
    for first in range(INTERVALS):
        for last in range(first, INTERVALS):
            for value in np.flatnonzero(_asked(truth[first : last + 1].sum(axis=0) / total)):
                mask = np.zeros(truth.shape)
                mask[first : last + 1, value] = 1
                stretches.append(mask)
    return np.array(stretches).reshape(-1, *truth.shape)


def _value_sets(truth: FloatArray) -> FloatArray:
    """Random sets of values within each interval, whose count is asked for, as masks."""
    rng = np.random.default_rng(5)  # questions, not protection
    total, value_sets = truth.sum(), []
    for age in range(INTERVALS):
        for _ in range(SETS):
            values = rng.random(truth.shape[1]) < rng.uniform(0.5, 1)
            if _asked(truth[age, values].sum() / total):
                mask = np.zeros(truth.shape)
                mask[age, values] = 1
                value_sets.append(mask)
    return np.array(value_sets).reshape(-1, *truth.shape)


def _asked(share: FloatArray | float) -> np.ndarray:
    return np.asarray((share >= LOW) & (share < HIGH))


LOW_12, HIGH_12 = 0.001, 0.007  # the selectivities of Figure 12
INTERVALS_12 = 10


def age_intervals(age: IntArray, number: int) -> IntArray:
    """Intervals with about as many people each."""
    edges = np.quantile(age, np.arange(1, number) / number, method="higher")
    return np.searchsorted(edges, age, side="right")


def figure_12(
    people: People, groups: Sequence[int], queries: int
) -> tuple[ResultTable, dict[int, FloatArray]]:
    """Mean relative error by group size, ours and the paper's; and the states it iterates over.

    Queries: a value of one quasi column (or none), an age interval and an occupation. The weights
    of independent columns multiply.
    """
    ages = age_intervals(people.quasi["age"], INTERVALS_12)
    quasi = {name: codes for name, codes in people.quasi.items() if name != "age"}
    second = People(quasi, ages, INTERVALS_12)
    conditions = [np.ones(people.rows, np.bool_)]
    for codes in quasi.values():
        conditions += [codes == value for value in range(int(codes.max()) + 1)]
    truth = np.stack([_joint_of(people.sensitive, ages, rows) for rows in conditions])
    share = truth / people.rows
    pairs = np.nonzero((share >= LOW_12) & (share < HIGH_12))
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
        counts = np.stack([_joint_of(shown[0], shown[1], rows & both) for rows in conditions])
        operators = [
            Decoy(values, size).observed(np.bincount(column[both], minlength=values))
            for column, values in zip(shown, (people.values, INTERVALS_12), strict=True)
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
        iterated = reconstruct(observed[size], size, most=methods.MOST_ROUNDS)[0][:, -1]
        rows.append((size, len(asked), error, float(relative_errors(iterated, asked).mean())))
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


def _joint_of(first: IntArray, second: IntArray, chosen: np.ndarray) -> IntArray:
    """Counts by (occupation, age interval) of the chosen records."""
    values = int(first.max()) + 1
    flat = first[chosen] * INTERVALS_12 + second[chosen]
    return np.bincount(flat, minlength=values * INTERVALS_12).reshape(values, INTERVALS_12)


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


def small_sum_curve(groups: int, error: Fraction, up_to: int) -> list[tuple[int, float]]:
    """(sum, chance of being off by `error` or more) for the sums 1 … `up_to`: Figure 5."""
    return [(f, float(wrong_sum(f, groups, error))) for f in range(1, up_to + 1)]


def wrong_condition_sum(
    matching: int,
    count: int,
    *,
    value_count: int,
    rows: int,
    groups: int,
    error: Fraction,
    clipped: bool = True,
) -> float:
    """Pr(|n̂ − n| ≥ e·n) for the count n of a value among the `matching` records of a condition.

    Small-sum privacy is promised for single values; for (condition, value) the paper's Theorem 4
    is false (errata S7), and the chance depends on n_A = `matching`, n = `count`,
    o_x = `value_count`, N = `rows` and c. The records of the condition that publish the value are
    Binomial(n, 1/c) + Binomial(n_A − n, r), r = o_x(c−1)/(c(N−o_x)), for well-mixed groups and
    n_A ≪ N. `clipped` lets the reader know that a count lies in 0 … n_A, which helps them most
    where a condition selects people who are all alike.

    >>> three = dict(value_count=1000, rows=100_000, groups=5, error=Fraction(3, 10))
    >>> round(wrong_condition_sum(3, 3, **three), 3)  # 0.8³, below T_P = 0.59
    0.512
    >>> round(wrong_condition_sum(3, 1, **three), 3)
    1.0
    """
    if not 0 < count <= min(matching, value_count) or value_count * groups >= rows:
        raise ValueError("needs 0 < count <= matching, value_count and groups·value_count < rows")
    own_chance = Fraction(1, groups)
    other = Fraction(value_count * (groups - 1), groups * (rows - value_count))
    published = np.convolve(
        _binomial(count, float(own_chance)), _binomial(matching - count, float(other))
    )
    # n̂ = (y − n_A·r)/(1/c − r) is within (n − e·n, n + e·n); clipping to n_A only matters where
    # n_A itself is inside, and then no y is too large; the same at 0
    low = matching * other + (1 - error) * count * (own_chance - other)
    high = matching * other + (1 + error) * count * (own_chance - other)
    first = max(0, math.floor(low) + 1)
    last = min(matching, math.ceil(high) - 1)
    if clipped and (1 + error) * count > matching:
        last = matching
    if clipped and error > 1:
        first = 0
    return float(max(0.0, 1 - published[first : last + 1].sum())) if last >= first else 1.0


def _binomial(trials: int, chance: float) -> FloatArray:
    """Probabilities of 0 … trials successes."""
    if trials == 0:
        return np.ones(1)
    from scipy.special import gammaln

    x = np.arange(trials + 1)
    log = gammaln(trials + 1) - gammaln(x + 1) - gammaln(trials - x + 1)
    return np.asarray(np.exp(log + x * math.log(chance) + (trials - x) * math.log1p(-chance)))
