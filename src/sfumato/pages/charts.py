"""The charts of comparisons and reports, each with the table of what it shows.

Altair is imported where a chart is drawn: it takes longer to load than a command to start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.pages.render import Chart
from sfumato.pages.theme import (
    COLOURS,
    GREY,
    Row,
    Spec,
    colours,
    dashes,
    data,
    named,
    specification,
)
from sfumato.results import ResultTable, untitled

_ROW = 22  # pixels per line of a dot plot


@dataclass(frozen=True)
class Figure:
    """A figure with its interval."""

    value: float
    low: float
    high: float

    @property
    def ends(self) -> tuple[float, float, float]:
        return self.value, self.low, self.high


@dataclass(frozen=True)
class RiskPoint:
    """A candidate: what the best attack gains, and how far its answers are off."""

    name: str
    risk: Figure
    error: Figure


@dataclass(frozen=True)
class ErrorPoint:
    """A line's error at a size of count."""

    line: str
    count: float
    error: float
    questions: int | None = None


def risk_against_utility(points: Sequence[RiskPoint], error_title: str, caption: str) -> Chart:
    """Down and to the left is better: little gained by attacks, little lost by analysts."""
    import altair as alt

    names = [point.name for point in points]
    rows: list[Row] = [
        {
            "name": p.name,
            "error": p.error.value,
            "error_low": p.error.low,
            "error_high": p.error.high,
            "risk": p.risk.value,
            "risk_low": p.risk.low,
            "risk_high": p.risk.high,
        }
        for p in points
    ]
    base = alt.Chart(data(rows))
    x = alt.X("error:Q", title=error_title, axis=alt.Axis(format="~%"), scale=alt.Scale(nice=True))
    y = alt.Y("risk:Q", title="advantage of the strongest attack", axis=alt.Axis(format="~%"))
    color = alt.Color("name:N", scale=colours(names), title=None)
    zero = (
        alt.Chart(data([{"risk": 0}])).mark_rule(color=GREY, strokeDash=[3, 3]).encode(y="risk:Q")
    )
    across = base.mark_rule(strokeWidth=1.5).encode(
        x=alt.X("error_low:Q", title=error_title), x2="error_high:Q", y=y, color=color
    )
    up = base.mark_rule(strokeWidth=1.5).encode(
        x=x,
        y=alt.Y("risk_low:Q", title="advantage of the strongest attack"),
        y2="risk_high:Q",
        color=color,
    )
    dots = base.mark_point(filled=True, size=110, opacity=1).encode(
        x=x, y=y, **named("name", names), tooltip=["name:N", "error:Q", "risk:Q"]
    )
    table = untitled(
        ("candidate", "error", "from", "to", "advantage", "from ", "to "),
        [(p.name, *p.error.ends, *p.risk.ends) for p in points],
        percent=frozenset(("error", "from", "to", "advantage", "from ", "to ")),
    )
    spec = specification(alt.layer(zero, across, up, dots), 360)
    return Chart("risk", "Risk against utility", caption, [("", spec)], table)


def error_by_count(points: Sequence[ErrorPoint], caption: str, *, name: str = "count") -> Chart:
    """Relative error against the size of the true count, one line each."""
    import altair as alt

    lines = list(dict.fromkeys(point.line for point in points))
    rows: list[Row] = [
        {"line": p.line, "count": p.count, "error": max(p.error, 1e-4)} for p in points
    ]
    encodings = {
        "x": alt.X(
            "count:Q",
            title="size of the count",
            scale=alt.Scale(type="log", nice=False),
            axis=alt.Axis(format="~s", tickCount=6),
        ),
        "y": alt.Y(
            "error:Q",
            title="relative error",
            scale=alt.Scale(type="log", nice=False),
            axis=alt.Axis(format="~%", tickCount=6),
        ),
    }
    base = alt.Chart(data(rows))
    drawn = base.mark_line(strokeWidth=2).encode(
        **encodings,
        color=alt.Color("line:N", scale=colours(lines), title=None),
        strokeDash=alt.StrokeDash("line:N", scale=dashes(lines), title=None),
    )
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(
        **encodings, **named("line", lines), tooltip=["line:N", "count:Q", "error:Q"]
    )
    table = untitled(
        ("line", "size of the count", "questions", "relative error"),
        [(p.line, round(p.count), p.questions, p.error) for p in points],
        percent=frozenset(("relative error",)),
    )
    spec = specification(alt.layer(drawn, dots))
    return Chart(name, "Error by size of count", caption, [("", spec)], table)


