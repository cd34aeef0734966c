"""The series of Figures 2 to 10, but for threshold modes and prefix ranges."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from papers import coded, public_files
from papers.heterogeneous.matchers import CurveBurel, Matched, penalty
from papers.range_counts import median_errors
from papers.tables import Series
from sfumato import datasets
from sfumato.draws import Draws, Positions
from sfumato.engines.counting import take_profile
from sfumato.engines.whole import WholeTable
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.generalized import TablePlan
from sfumato.mechanisms.protocol import Mechanism
from sfumato.table import Table, read

MATCHING: dict[str, str | Mechanism] = {
    "HG": Matched(),
    "SG": Matched(match="sort-greedy", block=256),
    "GR": Matched(match="greedy"),
}
DIVERSITY: dict[str, str | Mechanism] = {**MATCHING, "NH": "ring", "regions": "heterogeneous"}
LIKENESS = {**MATCHING, "BuReL": CurveBurel(), "regions": "heterogeneous"}
LAWS = {"CENSUS": "own", "Uniform": "uniform", "Zipfian": "zipf(0.5)"}
Point = tuple[float, float]
USUAL_L, USUAL_BETA = 10, 3


def measured(table: Table, promise: str, way: str | Mechanism) -> tuple[float, float] | None:
    """GCP and CPU seconds; None where the promise cannot be kept."""
    profile = take_profile(table)
    whole = WholeTable(table)
    draws = Draws.from_seed(1)
    mechanism = parse_mechanism(way) if isinstance(way, str) else way
    began = time.process_time()
    try:
        plan = mechanism.plan(profile, parse_guarantee(promise), draws)
    except InfeasibleGuarantee:
        return None
    assert isinstance(plan, TablePlan)
    made = plan.generalize(whole.axes, whole.codes, draws, _nothing)
    seconds = time.process_time() - began
    return float(penalty(whole.axes, made)), seconds


def _nothing(stage: str, done: int, total: int) -> None: ...


def _lines(
    ways: Mapping[str, str | Mechanism],
    points: Sequence[float],
    table: Callable[[float], Table],
    promise: Callable[[float], str],
) -> tuple[dict[str, list[Point]], dict[str, list[Point]]]:
    """GCP and seconds of every mechanism along the points."""
    losses: dict[str, list[Point]] = {name: [] for name in ways}
    times: dict[str, list[Point]] = {name: [] for name in ways}
    for point in points:
        for name, way in ways.items():
            found = measured(table(point), promise(point), way)
            if found is not None:
                losses[name].append((point, found[0]))
                times[name].append((point, found[1]))
    return losses, times


def _by_law(
    figure: str,
    x: str,
    ways: Mapping[str, str | Mechanism],
    points: Sequence[float],
    table: Callable[[float, str], Table],
    promise: Callable[[float], str],
) -> list[Series]:
    """Information loss on three laws of the sensitive value."""
    made = []
    for letter, (name, law) in zip("abc", LAWS.items(), strict=True):
        drawn = partial(table, law=law)  # type: ignore[call-arg]
        losses, _ = _lines(ways, points, drawn, promise)
        made.append(Series(f"Figure {figure}({letter})", f"GCP by {x}, {name}", x, "GCP", losses))
    return made


def diversity(people: People, setting: Setting) -> list[Series]:
    """Figure 2: by l."""

    def table(_: float, law: str) -> Table:
        return people.table(law=law)

    return _by_law("2", "l", DIVERSITY, setting.diversities, table, "l-diversity({:g})".format)


def dimensions(people: People, setting: Setting) -> list[Series]:
    """Figure 3: by the number of quasi columns."""

    def table(width: float, law: str) -> Table:
        return people.table(quasi=int(width), law=law)

    promise = f"l-diversity({setting.diversities[-1]})"
    return _by_law("3", "d", DIVERSITY, setting.widths, table, lambda _: promise)


def likeness(people: People, setting: Setting) -> list[Series]:
    """Figure 6: by beta."""

    def table(_: float, law: str) -> Table:
        return people.table(law=law)

    return _by_law("6", "beta", LIKENESS, setting.likenesses, table, "beta-likeness({:g})".format)


def _reached(people: People, setting: Setting) -> list[int]:
    return [size for size in setting.sizes if size <= people.records.num_rows]


def sizes(people: People, setting: Setting) -> list[Series]:
    """Figures 4(a) and 5(a): loss and seconds by records."""
    promise = f"l-diversity({setting.diversities[-1]})"
    blocked = {**DIVERSITY, "GR": Matched(match="greedy", block=256)}
    losses, times = _lines(
        blocked, _reached(people, setting), lambda n: people.table(rows=int(n)), lambda _: promise
    )
    return [
        Series("Figure 4(a)", "GCP by records, l-diversity", "records", "GCP", losses),
        Series("Figure 5(a)", "CPU seconds by records, l-diversity", "records", "seconds", times),
    ]


def blocks(people: People, setting: Setting) -> list[Series]:
    """Figures 4(b) and 5(b): loss and seconds by the rows that are matched at once."""
    promise = f"l-diversity({setting.diversities[-1]})"
    largest = people.table(rows=max(_reached(people, setting)))
    losses: dict[str, list[Point]] = {name: [] for name in MATCHING}
    times: dict[str, list[Point]] = {name: [] for name in MATCHING}
    for name, match in zip(MATCHING, ("hungarian", "sort-greedy", "greedy"), strict=True):
        for part in setting.parts:
            way = Matched(match=match, block=part)
            found = measured(largest, promise, way)
            if found is not None:
                losses[name].append((part, found[0]))
                times[name].append((part, found[1]))
    return [
        Series("Figure 4(b)", "GCP by block", "rows matched at once", "GCP", losses),
        Series("Figure 5(b)", "CPU seconds by block", "rows matched at once", "s", times),
    ]


def likeness_sizes(people: People, setting: Setting) -> list[Series]:
    """Figures 7(a) and 7(b): loss and seconds by records, under beta-likeness."""
    losses, times = _lines(
        LIKENESS,
        [size for size in _reached(people, setting) if size <= people.rows],
        lambda n: people.table(rows=int(n)),
        lambda _: f"beta-likeness({USUAL_BETA})",
    )
    return [
        Series("Figure 7(a)", "GCP by records, beta-likeness", "records", "GCP", losses),
        Series("Figure 7(b)", "CPU seconds by records, beta", "records", "seconds", times),
    ]


def skew(people: People, setting: Setting) -> list[Series]:
    """Figures 4(c), 5(c) and 7(c): loss by the skew of the sensitive value."""
    promise = f"l-diversity({min(5, setting.diversities[-1])})"
    losses, times = _lines(
        DIVERSITY, setting.skews, lambda s: people.table(law=f"zipf({s})"), lambda _: promise
    )
    likely, _ = _lines(
        LIKENESS,
        setting.skews,
        lambda s: people.table(law=f"zipf({s})"),
        lambda _: f"beta-likeness({USUAL_BETA})",
    )
    return [
        Series("Figure 4(c)", f"GCP by skew, {promise}", "theta", "GCP", losses),
        Series("Figure 5(c)", f"CPU seconds by skew, {promise}", "theta", "seconds", times),
        Series("Figure 7(c)", "GCP by skew, beta-likeness(3)", "theta", "GCP", likely),
    ]


def queries(name: str, data: str, people: People, setting: Setting) -> list[Series]:
    """Figures 8 and 9: median relative error by beta, by columns and by selectivity."""
    ways = {**MATCHING, "BuReL": LIKENESS["BuReL"], "optimal buckets": "optimal"}
    table = people.table()
    widths: Sequence[int] = range(1, min(len(people.quasi), 6) + 1)
    shares: Sequence[float] = (0.05, 0.1, 0.15, 0.2, 0.25)
    if setting.questions < 50:
        widths, shares = (widths[0], widths[-1]), (shares[0], shares[-1])
    further = [(width, 0.1) for width in widths] + [(3, share) for share in shares]
    by_beta: dict[str, list[Point]] = {}
    by_columns: dict[str, list[Point]] = {}
    by_share: dict[str, list[Point]] = {}
    for beta in setting.likenesses:
        shapes = [(3, 0.1), *(further if beta == USUAL_BETA else [])]
        found = median_errors(
            table, f"beta-likeness({beta})", list(ways.values()), shapes, count=setting.questions
        )
        errors = {way: [each[text] for each in found] for way, text in ways.items()}
        for way, error in errors.items():
            by_beta.setdefault(way, []).append((beta, error[0]))
            if beta == USUAL_BETA:
                cut = 1 + len(widths)
                by_columns[way] = list(zip(widths, error[1:cut], strict=True))
                by_share[way] = list(zip(shares, error[cut:], strict=True))
    title = f"Median relative error, {data}"
    return [
        Series(f"{name}(a)", f"{title}, by beta", "beta", "error", by_beta),
        Series(f"{name}(b)", f"{title}, by columns", "columns", "error", by_columns),
        Series(f"{name}(c)", f"{title}, by selectivity", "selectivity", "error", by_share),
    ]


def _by_beta(
    table: Table,
    ways: Mapping[str, str | Mechanism],
    betas: Sequence[int],
    count: int,
    **asked: Any,
) -> dict[str, list[Point]]:
    """The median error of each mechanism along the betas."""
    lines: dict[str, list[Point]] = {}
    for beta in betas:
        promise = f"beta-likeness({beta})"
        (errors,) = median_errors(table, promise, list(ways.values()), count=count, **asked)
        for way, text in ways.items():
            lines.setdefault(way, []).append((beta, errors[text]))
    return lines


def wide_likeness(people: People, insured: People, setting: Setting) -> list[Series]:
    """Figure 10(a, b): the error up to betas at which l-diversity serves (Theorem 4)."""
    betas = (2, 10, 50) if setting.rows < 5000 else (1, 3, 10, 30, 50, 100)
    ways = {name: LIKENESS[name] for name in ("HG", "BuReL")}
    made = []
    for letter, name, records in (("a", "CENSUS", people), ("b", "COIL", insured)):
        lines = _by_beta(records.table(), ways, betas, setting.questions, shapes=[(3, 0.1)])
        title = f"Median relative error by a wide range of beta, {name}"
        made.append(Series(f"Figure 10({letter})", title, "beta", "error", lines))
    return made


def prefixes(people: People, setting: Setting) -> list[Series]:
    """Figure 10(c): education up to some level, single values of the other columns."""
    quasi = ("age", "gender", "education", "marital", "race")
    table = People(people.records, quasi, people.sensitive, people.rows).table()
    ways = {"HG": LIKENESS["HG"], "BuReL": LIKENESS["BuReL"], "optimal buckets": "optimal"}
    lines = _by_beta(table, ways, setting.likenesses, setting.questions, kind="prefixes")
    title = "Median relative error of prefix ranges, CENSUS, by beta"
    return [Series("Figure 10(c)", title, "beta", "error", lines)]


NUMERIC = ("age", "education")
COIL_QUASI = ("MAANTHUI", "MGEMOMV", "MGEMLEEF", "MOSHOOFD")


@dataclass(frozen=True)
class Setting:
    """How much of the paper to rerun."""

    rows: int
    diversities: tuple[int, ...]
    likenesses: tuple[int, ...]
    sizes: tuple[int, ...]
    parts: tuple[int, ...]
    skews: tuple[float, ...]
    questions: int
    widths: tuple[int, ...] = (2, 3, 4, 5, 6, 7)

    @staticmethod
    def quick() -> Setting:
        return Setting(600, (2, 5), (2, 3), (300, 600), (32, 64), (0.5, 0.9), 12, (2, 7))

    @staticmethod
    def full() -> Setting:
        sizes = (1000, 10_000, 100_000, 500_000)
        skews = (0.5, 0.6, 0.7, 0.8, 0.9)
        return Setting(10_000, (2, 4, 6, 8, 10), (1, 2, 3, 4, 5), sizes, (64, 128, 256), skews, 300)


@dataclass(frozen=True, eq=False)
class People:
    """Records with their roles; tables with fewer records, fewer columns or other values."""

    records: pa.Table
    quasi: tuple[str, ...]
    sensitive: str
    rows: int

    def table(
        self, *, rows: int | None = None, quasi: int | None = None, law: str = "own"
    ) -> Table:
        """`law` own keeps the sensitive column; uniform and zipf(θ) draw it anew (Section 5)."""
        wanted = self.rows if rows is None else rows
        chosen = self.quasi if quasi is None else self.quasi[:quasi]
        records = self.records.slice(0, wanted).select([*chosen, self.sensitive])
        if law != "own":
            theta = 0.0 if law == "uniform" else float(law.removeprefix("zipf(").removesuffix(")"))
            codes = _drawn(records.num_rows, 50, theta)
            records = records.set_column(len(chosen), self.sensitive, pa.array(codes))
        categorical = [name for name in chosen if name not in NUMERIC]
        return read(records, quasi=chosen, sensitive=self.sensitive, categorical=categorical)


def _drawn(rows: int, values: int, theta: float) -> np.ndarray:
    """Values 0 … with shares proportional to rank^−θ."""
    weights = 1 / np.arange(1, values + 1) ** theta
    edges = np.cumsum(weights) / weights.sum()
    draws = Draws.from_seed(4).below("skewed values", Positions(0, rows), 1 << 40) / (1 << 40)
    return np.minimum(np.searchsorted(edges, draws), values - 1)


def census(data_dir: Path | None, rows: int, most: int = 100_000) -> tuple[People, list[str]]:
    """CENSUS with occupation; its first records, as in the paper. `most` are generated at most."""
    quasi = ("age", "gender", "education", "marital", "race", "workclass", "country")
    records, note = coded.census(data_dir, max(rows, most))
    return People(records, quasi, "occupation", rows), [note]


def coil(data_dir: Path | None, rows: int) -> tuple[People, list[str]]:
    """COIL 2000 with four quasi columns; generated records of as many columns where absent."""
    path = data_dir / "coil2000.parquet" if data_dir else None
    if path is not None and path.is_file():
        records = public_files.read_coil(path)
        return People(records, COIL_QUASI, "MOSTYPE", min(rows, records.num_rows)), [
            "COIL: real data."
        ]
    made = datasets.census(rows, seed=2)
    quasi = ("gender", "marital", "race", "workclass")
    return People(made, quasi, "occupation", rows), ["COIL: generated records stand in."]
