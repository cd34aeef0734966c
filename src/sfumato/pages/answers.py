"""Charts of answers: bars, lines and heat maps, each with its error bars.

What is drawn is plain data, so that this room knows nothing of releases: axes with their keys, and
measures with their intervals. A page (`.html`) needs no network and no further package; pictures
(`.png`, `.svg`) need `vl-convert-python`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.pages.render import Chart, sections_page, write_whole
from sfumato.pages.theme import COLOURS, GREY, Row, Spec, data, specification
from sfumato.results import ResultTable, untitled

if TYPE_CHECKING:
    import altair as alt

    Panel = alt.LayerChart | alt.FacetChart
    DrawnChart = Panel | alt.VConcatChart

MOST_MARKS = 2_000
_LABELLED = 60  # cells of a heat map that have room for their figures
_WIDTH = 520  # pixels of a picture
_LINE = 22  # pixels per bar
_LARGER = 2  # pixels of a PNG for one on the page
FORMATS = (".html", ".png", ".svg")


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
    """Measures against at most two axes."""

    title: str
    caption: str
    axes: Sequence[AnswerKey]
    measures: Sequence[AnswerMeasure]

    def chart(self) -> DrawnChart:
        """The chart for a notebook: one panel by measure, below each other."""
        import altair as alt

        panels = [self._panel(measure).properties(width=_WIDTH) for measure in self.measures]
        return (
            panels[0]
            if len(panels) == 1
            else alt.vconcat(*panels).resolve_scale(color="independent")
        )

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
        write_whole(file, self._page() if ending == ".html" else self._picture(ending))

    def _page(self) -> str:
        panels = [
            (measure.name if len(self.measures) > 1 else "", self._specification(measure))
            for measure in self.measures
        ]
        chart = Chart("answer", self.title, self.caption, panels, self._table())
        return sections_page(self.title, self.caption, [("Answer", [chart])])

    def _picture(self, ending: str) -> str | bytes:
        try:
            import vl_convert
        except ImportError:
            raise UsageError(
                "A picture needs the package vl-convert-python: pip install 'sfumato[plots]'. "
                "A page (.html) needs nothing."
            ) from None
        panels: list[Spec] = [self._specification(measure) for measure in self.measures]
        config = panels[0].get("config", {})
        for panel in panels:
            panel.pop("config", None)
            panel.pop("autosize", None)
            panel["width"] = _WIDTH
        whole: Spec = {
            "vconcat": panels,
            "resolve": {"scale": {"color": "independent"}},
            "config": {**config, "background": "white"},
        }
        if ending == ".svg":
            return str(vl_convert.vegalite_to_svg(whole))
        return bytes(vl_convert.vegalite_to_png(whole, scale=_LARGER))

    def _table(self) -> ResultTable:
        columns = [axis.name for axis in self.axes]
        for measure in self.measures:
            columns += [measure.name, f"{measure.name}, from", f"{measure.name}, to"]
        cells = [[str(key) for key in axis.keys] for axis in self.axes]
        parts = [part for m in self.measures for part in (m.values, m.low, m.high)]
        return untitled(tuple(columns), list(zip(*cells, *parts, strict=True)))

    def _specification(self, measure: AnswerMeasure) -> Spec:
        return specification(self._panel(measure), self._height())

    def _height(self) -> int:
        if not self.axes:
            return 2 * _LINE
        lines = self.axes[0]
        if len(self.axes) == 1 and lines.ordered:
            return 300
        return max(3, len(dict.fromkeys(lines.keys))) * _LINE

    def _panel(self, measure: AnswerMeasure) -> Panel:
        rows = self._rows(measure)
        if len(self.axes) == 2:
            return self._squares(rows, measure.name)
        if self.axes and self.axes[0].ordered:
            return self._line(rows, measure.name)
        return self._bars(rows, measure.name)

    def _rows(self, measure: AnswerMeasure) -> list[Row]:
        keys = [axis.keys if axis.ordered else [str(k) for k in axis.keys] for axis in self.axes]
        rows: list[Row] = []
        for index, value in enumerate(measure.values):
            row = {f"key{n}": key[index] for n, key in enumerate(keys)} or {"key0": ""}
            low, high = measure.low[index], measure.high[index]
            text = measure.texts[index]
            rows.append({**row, "value": value, "low": low, "high": high, "text": text})
        return [row for row in rows if row["value"] is not None]

    def _bars(self, rows: list[Row], name: str) -> Panel:
        import altair as alt

        base = alt.Chart(data(rows))
        title = self.axes[0].name if self.axes else None
        y = alt.Y("key0:N", title=title, sort=[row["key0"] for row in rows])
        bars = base.mark_bar(color=COLOURS[0], opacity=0.7, size=14).encode(
            x=alt.X("value:Q", title=name), y=y, tooltip=["key0:N", *_FIGURES]
        )
        errors = base.mark_rule(strokeWidth=1.5).encode(x="low:Q", x2="high:Q", y=y)
        return alt.layer(bars, errors).properties(height=self._height())

    def _line(self, rows: list[Row], name: str) -> Panel:
        import altair as alt

        kind = "T" if any(isinstance(row["key0"], str) for row in rows) else "Q"
        x = alt.X(f"key0:{kind}", title=self.axes[0].name, scale=alt.Scale(zero=False))
        base = alt.Chart(data(rows))
        line = base.mark_line(color=COLOURS[0], strokeWidth=1.5).encode(
            x=x, y=alt.Y("value:Q", title=name)
        )
        dots = base.mark_point(filled=True, size=45, opacity=1, color=COLOURS[0]).encode(
            x=x, y="value:Q", tooltip=[f"key0:{kind}", *_FIGURES]
        )
        errors = base.mark_rule(color=GREY).encode(x=x, y="low:Q", y2="high:Q")
        return alt.layer(errors, line, dots).properties(height=self._height())

    def _squares(self, rows: list[Row], name: str) -> Panel:
        import altair as alt

        down, across = ([str(key) for key in dict.fromkeys(axis.keys)] for axis in self.axes)
        texts = [{**row, "key0": str(row["key0"]), "key1": str(row["key1"])} for row in rows]
        base = alt.Chart(data(texts))
        x = alt.X("key1:N", title=self.axes[1].name, sort=across, axis=alt.Axis(labelAngle=-60))
        y = alt.Y("key0:N", title=self.axes[0].name, sort=down)
        squares = base.mark_rect().encode(
            x=x,
            y=y,
            color=alt.Color("value:Q", title=name, scale=alt.Scale(scheme="blues")),
            tooltip=["key0:N", "key1:N", *_FIGURES],
        )
        layers = [squares]
        if len(texts) <= _LABELLED:
            middle = max(row["value"] for row in texts) / 2 if texts else 0.0
            pale = alt.condition(f"datum.value > {middle}", alt.value("white"), alt.value("black"))
            layers.append(base.mark_text(fontSize=9).encode(x=x, y=y, text="text:N", color=pale))
        return alt.layer(*layers).properties(height=self._height())


_FIGURES = ("value:Q", "low:Q", "high:Q")