def estimate_against_truth(
    answers: Mapping[str, Sequence[tuple[float, float]]], table: ResultTable, caption: str
) -> Chart:
    """A panel per candidate: every answer beside its truth, on scales that show small and large."""
    import altair as alt

    highest = max((truth for pairs in answers.values() for truth, _ in pairs), default=1.0)
    # the two scales differ, so that right answers lie on a curve
    right: list[Row] = [{"t": t, "e": t} for t in (highest ** (k / 40) for k in range(41))]
    panels: list[tuple[str, Spec]] = []
    for number, (name, pairs) in enumerate(answers.items()):
        rows: list[Row] = [{"truth": t, "estimate": round(e, 1)} for t, e in pairs]
        line = alt.Chart(data(right))
        diagonal = line.mark_line(color=GREY, strokeDash=[4, 3], strokeWidth=1).encode(
            x="t:Q", y="e:Q"
        )
        dots = (
            alt.Chart(data(rows))
            .mark_point(filled=True, size=14, opacity=0.45, clip=True)
            .encode(
                x=alt.X(
                    "truth:Q",
                    title="truth",
                    axis=alt.Axis(format="~s", tickCount=4),
                    scale=alt.Scale(type="log", domain=[1, highest], nice=False),
                ),
                y=alt.Y(
                    "estimate:Q",
                    title="estimate",
                    axis=alt.Axis(format="~s", tickCount=5),
                    scale=alt.Scale(
                        type="symlog",
                        domain=[-highest / 50, 1.5 * highest],
                        constant=max(highest / 1000, 1),
                        nice=False,
                    ),
                ),
                color=alt.value(COLOURS[number % len(COLOURS)]),
            )
        )
        panels.append((name, specification(alt.layer(diagonal, dots), 210)))
    return Chart("truth", "Estimate against truth", caption, panels, table)


