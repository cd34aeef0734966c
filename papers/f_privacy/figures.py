"""Figures 2 to 7 of "Inferential or Differential: Privacy Laws Dictate"."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from papers.coded import People
from papers.f_privacy.pruning import sequential_two_size
from papers.f_privacy.queries import CountQueries, Published
from sfumato.draws import Draws, IntArray
from sfumato.guarantees import FPrivacy
from sfumato.mechanisms.buckets import MultiSizeBuckets, OptimalBuckets, TwoSizeBuckets
from sfumato.mechanisms.buckets.multi_size import recursive_multi_size
from sfumato.mechanisms.buckets.optimal import integer_program, optimal_setting
from sfumato.mechanisms.buckets.settings import Limits, mean_squared_error, setting_of
from sfumato.mechanisms.buckets.two_size import best_two_size
from sfumato.operators.bucket_estimates import Shrunk
from sfumato.pages.tables import ReportTable, Series
from sfumato.profile import Histogram, Profile

THETAS = (2, 4, 8, 16, 32)
FLOOR = Fraction(1, 50)
LARGEST = 50

Outcome = tuple[list[ReportTable], list[Series]]


@dataclass(frozen=True)
class Effort:
    """How much of the paper's work to do."""

    queries: int
    rows: int
    cardinalities: tuple[int, ...]
    scale_ups: tuple[int, ...]
    seconds: float  # for each integer program
    thetas: tuple[int, ...] = THETAS


def limits_of(counts: IntArray, theta: int) -> Limits:
    """f'_x = min(1, θ f_x + 0.02) (Table 4)."""
    histogram = Histogram("s", tuple(range(len(counts))), counts)
    return Limits(tuple(FPrivacy(theta=Fraction(theta), floor=FLOOR).ceilings(histogram)))


def scaled(counts: IntArray, rows: int) -> IntArray:
    """The same distribution over `rows` records: floors, and one more for the first values.

    >>> scaled(np.array([1, 2]), 10).tolist()
    [4, 6]
    """
    total = int(counts.sum())
    grown = counts * rows // total
    grown[: rows - int(grown.sum())] += 1
    return grown


def distributions(columns: dict[str, IntArray]) -> Outcome:
    """Figure 2."""
    lines = {
        name: [(rank + 1.0, float(n)) for rank, n in enumerate(sorted(counts, reverse=True))]
        for name, counts in columns.items()
    }
    return [], [Series("Figure 2", "Frequency of the sensitive values", "value", "records", lines)]


def diversity(columns: dict[str, IntArray]) -> Outcome:
    """Figure 3: the l that l-diversity would need (Remark 1), and whether it exists."""
    rows: list[tuple[str | int | float | None, ...]] = []
    for name, counts in columns.items():
        for theta in THETAS:
            needed = limits_of(counts, theta).needed_size(counts)
            exists = int(counts.max()) * needed <= int(counts.sum())
            rows.append((name, theta, needed, "yes" if exists else "no"))
    table = ReportTable(
        "Figure 3", "l-diversity that models F'-privacy", ("data", "theta", "l", "possible"), rows
    )
    return [table], []


def loss_figure(columns: dict[str, IntArray], effort: Effort) -> Outcome:
    """Figure 4: mean squared error; Anatomy from N and l alone, as the paper has it (F14)."""
    rows: list[tuple[str | int | float | None, ...]] = []
    for name, small in columns.items():
        counts = scaled(small, effort.rows)
        for theta in effort.thetas:
            limits = limits_of(counts, theta)
            needed = limits.needed_size(counts)
            buckets = effort.rows // needed
            size, more = divmod(effort.rows, buckets)
            anatomy = setting_of((size, size + 1), (buckets - more, more))
            two = best_two_size(counts, limits, LARGEST)
            many = recursive_multi_size(counts, limits, LARGEST)
            best = optimal_setting(counts, limits, LARGEST)
            program = integer_program(counts, limits, LARGEST, effort.seconds)
            rows.append(
                (
                    name,
                    theta,
                    float(mean_squared_error(anatomy)),
                    float(mean_squared_error(two)) if two else None,
                    float(mean_squared_error(many[0])) if many else None,
                    float(mean_squared_error(best.setting)) if best else None,
                    best.gap if best else None,
                    float(mean_squared_error(program)) if program else None,
                )
            )
    columns_ = (
        "data",
        "theta",
        "Anatomy",
        "TwoSize",
        "MultiSize",
        "optimal, ours",
        "proven gap",
        "integer program",
    )
    table = ReportTable("Figure 4", f"MSE, {effort.rows:,} records", columns_, rows)
    lines = {
        f"{name}, {label}": [
            (float(row[1] or 0), float(row[place] or 0)) for row in rows if row[0] == name
        ]
        for name in columns
        for place, label in ((2, "Anatomy"), (3, "TwoSize"), (4, "MultiSize"), (5, "optimal"))
    }
    return [table], [Series("Figure 4", "MSE", "theta", "MSE", lines)]


