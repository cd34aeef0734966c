"""Chapter 5: fine-grain perturbation (Tables 8 to 10; Figures 24 to 28)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from papers.coded import People
from papers.perturbation.data import Setting, histogram, reconstructions, relative_error, zipf
from papers.perturbation.general import General
from papers.steps import Outcome
from papers.tables import Series
from sfumato.draws import IntArray
from sfumato.guarantees import FineRhoPrivacy
from sfumato.mechanisms.fine_grain import best_for_counts
from sfumato.mechanisms.retentions import as_floats, best_top, drawable, uniform_retention
from sfumato.operators import FineGrain
from sfumato.operators.base import DYADIC, Operator
from sfumato.results import Cell, ResultTable

SELECTIVITIES = (0.001, 0.005, 0.01)
METHODS = ("thesis", "p_min", "counts", "uniform")


def operators(counts: IntArray, theta: int) -> dict[str, FineGrain]:
    """The thesis's optimum (p_min = 0), ours above p_min, the best for counts, and uniform."""
    table = histogram(counts)
    gammas = FineRhoPrivacy(theta=Fraction(theta)).odds_limits(table)
    floats, shares = as_floats(gammas), counts / counts.sum()
    uniform = uniform_retention(gammas)
    made = {}
    for name, least in (("thesis", Fraction(0)), ("p_min", uniform / 4)):
        made[name] = FineGrain.of_numerators(
            drawable(gammas, best_top(floats, shares, float(least)), least)
        )
    made["counts"] = best_for_counts(gammas, counts.astype(np.float64))
    made["uniform"] = FineGrain.of([uniform] * len(counts))
    return made


def invertible(operator: FineGrain) -> Operator:
    """One value that is never kept still leaves P invertible, but not by the closed form."""
    if min(operator.kept) > 0:
        return operator
    rows = np.floor(operator.matrix() * DYADIC).astype(np.int64)
    rows[np.arange(len(rows)), np.arange(len(rows))] += DYADIC - rows.sum(axis=1)
    return General.of(rows.tolist())


def measure(
    counts: IntArray, theta: int, runs: int, purpose: str
) -> tuple[dict[str, list[float]], dict[str, float], dict[str, float]]:
    """By method: errors in % by selectivity, record utility in %, error of the commonest value."""
    errors, utility, commonest = {}, {}, {}
    rows, top = int(counts.sum()), int(np.argmax(counts))
    for name, operator in operators(counts, theta).items():
        found = reconstructions(invertible(operator), counts, runs, f"{purpose} {name}")
        by_run = [
            [relative_error(counts, estimate, rows, least) for least in SELECTIVITIES]
            for estimate in found
        ]
        errors[name] = [100 * float(error) for error in np.mean(by_run, axis=0)]
        utility[name] = 100 * float(counts @ np.diagonal(operator.matrix()) / rows)
        off = [abs(estimate[top] - counts[top]) / counts[top] for estimate in found]
        commonest[name] = 100 * float(np.mean(off))
    return errors, utility, commonest


def _error_table(
    name: str,
    title: str,
    first: str,
    cases: Sequence[tuple[int, IntArray, int]],
    printed: dict[int, tuple[tuple[float, ...], tuple[float, ...]]],
    runs: int,
) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    for label, counts, theta in cases:
        errors = measure(counts, theta, runs, f"{name} {label}")[0]
        for index, least in enumerate(SELECTIVITIES):
            fine, uniform = printed[label]
            ours = [errors[method][index] for method in METHODS]
            rows.append(
                (label, f"{100 * least:g} %", ours[0], fine[index], *ours[1:], uniform[index])
            )
    return ResultTable(
        name,
        title,
        (
            first,
            "s",
            "fine-grain, thesis",
            "fine-grain (paper)",
            "fine-grain, p_min",
            "fine-grain, counts",
            "uniform",
            "uniform (paper)",
        ),
        rows,
        paper=("fine-grain (paper)", "uniform (paper)"),
    )


def _utility_series(
    name: str, title: str, x: str, cases: Sequence[tuple[float, IntArray, int]], runs: int
) -> list[Series]:
    found = {at: measure(counts, t, runs, f"{name} {at}") for at, counts, t in cases}
    utility = {m: [(at, useful[m]) for at, (_, useful, _) in found.items()] for m in METHODS}
    commonest = {m: [(at, off[m]) for at, (_, _, off) in found.items()] for m in METHODS}
    return [
        Series(name, f"{title}: record utility.", x, "records kept, %", utility),
        Series(name, f"{title}: error of the commonest value.", x, "error, %", commonest),
    ]