def error_by_value(
    errors: Mapping[str, Mapping[str, float]],
    caption: str,
    *,
    most: int = 30,
    name: str = "value",
) -> Chart:
    """Errors by sensitive value (the keys) and line; the chart shows the ends of a long list."""
    import altair as alt

    lines = list(dict.fromkeys(line for error in errors.values() for line in error))
    ranked = sorted(
        errors, key=lambda value: -sum(errors[value].values()) / max(len(errors[value]), 1)
    )
    shown = ranked if len(ranked) <= most else ranked[: most // 2] + ranked[-(most // 2) :]
    rows: list[Row] = [
        {"value": value, "line": line, "error": max(error, 1e-4)}
        for value in shown
        for line, error in errors[value].items()
    ]
    dots = (
        alt.Chart(data(rows))
        .mark_point(filled=True, size=65, opacity=0.9)
        .encode(
            x=alt.X(
                "error:Q",
                title="relative error",
                axis=alt.Axis(format="~%", tickCount=6),
                scale=alt.Scale(type="log", nice=False, padding=8),
            ),
            y=alt.Y("value:N", title=None, sort=shown, axis=alt.Axis(grid=True, labelLimit=140)),
            **named("line", lines),
            tooltip=["value:N", "line:N", "error:Q"],
        )
    )
    if len(shown) < len(ranked):
        caption += f" The {most // 2} worst and the {most // 2} best of {len(ranked):,} values."
    table = untitled(
        ("value", *lines),
        [(value, *(errors[value].get(line) for line in lines)) for value in ranked],
        percent=frozenset(lines),
    )
    spec = specification(dots, max(4, len(shown)) * 18)
    return Chart(name, "Error by value", caption, [("", spec)], table)


def attack_advantage(
    figures: Mapping[str, Mapping[str, Figure]], caption: str, *, by: str = "candidate"
) -> Chart:
    """Per attack (the keys): what it gains against each line, with intervals. 0 is nothing."""
    import altair as alt

    lines = list(dict.fromkeys(line for figure in figures.values() for line in figure))
    ends = [end for figure in figures.values() for f in figure.values() for end in (f.low, f.high)]
    low, high = min(0.0, *ends), max(0.02, *ends)
    panels: list[tuple[str, Spec]] = []
    for attack, advantage in figures.items():
        rows: list[Row] = [
            {"line": line, "gain": f.value, "low": f.low, "high": f.high}
            for line, f in advantage.items()
        ]
        base = alt.Chart(data(rows))
        scale = alt.Scale(domain=[low, high], nice=True)
        axis = alt.Axis(format="~%", tickCount=5)
        y = alt.Y("line:N", title=None, sort=list(advantage), axis=alt.Axis(labelLimit=170))
        zero = alt.Chart(data([{"gain": 0}])).mark_rule(color=GREY, strokeDash=[3, 3])
        bars = base.mark_rule(strokeWidth=2).encode(
            x=alt.X("low:Q", title="advantage", scale=scale, axis=axis),
            x2="high:Q",
            y=y,
            color=alt.Color("line:N", scale=colours(lines), legend=None),
        )
        dots = base.mark_point(filled=True, size=70, opacity=1).encode(
            x=alt.X("gain:Q", scale=scale, axis=axis), y=y, **named("line", lines, legend=False)
        )
        layers = alt.layer(zero.encode(x=alt.X("gain:Q", scale=scale, axis=axis)), bars, dots)
        panels.append((attack, specification(layers, max(2, len(advantage)) * _ROW)))
    table = untitled(
        ("attack", by, "advantage", "from", "to"),
        [
            (attack, line, *f.ends)
            for attack, figure in figures.items()
            for line, f in figure.items()
        ],
        percent=frozenset(("advantage", "from", "to")),
    )
    return Chart("attacks", "What attacks gain", caption, panels, table)


def bucket_sizes(sizes: Sequence[tuple[int, int]], caption: str, *, name: str = "buckets") -> Chart:
    """How many buckets there are of each size."""
    import altair as alt

    rows: list[Row] = [{"size": str(size), "buckets": count} for size, count in sizes]
    order = [str(size) for size, _ in sizes]
    bars = (
        alt.Chart(data(rows))
        .mark_bar(color=COLOURS[0], size=14)
        .encode(
            x=alt.X("buckets:Q", title="buckets", axis=alt.Axis(format="~s", tickCount=6)),
            y=alt.Y("size:N", title="records in a bucket", sort=order),
            tooltip=["size:N", "buckets:Q"],
        )
    )
    table = untitled(("records in a bucket", "buckets"), list(sizes))
    spec = specification(bars, max(3, len(order)) * _ROW)
    return Chart(name, "Sizes of the buckets", caption, [("", spec)], table)


def heat_map(
    cells: Sequence[tuple[str, str, float]],
    axes: tuple[str, str],
    title: str,
    caption: str,
    table: ResultTable,
    *,
    name: str = "operator",
) -> Chart:
    """Chances by (row, column): darker is likelier, so that it reads without colours, too."""
    import altair as alt

    down = list(dict.fromkeys(cell[0] for cell in cells))
    across = list(dict.fromkeys(cell[1] for cell in cells))
    rows: list[Row] = [{"row": r, "column": c, "chance": chance} for r, c, chance in cells]
    many = max(len(down), len(across)) > 25
    # of many labels those are written that find room: no map is without names
    named_axis: dict[str, Any] = {
        "labelOverlap": "greedy" if many else False,
        "labelFontSize": 9 if many else 11,
        "ticks": not many,
        "labelLimit": 110,
    }
    squares = (
        alt.Chart(data(rows))
        .mark_rect()
        .encode(
            x=alt.X(
                "column:N", title=axes[1], sort=across, axis=alt.Axis(labelAngle=-60, **named_axis)
            ),
            y=alt.Y("row:N", title=axes[0], sort=down, axis=alt.Axis(**named_axis)),
            color=alt.Color(
                "chance:Q",
                scale=alt.Scale(scheme="blues", domainMin=0),
                legend=alt.Legend(title="chance", format="~%", gradientLength=160),
            ),
            tooltip=["row:N", "column:N", alt.Tooltip("chance:Q", format=".2%")],
        )
    )
    spec = specification(squares, min(460, max(140, 22 * len(down))))
    return Chart(name, title, caption, [("", spec)], table)


def penalty_by_column(
    penalties: Mapping[str, float], whole: float, caption: str, *, name: str = "penalty"
) -> Chart:
    """NCP of every quasi column, and GCP, which is their mean."""
    import altair as alt

    every = [*penalties.items(), ("all columns (GCP)", whole)]
    rows: list[Row] = [{"column": c, "penalty": p, "all": c not in penalties} for c, p in every]
    bars = (
        alt.Chart(data(rows))
        .mark_bar(size=14)
        .encode(
            x=alt.X(
                "penalty:Q",
                title="information lost",
                axis=alt.Axis(format="~%"),
                scale=alt.Scale(domainMin=0),
            ),
            y=alt.Y("column:N", title=None, sort=[c for c, _ in every]),
            color=alt.condition("datum.all", alt.value(GREY), alt.value(COLOURS[0])),
            tooltip=["column:N", alt.Tooltip("penalty:Q", format=".1%")],
        )
    )
    table = untitled(("column", "NCP"), every, percent=frozenset(("NCP",)))
    spec = specification(bars, len(every) * _ROW)
    return Chart(name, "How wide ranges and sets are", caption, [("", spec)], table)