def error_figure(tables: dict[str, People], effort: Effort) -> Outcome:
    """Figure 5: mean relative error of count queries, by the paper's estimate and by ours."""
    rows: list[tuple[str | int | float | None, ...]] = []
    for name, people in tables.items():
        asked = CountQueries.draw(people, effort.queries, seed=11)
        for theta in effort.thetas:
            promise = FPrivacy(theta=Fraction(theta), floor=FLOOR)
            line: list[str | int | float | None] = [name, theta]
            for way in (
                TwoSizeBuckets(LARGEST),
                MultiSizeBuckets(LARGEST),
                OptimalBuckets(LARGEST),
            ):
                histogram = Histogram("s", tuple(range(people.values)), people.counts)
                profile = Profile(people.rows, {"s": histogram})
                plan = way.plan_column(profile, promise, Draws.from_seed(theta))
                shrunk = Shrunk(plan.operator, people.counts.astype(np.float64))
                published = Published.of(people, plan)
                line.append(asked.error(published, None))
                line.append(asked.error(published, shrunk))
            rows.append(tuple(line))
    columns = (
        "data",
        "theta",
        "TwoSize",
        "TwoSize, shrunk",
        "MultiSize",
        "MultiSize, shrunk",
        "Optimal",
        "Optimal, shrunk",
    )
    title = "Mean relative error of count queries (1 % selectivity)"
    table = ReportTable("Figure 5", title, columns, rows)
    lines = {
        f"{name}, {label}": [
            (float(row[1] or 0), float(row[place] or 0)) for row in rows if row[0] == name
        ]
        for name in tables
        for place, label in ((2, "TwoSize"), (4, "MultiSize"), (6, "Optimal"), (7, "ours"))
    }
    return [table], [Series("Figure 5", title, "theta", "relative error", lines)]


def cardinality_figure(counts: IntArray, effort: Effort) -> Outcome:
    """Figure 6: seconds to plan, by the number of records."""
    rows: list[tuple[str | int | float | None, ...]] = []
    for size in effort.cardinalities:
        grown = scaled(counts, size)
        rows.append((size, *_times(grown, limits_of(grown, 8), effort, sequential=True)))
    return _runtime("Figure 6", "records", rows)


def values_figure(counts: IntArray, effort: Effort) -> Outcome:
    """Figure 7: seconds to plan, by the number of values (each split into γ)."""
    rows: list[tuple[str | int | float | None, ...]] = []
    for factor in effort.scale_ups:
        draws = Draws.from_seed(factor)
        split = draws.multinomial("split", scaled(counts, effort.rows), np.ones(factor, np.int64))
        grown = split.reshape(-1)
        times = _times(grown, limits_of(grown, 8), effort, sequential=factor <= 8)
        rows.append((len(grown), *times))
    return _runtime("Figure 7", "values", rows)


def _times(
    counts: IntArray, limits: Limits, effort: Effort, *, sequential: bool
) -> tuple[float | None, ...]:
    def program() -> object:
        return integer_program(counts, limits, LARGEST, effort.seconds)

    return (
        _seconds(lambda: sequential_two_size(counts, limits, LARGEST, prune_by_loss=False))
        if sequential
        else None,
        _seconds(lambda: sequential_two_size(counts, limits, LARGEST, prune_by_loss=True))
        if sequential
        else None,
        _seconds(lambda: best_two_size(counts, limits, LARGEST)),
        _seconds(lambda: optimal_setting(counts, limits, LARGEST)),
        _seconds(program),
    )


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _runtime(name: str, unit: str, rows: list[tuple[str | int | float | None, ...]]) -> Outcome:
    labels = ("No-pruning", "Loss-pruning", "Full-pruning", "optimal, ours", "integer program")
    title = f"Seconds to plan, by {unit}"
    lines = {
        label: [
            (float(row[0] or 0), float(row[place + 1] or 0))
            for row in rows
            if row[place + 1] is not None
        ]
        for place, label in enumerate(labels)
    }
    note = "The integer program is stopped at its time limit; Full-pruning is two-size (errata F8)."
    return (
        [ReportTable(name, title, (unit, *labels), rows, note=note)],
        [Series(name, title, unit, "seconds", lines)],
    )