def occupation_utility(data: People, sizes: Sequence[int], setting: Setting) -> Outcome:
    """Figures 24 and 25."""
    by_theta = [(float(t), data.first(300_000).counts, t) for t in (10, 15, 20, 25, 30)]
    by_size = [(float(n), data.first(n).counts, 20) for n in sizes]
    runs = setting.runs
    series = _utility_series("Figure 24", "OCC by theta", "theta", by_theta, runs)
    series += _utility_series("Figure 24", "OCC by |T|, theta = 20", "|T|", by_size, runs)
    for x, cases in (("theta", by_theta), ("|T|", by_size)):
        errors = {at: measure(n, t, runs, f"Figure 25 {x} {at}")[0] for at, n, t in cases}
        for index, least in enumerate(SELECTIVITIES):
            lines = {m: [(at, error[m][index]) for at, error in errors.items()] for m in METHODS}
            title = f"OCC: error of values with a share of at least {100 * least:g} %."
            series.append(Series("Figure 25", title, x, "error, %", lines))
    return [], series


def education_utility(data: People, sizes: Sequence[int], setting: Setting) -> Outcome:
    """Tables 8 and 9, Figure 26."""
    thetas = (15, 20, 25, 30)
    counts = data.first(300_000).counts
    eighth = _error_table(
        "Table 8",
        "EDU: error by theta, |T| = 300k, in %",
        "theta",
        [(theta, counts, theta) for theta in thetas],
        {
            15: ((234.66, 82.96, 28.26), (2.75, 2.24, 1.87)),
            20: ((126.55, 44.22, 21.35), (2.50, 1.77, 1.39)),
            25: ((4.22, 2.20, 1.55), (1.77, 1.41, 1.17)),
            30: ((95.10, 33.46, 7.45), (1.59, 1.26, 1.06)),
        },
        setting.runs,
    )
    ninth = _error_table(
        "Table 9",
        "EDU: error by |T|, theta = 30, in %",
        "|T|",
        [(size, data.first(size).counts, 30) for size in sizes],
        {
            100_000: ((183.73, 69.90, 11.97), (3.21, 2.22, 1.96)),
            200_000: ((83.72, 29.66, 8.97), (2.08, 1.50, 1.23)),
            300_000: ((95.10, 33.46, 7.45), (1.59, 1.26, 1.06)),
            400_000: ((71.65, 27.60, 5.95), (1.42, 1.00, 0.83)),
            500_000: ((73.38, 28.10, 5.26), (1.10, 0.86, 0.66)),
        },
        setting.runs,
    )
    by_theta = [(float(theta), counts, theta) for theta in thetas]
    by_size = [(float(n), data.first(n).counts, 30) for n in sizes]
    series = _utility_series("Figure 26", "EDU by theta", "theta", by_theta, setting.runs)
    series += _utility_series("Figure 26", "EDU by |T|, theta = 30", "|T|", by_size, setting.runs)
    return [eighth, ninth], series


def zipf_utility(setting: Setting) -> Outcome:
    """Table 10, Figures 27 and 28."""
    sizes = (20, 30, 40, 50)
    tenth = _error_table(
        "Table 10",
        "ZIP: error by m, theta = 30, |T| = 300k, in %",
        "m",
        [(m, zipf(m, 1.0), 30) for m in sizes],
        {
            20: ((1.73, 1.73, 1.73), (1.16, 1.16, 1.16)),
            30: ((4.80, 4.80, 3.38), (2.29, 2.29, 1.87)),
            40: ((9.52, 9.52, 4.19), (3.52, 3.52, 2.23)),
            50: ((39.93, 33.74, 11.04), (5.04, 4.54, 2.28)),
        },
        2 * max(setting.runs, 10),
    )
    by_m = [(float(m), zipf(m, 1.0), 30) for m in sizes]
    by_skew = [(float(skew), zipf(20, skew), 30) for skew in (1, 2, 3, 4)]
    series = _utility_series("Figure 27", "ZIP by m, theta = 30", "m", by_m, setting.runs)
    skewed = _utility_series("Figure 28", "ZIP by skewness, m = 20", "lambda", by_skew, 1)
    return [tenth], [*series, skewed[0]]
