"""How every chart looks: colours for the colour-blind, shapes and dashes for print in grey."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt

# Okabe and Ito's colours; their yellow, too pale on white, is a grey here
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#7F7F7F",
)
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 3], [4, 1], [1, 3], [10, 2, 2, 2, 2, 2])
GREY = "#5a6675"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
HEIGHT = 320
_NARROW = 20  # letters of a name that two columns have room for

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
    return {
        "color": alt.Color(f"{field}:N", scale=colours(names), legend=drawn, title=None),
        "shape": alt.Shape(f"{field}:N", scale=shapes(names), legend=drawn, title=None),
    }


def colours(names: Sequence[str]) -> alt.Scale:
    import altair as alt

    return alt.Scale(
        domain=list(names), range=[COLOURS[k % len(COLOURS)] for k in range(len(names))]
    )


def shapes(names: Sequence[str]) -> alt.Scale:
    import altair as alt

    return alt.Scale(domain=list(names), range=[SHAPES[k % len(SHAPES)] for k in range(len(names))])


def dashes(names: Sequence[str]) -> alt.Scale:
    import altair as alt

    return alt.Scale(domain=list(names), range=[DASHES[k % len(DASHES)] for k in range(len(names))])


def specification(chart: alt.Chart | alt.LayerChart | alt.FacetChart, height: int = HEIGHT) -> Spec:
    """The chart as Vega-Lite JSON, as wide as the place that it is put into."""
    import altair as alt

    chart = (
        chart.properties(
            width="container", height=height, autosize=alt.AutoSizeParams(type="fit-x")
        )
        .configure(font=FONT, background="transparent")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor="#1d2733",
            titleColor=GREY,
            titleFontWeight="normal",
            gridColor="#e8ebef",
            domainColor="#9aa4b0",
            tickColor="#9aa4b0",
            labelFontSize=11,
            titleFontSize=12,
            labelLimit=170,
        )
        .configure_legend(orient="bottom", labelFontSize=12, labelLimit=300, symbolStrokeWidth=2)
    )
    described: Spec = chart.to_dict()
    described.pop("$schema", None)  # a page names no address, not even one that it never visits
    return described
