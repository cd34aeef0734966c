"""Chapter 4: uniform and partitioned perturbation (Tables 1, 3 to 6; Figures 17 to 19)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import chain

import numpy as np

from papers.coded import Conjunctions, People, multinomial, random_conjunctions
from papers.perturbation.data import (
    DRAWS,
    Setting,
    anatomy,
    anatomy_estimates,
    histogram,
    reconstructions,
    relative_error,
    shown_symbols,
    zipf,
)
from papers.steps import Outcome
from papers.tables import Series
from sfumato.draws import Draws, IntArray
from sfumato.guarantees import FineRhoPrivacy, RhoPrivacy
from sfumato.mechanisms.partitioned import PartitionedPerturbation, PartitionedPlan, cut_table
from sfumato.mechanisms.partitioning.balance import balanced_groups
from sfumato.mechanisms.partitioning.merge import best_merging
from sfumato.mechanisms.retentions import as_floats, best_top, drawable, uniform_retention
from sfumato.mechanisms.uniform import UniformPerturbation
from sfumato.operators import Uniform
from sfumato.operators.base import FloatArray, Operator
from sfumato.profile import Histogram
from sfumato.results import Cell, ResultTable

SELECTIVITIES = (0.001, 0.005, 0.01)
ZIPF_PROMISE = RhoPrivacy(Fraction(1, 13), Fraction(1, 6))


def promise(of: Histogram, diversity: int) -> RhoPrivacy:
    """(f_max, 1/L): all values are covered (errata T3)."""
    return RhoPrivacy(max(of.shares), Fraction(1, diversity))


def retention_tables(data: People, sizes: Sequence[int]) -> Outcome:
    """Tables 1, 3 and 4."""
    domains = (77, 70, 50, 14, 9, 7, 6, 2)
    printed = (5, 5, 7, 22, 31, 36, 40, 67), (1, 1, 2, 6, 8, 9, 10, 17)
    rows: list[tuple[Cell, ...]] = []
    for m, p, q in zip(domains, *printed, strict=True):
        operator = Uniform.for_amplification(m, Fraction(5))
        rows.append((m, 100 * float(operator.retention), p, 100 * float(operator.off_diagonal), q))
    first = ResultTable(
        "Table 1",
        "Probabilities p and q for CENSUS, gamma = 5, in %",
        ("m", "p", "p (paper)", "q", "q (paper)"),
        rows,
        paper=("p (paper)", "q (paper)"),
    )
    whole = histogram(data.first(300_000).counts)
    rows = []
    for diversity, up, pp in ((6, 2.9, 9.0), (5, 4.0, 12.3), (4, 5.9, 17.3), (3, 9.4, 25.7)):
        asked = promise(whole, diversity)
        uniform = Uniform.for_amplification(len(whole.values), asked.gamma)
        cut = cut_table(whole, asked)
        kept = [100 * float(part.operator.retentions[0]) for part in cut.operator.parts]
        rows.append(
            (
                diversity,
                100 * float(uniform.retention),
                up,
                float(np.mean(kept)),
                pp,
                float(np.average(kept, weights=cut.quotas.sum(axis=1))),
            )
        )
    third = ResultTable(
        "Table 3",
        "Retention probability, OCC-300k, in %",
        ("L", "uniform", "uniform (paper)", "partitioned", "partitioned (paper)", "by records"),
        rows,
        paper=("uniform (paper)", "partitioned (paper)"),
        note="'by records' weighs the sub-tables by their records; the paper's row is the plain "
        "mean.",
    )
    return [first, third, _statistics(data, sizes)], []


def _statistics(data: People, sizes: Sequence[int]) -> ResultTable:
    printed = {
        100_000: (17, 15, 15.0, 2.6),
        200_000: (18, 8, 20.9, 2.7),
        300_000: (19, 10, 17.3, 2.6),
        400_000: (20, 11, 17.0, 2.6),
        500_000: (20, 12, 18.4, 2.8),
    }
    names = ("initial groups", "sub-tables", "mean values", "mean gamma")
    rows: list[tuple[Cell, ...]] = []
    for size in sizes:
        counts = histogram(data.first(size).counts)
        groups = balanced_groups(counts.counts, np.ones(data.values, np.bool_))
        parts = cut_table(counts, promise(counts, 6)).operator.parts
        ours = (
            len(groups),
            len(parts),
            float(np.mean([len(part.codes) for part in parts])),
            float(np.mean([float(part.operator.amplification()) for part in parts])),
        )
        paired = [cell for pair in zip(ours, printed[size], strict=True) for cell in pair]
        rows.append((size, *paired))
    columns = [column for name in names for column in (name, f"{name} (paper)")]
    return ResultTable(
        "Table 4",
        "Statistics for partitioned perturbation, OCC, rho2 = 1/6",
        ("|T|", *columns),
        rows,
        paper=tuple(f"{name} (paper)" for name in names),
    )


def _zipf_errors(counts: Sequence[int], runs: int, purpose: str) -> tuple[float, float]:
    """Reconstruction error in %: partitioned, uniform over the values that occur."""
    there = np.array([count for count in counts if count], np.int64)
    cut = cut_table(histogram(there), ZIPF_PROMISE)
    uniform = Uniform.for_amplification(len(there), ZIPF_PROMISE.gamma)
    partitioned = reconstructions(cut.operator, cut.symbol_counts, runs, f"{purpose} PP")
    whole = reconstructions(uniform, there, runs, f"{purpose} UP")
    return _mean_error(there, partitioned), _mean_error(there, whole)


def _mean_error(truth: IntArray, found: Sequence[FloatArray]) -> float:
    return 100 * float(np.mean([relative_error(truth, each) for each in found]))


def thesis_arrangement(counts: Histogram, asked: RhoPrivacy) -> float:
    """Expected error in % when only the reverse Cuthill–McKee order is tried, as in the thesis."""
    protected = np.ones(len(counts.values), np.bool_)
    protected[asked.left_out(counts)] = False
    groups = balanced_groups(counts.counts, protected)
    order = reverse_cuthill_mckee(groups)
    merging = best_merging(groups, protected, asked.rho2, [order])
    quotas = np.array([groups[list(part)].sum(axis=0) for part in merging.parts], np.int64)
    variance = np.zeros(len(counts.values))
    for quota in quotas:
        codes = np.flatnonzero(quota)
        rho1 = Fraction(int(quota[protected].max()), int(quota.sum()))
        gamma = RhoPrivacy(rho1, asked.rho2).gamma
        operator = Uniform.for_amplification(len(codes), gamma)
        variance[codes] += operator.variances(quota[codes].astype(np.float64))
    there = counts.counts > 0
    relative = np.sqrt(variance[there]) / counts.counts[there]
    return 100 * float(np.sqrt(2 / np.pi) * relative.mean())  # mean |error| of a normal error


def zipf_tables(setting: Setting) -> Outcome:
    """Tables 5 and 6."""
    rows: list[tuple[Cell, ...]] = []
    for m, pp, up in ((50, 36.5, 99.4), (75, 14.0, 155.1), (100, 17.7, 221.0), (150, 22.8, 370.9)):
        partitioned, uniform = _zipf_errors(
            list(zipf(m, 1.0)), max(setting.runs, 10), f"table 5 {m}"
        )
        shares = zipf(m, 1.0)
        samples = [
            thesis_arrangement(
                histogram(multinomial(DRAWS, f"zipf {m} {k}", [300_000], shares)[0]), ZIPF_PROMISE
            )
            for k in range(4 * setting.runs)
        ]
        rows.append((m, partitioned, pp, f"{min(samples):.1f} … {max(samples):.1f}", uniform, up))
    fifth = ResultTable(
        "Table 5",
        "ZIP: reconstruction error by m, in % (rho1 = 1/13, rho2 = 1/6, |T| = 300k, lambda = 1)",
        ("m", "partitioned", "partitioned (paper)", "one order only", "uniform", "uniform (paper)"),
        rows,
        paper=("partitioned (paper)", "uniform (paper)"),
        note="'one order only' arranges groups by reverse Cuthill–McKee alone, as the thesis does, "
        "over sampled tables: at m = 50 its result hangs on a few records, and the printed 36.5 is "
        "one of the bad ones. The better of two orders does not have that accident.",
    )
    rows = []
    for skew, pp, up in ((1, 36.5, 99.4), (2, 26.7, 174.5), (3, 12.0, 44.8)):
        counts = zipf(50, skew, least=0.001)
        partitioned, uniform = _zipf_errors(list(counts), setting.runs, f"table 6 {skew}")
        rows.append((skew, int((counts > 0).sum()), partitioned, pp, uniform, up))
    sixth = ResultTable(
        "Table 6",
        "ZIP: reconstruction error by skewness, in % (m = 50)",
        ("lambda", "values", "partitioned", "partitioned (paper)", "uniform", "uniform (paper)"),
        rows,
        paper=("partitioned (paper)", "uniform (paper)"),
        note="Shares below 0.1 % are dropped (errata T17).",
    )
    return [fifth, sixth], []


def query_answers(
    data: People,
    queries: Conjunctions,
    asked: RhoPrivacy,
    diversity: int | None,
    draws: Draws = DRAWS,
) -> dict[str, FloatArray]:
    """Estimates by (condition, value) of uniform, partitioned and, if wanted, Anatomy."""
    table = data.profile
    answers = {}
    for name, mechanism in (
        ("uniform", UniformPerturbation()),
        ("partitioned", PartitionedPerturbation()),
    ):
        plan = mechanism.plan(table, asked, DRAWS)
        shown = shown_symbols(plan, data, draws.child(f"queries {name} {asked}"))
        if isinstance(plan, PartitionedPlan):
            operator: Operator = plan.columns["s"].operator
        else:
            operator = plan.operators["s"]
        answers[name] = queries.estimates(shown, operator)
    if diversity is not None:
        kept, buckets = anatomy(data, diversity, draws.child("anatomy"))
        answers["Anatomy"] = anatomy_estimates(data, kept, buckets, queries.rows)
    return answers


def _query_series(
    data: People,
    setting: Setting,
    name: str,
    settings: Sequence[tuple[float, int, int]],
    x: str,
    rho1: Fraction | None = None,
) -> list[Series]:
    """One chart per selectivity; `settings` are (x, |T|, L)."""
    lines: dict[float, dict[str, list[tuple[float, float]]]] = {s: {} for s in SELECTIVITIES}
    for place, size, diversity in settings:
        some = data.first(size)
        counts = histogram(some.counts)
        asked = (
            promise(counts, diversity) if rho1 is None else RhoPrivacy(rho1, Fraction(1, diversity))
        )
        queries = random_conjunctions(some.quasi, setting.conditions, DRAWS.child("pool"))
        truth = queries.counts(some.sensitive, some.values)
        for method, answers in query_answers(some, queries, asked, diversity).items():
            for least in SELECTIVITIES:
                error = 100 * relative_error(truth, answers, size, least)
                lines[least].setdefault(method, []).append((place, error))
    return [
        Series(
            name,
            f"Error of count queries by {x}, selectivity at least {100 * s:g} %.",
            x,
            "error, %",
            lines[s],
        )
        for s in SELECTIVITIES
    ]


def occupation_queries(data: People, sizes: Sequence[int], setting: Setting) -> Outcome:
    """Figures 17 and 18."""
    base = 300_000
    by_l = [(float(L), base, L) for L in (6, 5, 4, 3)]
    by_size = [(float(size), size, 6) for size in sizes]
    series = _query_series(data, setting, "Figure 17", by_l, "L")
    series += _query_series(data, setting, "Figure 17", by_size, "|T|")
    some = data.first(base)
    queries = random_conjunctions(some.quasi, setting.conditions, DRAWS.child("pool"))
    truth = queries.counts(some.sensitive, some.values)
    chosen = truth >= 0.001 * base
    answers = query_answers(some, queries, promise(histogram(some.counts), 6), 6)
    rows: list[tuple[Cell, ...]] = []
    lines = {}
    for method, answer in answers.items():
        true, estimated = truth[chosen].astype(np.float64), answer[chosen]
        slope, intercept = np.polyfit(true, estimated, 1)
        fit = (
            1
            - ((estimated - slope * true - intercept) ** 2).sum()
            / ((estimated - estimated.mean()) ** 2).sum()
        )
        rows.append((method, float(slope), float(intercept), float(fit), int(chosen.sum())))
        step = max(1, len(true) // 400)
        lines[method] = list(zip(true[::step].tolist(), estimated[::step].tolist(), strict=True))
    figure = Series(
        "Figure 18",
        "Estimated against actual counts, OCC-300k, L = 6, s = 0.1 %.",
        "actual",
        "estimated",
        lines,
        marks=True,
    )
    table = ResultTable(
        "Figure 18, lines",
        "The line that fits the points best, and its R²",
        ("method", "slope", "intercept", "R²", "queries"),
        rows,
    )
    return [table], [*series, figure]


def education_queries(data: People, sizes: Sequence[int], setting: Setting) -> Outcome:
    """Figure 19: rho1 = 1/30 covers the rare values only."""
    rho1 = Fraction(1, 30)
    by_l = [(float(L), 300_000, L) for L in (10, 8, 6, 4)]
    by_size = [(float(size), size, 10) for size in sizes]
    series = _query_series(data, setting, "Figure 19", by_l, "L", rho1)
    return [], series + _query_series(data, setting, "Figure 19", by_size, "|T|", rho1)


def reverse_cuthill_mckee(groups: IntArray) -> list[int]:
    """Reverse Cuthill–McKee on A·Aᵀ, groups as rows of A.

    The order is not unique; this rule gives the thesis's Example 8 (errata T8): components by
    their smallest group, a pseudo-peripheral root (George–Liu) found from it, neighbours by
    (degree, number), reversed within each component.

    >>> example = np.array([[6, 6, 6, 0, 0, 0, 0], [4, 0, 0, 4, 4, 0, 0], [2, 2, 0, 0, 0, 2, 0],
    ...                     [0, 0, 0, 1, 0, 1, 1]])
    >>> reverse_cuthill_mckee(example)
    [0, 2, 1, 3]
    """
    holds = (groups > 0).astype(np.float32)
    linked = (holds @ holds.T) > 0
    np.fill_diagonal(linked, False)
    degrees = linked.sum(axis=1)

    def rank(group: int) -> tuple[int, int]:
        return int(degrees[group]), group

    neighbours = [sorted(np.flatnonzero(row).tolist(), key=rank) for row in linked]
    seen: set[int] = set()
    order: list[int] = []
    for start in range(len(groups)):
        if start not in seen:
            component = list(chain(*_levels(_peripheral(start, neighbours, rank), neighbours)))
            seen.update(component)
            order += reversed(component)
    return order


def _levels(root: int, neighbours: list[list[int]]) -> list[list[int]]:
    """Groups by their distance from the root, in the order of a breadth-first walk."""
    levels, seen = [[root]], {root}
    while True:
        reached = (other for group in levels[-1] for other in neighbours[group])
        following = list(dict.fromkeys(other for other in reached if other not in seen))
        if not following:
            return levels
        seen.update(following)
        levels.append(following)


def _peripheral(
    start: int, neighbours: list[list[int]], rank: Callable[[int], tuple[int, int]]
) -> int:
    """George and Liu: go to the least-linked group of the last level while the walk deepens.

    Where it deepens no more, the far end is the root: that is how Example 8 comes out.
    """
    levels = _levels(start, neighbours)
    while True:
        other = min(levels[-1], key=rank)
        deeper = _levels(other, neighbours)
        if len(deeper) <= len(levels):
            return other
        levels = deeper


RARE = 1 / 30  # the thesis's ρ1 for EDU
SKEWS = (1, 2, 3, 4)
ZIPF_VALUES = 50
NON_ZERO = 0.001  # a share that the thesis's picture still shows (errata T17)


def shares_of_census(tables: Mapping[str, People]) -> Outcome:
    """Figure 15: OCC is balanced, EDU skewed."""
    rows: list[tuple[Cell, ...]] = []
    lines = {}
    for name, data in tables.items():
        shares = 100 * np.sort(data.first(300_000).counts)[::-1] / 300_000
        rare = int((shares < 100 * RARE).sum())
        rows.append((name, len(shares), float(shares[0]), float(shares[-1]), rare))
        lines[name] = [(rank + 1.0, float(share)) for rank, share in enumerate(shares)]
    columns = ("data", "values", "most, %", "least, %", "values below 1/30")
    title = "Shares of the sensitive values, 300,000 records"
    return (
        [ResultTable("Figure 15", title, columns, rows)],
        [Series("Figure 15", title, "value", "share, %", lines)],
    )


def zipfian() -> Outcome:
    """Figure 16: f_i ~ i^−λ."""
    rows: list[tuple[Cell, ...]] = []
    lines = {}
    for skew in SKEWS:
        shares = zipf(ZIPF_VALUES, skew) / 300_000
        seen = int((shares >= NON_ZERO).sum())
        rows.append((skew, 100 * float(shares[0]), seen))
        lines[f"λ = {skew}"] = [(rank + 1.0, 100 * float(s)) for rank, s in enumerate(shares)]
    columns = ("lambda", "most, %", "values of 0.1 % and more")
    title = f"ZIP, m = {ZIPF_VALUES}"
    return (
        [ResultTable("Figure 16", title, columns, rows)],
        [Series("Figure 16", title, "value", "share, %", lines)],
    )


Lines = dict[str, list[tuple[float, float]]]
SKEWED = RhoPrivacy(Fraction(1, 30), Fraction(1, 10))  # what the thesis asks of EDU
DIVERSITY = {"OCC": 6, "EDU": 10}
THETA = {"OCC": 20, "EDU": 30}


def publishing(tables: Mapping[str, People], sizes: Sequence[int]) -> Outcome:
    """Figure 20: planning and drawing, without files."""
    found = []
    for data, records in tables.items():
        lines: Lines = {}
        for size in sizes:
            some = records.first(size)
            asked = promise(histogram(some.counts), 6) if data == "OCC" else SKEWED
            table = some.profile
            for name, mechanism in (
                ("partitioned", PartitionedPerturbation()),
                ("uniform", UniformPerturbation()),
            ):
                began = time.process_time()
                shown_symbols(mechanism.plan(table, asked, DRAWS), some, DRAWS.child(name))
                lines.setdefault(name, []).append((size, time.process_time() - began))
            began = time.process_time()
            anatomy(some, DIVERSITY[data], DRAWS)
            lines.setdefault("Anatomy", []).append((size, time.process_time() - began))
        title = f"Run time by |T|, {data}, planning and drawing, without files."
        found.append(Series("Figure 20", title, "|T|", "seconds", lines))
    return [], found


def planning(tables: Mapping[str, People], sizes: Sequence[int]) -> Outcome:
    """Figures 29 and 30: planning alone, which is what the thesis's linear program takes."""
    found = []
    for data, records in tables.items():
        by_size: Lines = {"fine-grain": [], "uniform": []}
        for size in sizes:
            _time(records.first(size).counts, THETA[data], size, by_size)
        title = f"Planning time by |T|, {data}."
        found.append(Series("Figure 29", title, "|T|", "seconds", by_size))
    by_m: Lines = {"fine-grain": [], "uniform": []}
    for m in (20, 50, 200, 1000, 5000, 15_000):
        _time(zipf(m, 1.0, rows=3_000_000), 30, m, by_m)
    title = "Planning time by m, ZIP, theta = 30."
    return [], [*found, Series("Figure 30", title, "m", "seconds", by_m)]


def _time(counts: IntArray, theta: int, x: float, lines: Lines) -> None:
    table = histogram(counts)
    began = time.process_time()
    gammas = FineRhoPrivacy(theta=Fraction(theta)).odds_limits(table)
    uniform = uniform_retention(gammas)
    lines["uniform"].append((x, time.process_time() - began))
    top = best_top(as_floats(gammas), counts / counts.sum(), float(uniform / 4))
    drawable(gammas, top, uniform / 4)
    lines["fine-grain"].append((x, time.process_time() - began))
