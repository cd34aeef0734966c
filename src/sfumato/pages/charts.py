"""The charts of reports, comparisons, answers and papers: Altair, looking alike.

Colours for the colour-blind, shapes and dashes for print in grey. Each chart of a page has the
table of what it shows. Altair is imported where a chart is drawn: it takes longer to load than a
command to start.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.pages.render import Chart, sections_page, write_whole
from sfumato.results import Interval, ResultTable, untitled

if TYPE_CHECKING:
    import altair as alt

    DrawnChart = alt.Chart | alt.LayerChart | alt.FacetChart | alt.VConcatChart

# Okabe and Ito's colours; their yellow, too pale on white, is a grey here
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#7F7F7F")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 3], [4, 1], [1, 3], [10, 2, 2, 2, 2, 2])
GREY, _LINES = "#5a6675", "#9aa4b0"
LINE = 22  # pixels per line of a dot plot
FORMATS = (".html", ".png", ".svg")
MOST_MARKS = 2_000
_NARROW = 20  # letters of a name that two columns have room for
_LABELLED = 60  # cells of a heat map that have room for their figures
_CONFIG: dict[str, Any] = {
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    "background": "transparent",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "#1d2733",
        "titleColor": GREY,
        "titleFontWeight": "normal",
        "gridColor": "#e8ebef",
        "domainColor": _LINES,
        "tickColor": _LINES,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "labelLimit": 170,
    },
    "legend": {"orient": "bottom", "labelFontSize": 12, "labelLimit": 300, "symbolStrokeWidth": 2},
}

Row = Mapping[str, Any]
Spec = dict[str, Any]


def data(rows: Sequence[Row]) -> alt.Data:
    """Rows as inline data, without a data frame; what is no finite number is a gap."""
    import altair as alt

    values = [
        {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        for row in rows
    ]
    return alt.Data(values=values)  # type: ignore[no-untyped-call]


def named(field: str, names: Sequence[str], *, legend: bool = True) -> dict[str, Any]:
    """Encodings that tell names apart by colour and by shape; the legend shows both."""
    import altair as alt

    columns = 1 if max(map(len, names), default=0) > _NARROW else 2  # so that phones show all
    drawn = alt.Legend(columns=columns) if legend and len(names) > 1 else None
    color, shape = (_looks(names, looks) for looks in (COLOURS, SHAPES))
    return {
        "color": alt.Color(f"{field}:N", scale=color, legend=drawn, title=None),
        "shape": alt.Shape(f"{field}:N", scale=shape, legend=drawn, title=None),
    }


def _looks(names: Sequence[str], looks: Sequence[Any]) -> alt.Scale:
    import altair as alt

    return alt.Scale(domain=list(names), range=[looks[k % len(looks)] for k in range(len(names))])


def specification(chart: Any, height: int = 320) -> Spec:
    """The chart as Vega-Lite JSON, as wide as the place that it is put into."""
    described: Spec = chart.properties(width="container", height=height).to_dict()
    described.pop("$schema", None)  # a page names no address, not even one that it never visits
    return {**described, "autosize": {"type": "fit-x"}, "config": _CONFIG}


# -- comparisons and reports -----------------------------------------------------------------------


def risk_against_utility(
    points: Sequence[tuple[str, Interval, Interval]], error_title: str, caption: str
) -> Chart:
    """Name, risk and error: down and to the left is better."""
    import altair as alt

    names = [name for name, _, _ in points]
    rows: list[Row] = [
        {"name": name, "error": error.value, "from": error.low, "to": error.high,
         "risk": risk.value, "low": risk.low, "high": risk.high}
        for name, risk, error in points
    ]  # fmt: skip
    base, color = alt.Chart(data(rows)), alt.Color("name:N", scale=_looks(names, COLOURS))
    x = alt.X("error:Q", title=error_title, axis=alt.Axis(format="~%"))
    gain = "advantage of the strongest attack"
    y = alt.Y("risk:Q", title=gain, axis=alt.Axis(format="~%"))
    dots = base.mark_point(filled=True, size=110, opacity=1).encode(
        x=x, y=y, **named("name", names), tooltip=["name:N", "error:Q", "risk:Q"]
    )
    across = base.mark_rule().encode(
        x=alt.X("from:Q", title=error_title), x2="to:Q", y=y, color=color
    )
    up = base.mark_rule().encode(x=x, y=alt.Y("low:Q", title=gain), y2="high:Q", color=color)
    zero = alt.Chart(data([{"risk": 0}])).mark_rule(color=GREY, strokeDash=[3, 3]).encode(y=y)
    columns = ("candidate", "error", "from", "to", "advantage", "from ", "to ")
    table = untitled(columns, [(n, *e.ends, *r.ends) for n, r, e in points], columns[1:])
    spec = specification(alt.layer(zero, across, up, dots), 360)
    return Chart("risk", "Risk against utility", caption, [("", spec)], table)


def error_by_count(
    points: Sequence[tuple[str, float, float]], caption: str, table: ResultTable
) -> Chart:
    """Line, size of the true count and relative error, one line each."""
    import altair as alt

    lines = list(dict.fromkeys(line for line, _, _ in points))
    rows: list[Row] = [
        {"line": line, "count": n, "error": max(error, 1e-4)} for line, n, error in points
    ]
    scale = alt.Scale(type="log", nice=False)
    size, error = (alt.Axis(format=format, tickCount=6) for format in ("~s", "~%"))
    base = alt.Chart(data(rows)).encode(
        x=alt.X("count:Q", title="size of the count", scale=scale, axis=size),
        y=alt.Y("error:Q", title="relative error", scale=scale, axis=error),
    )
    drawn = base.mark_line(strokeWidth=2).encode(
        color=alt.Color("line:N", scale=_looks(lines, COLOURS), title=None),
        strokeDash=alt.StrokeDash("line:N", scale=_looks(lines, DASHES), title=None),
    )
    tips = ["line:N", "count:Q", "error:Q"]
    dots = base.mark_point(filled=True, opacity=1).encode(**named("line", lines), tooltip=tips)
    spec = specification(alt.layer(drawn, dots))
    return Chart("count", "Error by size of count", caption, [("", spec)], table)


def error_by_value(
    errors: Mapping[str, Mapping[str, float]], caption: str, *, most: int = 30, name: str = "value"
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
    scale, axis = alt.Scale(type="log", nice=False), alt.Axis(format="~%", tickCount=6)
    x = alt.X("error:Q", title="relative error", axis=axis, scale=scale)
    y = alt.Y("value:N", title=None, sort=shown, axis=alt.Axis(grid=True, labelLimit=140))
    tips = ["value:N", "line:N", "error:Q"]
    dots = alt.Chart(data(rows)).mark_point(filled=True, size=65)
    drawn = dots.encode(x=x, y=y, **named("line", lines), tooltip=tips)
    if len(shown) < len(ranked):
        caption += f" The {most // 2} worst and the {most // 2} best of {len(ranked):,} values."
    cells = [(value, *(errors[value].get(line) for line in lines)) for value in ranked]
    table = untitled(("value", *lines), cells, lines)
    spec = specification(drawn, max(4, len(shown)) * 18)
    return Chart(name, "Error by value", caption, [("", spec)], table)


def attack_advantage(figures: Mapping[str, Mapping[str, Interval]], caption: str) -> Chart:
    """Per attack (the keys): what it gains against each line, with intervals. 0 is nothing."""
    import altair as alt

    every = [(a, line, f) for a, advantage in figures.items() for line, f in advantage.items()]
    lines = list(dict.fromkeys(line for _, line, _ in every))
    ends = [end for _, _, figure in every for end in (0.0, 0.02, *figure.ends)]
    scale = alt.Scale(domain=[min(ends), max(ends)], nice=True)
    x: dict[str, Any] = {
        "title": "advantage",
        "scale": scale,
        "axis": alt.Axis(format="~%", tickCount=5),
    }
    color, panels = alt.Color("line:N", scale=_looks(lines, COLOURS), legend=None), []
    for attack, advantage in figures.items():
        rows: list[Row] = [
            {"line": line, "gain": f.value, "low": f.low, "high": f.high}
            for line, f in advantage.items()
        ]
        base = alt.Chart(data(rows)).encode(y=alt.Y("line:N", title=None, sort=list(advantage)))
        zero = alt.Chart(data([{"gain": 0}])).mark_rule(color=GREY, strokeDash=[3, 3])
        bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", **x), x2="high:Q", color=color)
        dots = base.mark_point(filled=True, size=70, opacity=1)
        dots = dots.encode(x=alt.X("gain:Q", **x), **named("line", lines, legend=False))
        layers = alt.layer(zero.encode(x=alt.X("gain:Q", **x)), bars, dots)
        panels.append((attack, specification(layers, max(2, len(advantage)) * LINE)))
    shares = ("advantage", "from", "to")
    if list(figures) == [""]:  # one release: its lines are the attacks
        table = untitled(("attack", *shares), [(line, *f.ends) for _, line, f in every], shares)
    else:
        cells = [(attack, line, *f.ends) for attack, line, f in every]
        table = untitled(("attack", "candidate", *shares), cells, shares)
    return Chart("attacks", "What attacks gain", caption, panels, table)


# -- answers ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnswerKey:
    """A key: its name and, by row of the answer, its value; `ordered` where it is a number."""

    name: str
    keys: Sequence[Any]
    ordered: bool


@dataclass(frozen=True)
class AnswerMeasure:
    """An estimate by row of the answer, with its interval where there is one, and its text."""

    name: str
    values: Sequence[float | None]
    low: Sequence[float | None]
    high: Sequence[float | None]
    texts: Sequence[str]


@dataclass(frozen=True)
class Drawing:
    """An answer's measures against at most two keys: bars, a line or a heat map, with error bars.

    A page (`.html`) needs no network and no further package; pictures (`.png`, `.svg`) need
    `vl-convert-python`.
    """

    title: str
    caption: str
    axes: Sequence[AnswerKey]
    measures: Sequence[AnswerMeasure]

    def chart(self) -> DrawnChart:
        """The chart for a notebook: one panel by measure, below each other."""
        import altair as alt

        panels = [self._panel(measure).properties(width=520) for measure in self.measures]
        whole = panels[0] if len(panels) == 1 else alt.vconcat(*panels)
        return whole if len(panels) == 1 else whole.resolve_scale(color="independent")

    def save(self, path: str | Path) -> None:
        """Write a page or a picture, whole or not at all."""
        file = Path(path)
        ending = file.suffix.lower()
        if ending not in FORMATS:
            raise UsageError(
                f"A chart is written as {', '.join(FORMATS)}. Got {str(path)!r} instead."
            )
        if not file.parent.is_dir():
            raise UsageError(f"There is no folder {str(file.parent)!r} to write a chart to.")
        if ending == ".html":
            write_whole(file, self._page())
            return
        picture: Any = io.BytesIO() if ending == ".png" else io.StringIO()
        try:
            import vl_convert  # noqa: F401
        except ImportError:
            raise UsageError(
                "A picture needs the package vl-convert-python: pip install 'sfumato[plots]'. "
                "A page (.html) needs nothing."
            ) from None
        self.chart().properties(background="white").save(
            picture, format="png" if ending == ".png" else "svg", scale_factor=2
        )
        write_whole(file, picture.getvalue())

    def _page(self) -> str:
        panels = [
            (m.name if len(self.measures) > 1 else "", specification(self._panel(m), self._height))
            for m in self.measures
        ]
        columns = [axis.name for axis in self.axes]
        for m in self.measures:
            columns += [m.name, f"{m.name}, from", f"{m.name}, to"]
        cells = [[str(key) for key in axis.keys] for axis in self.axes]
        parts = [part for m in self.measures for part in (m.values, m.low, m.high)]
        table = untitled(tuple(columns), list(zip(*cells, *parts, strict=True)))
        chart = Chart("answer", self.title, self.caption, panels, table)
        return sections_page(self.title, self.caption, [("Answer", [chart])])

    @property
    def _height(self) -> int:
        if len(self.axes) == 1 and self.axes[0].ordered:
            return 300
        return max(3, len(dict.fromkeys(self.axes[0].keys))) * LINE if self.axes else 2 * LINE

    def _panel(self, measure: AnswerMeasure) -> Any:
        import altair as alt

        ordered = len(self.axes) == 1 and self.axes[0].ordered
        keys = [axis.keys if ordered else [str(k) for k in axis.keys] for axis in self.axes]
        parts = zip(measure.values, measure.low, measure.high, measure.texts, strict=True)
        rows = [
            {"value": value, "low": low, "high": high, "text": text}
            | ({f"key{n}": key[row] for n, key in enumerate(keys)} or {"key0": ""})
            for row, (value, low, high, text) in enumerate(parts)
            if value is not None
        ]
        base, name = alt.Chart(data(rows)), measure.name
        title = self.axes[0].name if self.axes else None
        if len(self.axes) == 2:
            layers = self._squares(base, name, rows)
        elif ordered:
            kind = "T" if any(isinstance(row["key0"], str) for row in rows) else "Q"
            base = base.encode(x=alt.X(f"key0:{kind}", title=title, scale=alt.Scale(zero=False)))
            y, tips = alt.Y("value:Q", title=name), [f"key0:{kind}", *_FIGURES]
            layers = [
                base.mark_rule(color=GREY).encode(y=alt.Y("low:Q", title=name), y2="high:Q"),
                base.mark_line(color=COLOURS[0]).encode(y=y),
                base.mark_point(filled=True, opacity=1, color=COLOURS[0]).encode(y=y, tooltip=tips),
            ]
        else:
            order = [row["key0"] for row in rows]
            base = base.encode(y=alt.Y("key0:N", title=title, sort=order))
            x, bars = alt.X("value:Q", title=name), base.mark_bar(color=COLOURS[0], opacity=0.7)
            layers = [
                bars.encode(x=x, tooltip=["key0:N", *_FIGURES]),
                base.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q", title=name), x2="high:Q"),
            ]
        return alt.layer(*layers).properties(height=self._height)

    def _squares(self, base: alt.Chart, name: str, rows: Sequence[Row]) -> list[alt.Chart]:
        import altair as alt

        down, across = ([str(key) for key in dict.fromkeys(axis.keys)] for axis in self.axes)
        labels = alt.Axis(labelAngle=-60)
        base = base.encode(
            x=alt.X("key1:N", title=self.axes[1].name, sort=across, axis=labels),
            y=alt.Y("key0:N", title=self.axes[0].name, sort=down),
        )
        color = alt.Color("value:Q", title=name, scale=alt.Scale(scheme="blues"))
        layers = [base.mark_rect().encode(color=color, tooltip=["key0:N", "key1:N", *_FIGURES])]
        if rows and len(rows) <= _LABELLED:
            middle = max(row["value"] for row in rows) / 2
            pale = alt.condition(f"datum.value > {middle}", alt.value("white"), alt.value("black"))
            layers.append(base.mark_text(fontSize=9).encode(text="text:N", color=pale))
        return layers


_FIGURES = ("value:Q", "low:Q", "high:Q")
