"""The series of Figures 2 to 10, but for threshold modes and prefix ranges."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from papers.heterogeneous.curve import CurveBurel
from papers.heterogeneous.data import People, Setting
from papers.heterogeneous.matchers import Matched
from papers.range_counts import median_errors, median_errors_by_shape
from papers.tables import Series
from sfumato.draws import Draws
from sfumato.engines.counting import take_profile
from sfumato.engines.whole import WholeTable
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.generalized import TablePlan, penalty
from sfumato.mechanisms.protocol import Mechanism
from sfumato.table import Table

MATCHING: dict[str, str | Mechanism] = {
    "HG": Matched(),
    "SG": Matched(match="sort-greedy", block=256),
    "GR": Matched(match="greedy"),
}
DIVERSITY: dict[str, str | Mechanism] = {
    **MATCHING,
    "NH": "ring",
    "regions": "heterogeneous",
}
LIKENESS = {**MATCHING, "BuReL": CurveBurel(), "regions": "heterogeneous"}
LAWS = {"CENSUS": "own", "Uniform": "uniform", "Zipfian": "zipf(0.5)"}
Point = tuple[float, float]
USUAL_L, USUAL_BETA = 10, 3


def measured(table: Table, promise: str, way: str | Mechanism) -> tuple[float, float] | None:
    """GCP and CPU seconds; None where the promise cannot be kept."""
    profile = take_profile(table)
    whole = WholeTable(table, profile, True)
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


def _always(table: Table) -> Callable[[float], Table]:
    return lambda _: table


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


def diversity(people: People, setting: Setting) -> list[Series]:
    """Figure 2: information loss by l, on three laws of the sensitive value."""
    made = []
    for letter, (name, law) in zip("abc", LAWS.items(), strict=True):
        table = people.table(law=law)
        losses, _ = _lines(
            DIVERSITY, setting.diversities, _always(table), lambda x: f"l-diversity({int(x)})"
        )
        made.append(Series(f"Figure 2({letter})", f"GCP by l, {name}", "l", "GCP", losses))
    return made


def dimensions(people: People, setting: Setting) -> list[Series]:
    """Figure 3: information loss by the number of quasi columns, on three laws."""
    promise = f"l-diversity({setting.diversities[-1]})"
    made = []
    for letter, (name, law) in zip("abc", LAWS.items(), strict=True):
        losses, _ = _lines(
            DIVERSITY,
            setting.widths,
            lambda d, law=law: people.table(quasi=int(d), law=law),  # type: ignore[misc]
            lambda _: promise,
        )
        title = f"GCP by quasi columns, {name}"
        made.append(Series(f"Figure 3({letter})", title, "d", "GCP", losses))
    return made


def _reached(people: People, setting: Setting) -> list[int]:
    return [size for size in setting.sizes if size <= people.records.num_rows]


def sizes(people: People, setting: Setting) -> list[Series]:
    """Figures 4(a) and 5(a): loss and seconds by records."""
    promise = f"l-diversity({setting.diversities[-1]})"
    blocked = {**DIVERSITY, "GR": Matched(match="greedy", block=256)}
    losses, times = _lines(
        blocked,
        _reached(people, setting),
        lambda n: people.table(rows=int(n)),
        lambda _: promise,
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


def likeness(people: People, setting: Setting) -> list[Series]:
    """Figure 6: information loss by beta, on three laws of the sensitive value."""
    made = []
    for letter, (name, law) in zip("abc", LAWS.items(), strict=True):
        table = people.table(law=law)
        losses, _ = _lines(
            LIKENESS,
            setting.likenesses,
            _always(table),
            lambda x: f"beta-likeness({int(x)})",
        )
        made.append(Series(f"Figure 6({letter})", f"GCP by beta, {name}", "beta", "GCP", losses))
    return made


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
        found = median_errors_by_shape(
            table,
            f"beta-likeness({beta})",
            list(ways.values()),
            shapes,
            count=setting.questions,
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


def wide_likeness(people: People, insured: People, setting: Setting) -> list[Series]:
    """Figure 10(a, b): the error up to betas at which l-diversity serves (Theorem 4)."""
    betas = (2, 10, 50) if setting.rows < 5000 else (1, 3, 10, 30, 50, 100)
    made = []
    for letter, name, records in (("a", "CENSUS", people), ("b", "COIL", insured)):
        ways: dict[str, str | Mechanism] = {"HG": LIKENESS["HG"], "BuReL": LIKENESS["BuReL"]}
        lines: dict[str, list[Point]] = {}
        for beta in betas:
            errors = median_errors(
                records.table(),
                f"beta-likeness({beta})",
                list(ways.values()),
                count=setting.questions,
                selectivity=0.1,
            )
            shown = {way: [errors[text]] for way, text in ways.items()}
            for way, (error,) in shown.items():
                lines.setdefault(way, []).append((beta, error))
        title = f"Median relative error by a wide range of beta, {name}"
        made.append(Series(f"Figure 10({letter})", title, "beta", "error", lines))
    return made


PREFIX_COLUMNS = ("age", "gender", "education", "marital", "race")


def prefixes(people: People, setting: Setting) -> list[Series]:
    """Figure 10(c): education up to some level, single values of the other columns."""
    some = People(people.records, PREFIX_COLUMNS, people.sensitive, people.rows)
    ways: dict[str, str | Mechanism] = {
        "HG": LIKENESS["HG"],
        "BuReL": LIKENESS["BuReL"],
        "optimal buckets": "optimal",
    }
    lines: dict[str, list[Point]] = {}
    for beta in setting.likenesses:
        errors = median_errors(
            some.table(),
            f"beta-likeness({beta})",
            list(ways.values()),
            count=setting.questions,
            columns=3,
            kind="prefixes",
        )
        shown = {way: [errors[text]] for way, text in ways.items()}
        for way, (error,) in shown.items():
            lines.setdefault(way, []).append((beta, error))
    title = "Median relative error of prefix ranges, CENSUS, by beta"
    return [Series("Figure 10(c)", title, "beta", "error", lines)]
