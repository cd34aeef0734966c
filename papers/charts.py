"""Small charts as SVG text, drawn by hand: no plotting library, nothing fetched by the page."""

from __future__ import annotations

import math
from html import escape

from sfumato.pages.tables import Points, Series

WIDTH, HEIGHT, LEGEND = 460, 280, 16
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 44
COLOURS = ("#1b6ca8", "#c1440e", "#3a7d44", "#7b4b94", "#8a6d00", "#0b7a75", "#a23b72", "#555555")


def chart_svg(series: Series) -> str:
    """A line chart (or a cloud of points), the paper's lines dashed.

    >>> svg = chart_svg(Series("F", "t", "x", "y", {"a": [(0, 1), (1, 2)]}))
    >>> svg.startswith("<svg") and "polyline" in svg
    True
    """
    drawn = [(name, points, False) for name, points in series.lines.items()]
    drawn += [(f"{name} (paper)", points, True) for name, points in series.paper.items()]
    every = [p for _, points, _ in drawn for p in points if all(map(math.isfinite, p))]
    if not every:
        return ""
    x_low, x_high = _range([x for x, _ in every], from_zero=False)
    y_low, y_high = _range([y for _, y in every], from_zero=True)

    def place(point: tuple[float, float]) -> str:
        x = LEFT + (point[0] - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)
        y = HEIGHT - BOTTOM - (point[1] - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)
        return f"{x:.1f},{y:.1f}"

    height = HEIGHT + LEGEND * ((len(drawn) + 1) // 2)
    names: dict[str, str] = {}
    marks = []
    for name, points, dashed in drawn:
        colour = names.setdefault(name.removesuffix(" (paper)"), COLOURS[len(names) % len(COLOURS)])
        shown = [place(p) for p in points if all(map(math.isfinite, p))]
        marks.append(_line(shown, colour, dashed, series.marks))
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{escape(series.title, quote=True)}" font-family="sans-serif" '
            'font-size="11">',
            *_axes(series, (x_low, x_high), (y_low, y_high)),
            *marks,
            *_legend(drawn, names),
            "</svg>",
        ]
    )


def _line(places: list[str], colour: str, dashed: bool, cloud: bool) -> str:
    if cloud:
        dots = (place.split(",") for place in places)
        return "".join(
            f'<circle cx="{x}" cy="{y}" r="1.6" fill="{colour}" fill-opacity="0.5"/>'
            for x, y in dots
        )
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}" '
        f'stroke-width="1.8"{dash}/>'
    )


def _axes(series: Series, x: tuple[float, float], y: tuple[float, float]) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [f'<path d="M{LEFT},{TOP}V{bottom}H{right}" fill="none" stroke="#888"/>']
    for k in range(5):
        share = k / 4
        px, py = LEFT + share * (right - LEFT), bottom - share * (bottom - TOP)
        parts += [
            f'<text x="{px:.1f}" y="{bottom + 14}" text-anchor="middle">'
            f"{_tick(x[0] + share * (x[1] - x[0]))}</text>",
            f'<text x="{LEFT - 5}" y="{py + 4:.1f}" text-anchor="end">'
            f"{_tick(y[0] + share * (y[1] - y[0]))}</text>",
            f'<path d="M{LEFT},{py:.1f}H{right}" stroke="#eee"/>',
        ]
    middle = (TOP + bottom) / 2
    parts += [
        f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 12}" text-anchor="middle">'
        f"{escape(series.x)}</text>",
        f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">'
        f"{escape(series.y)}</text>",
    ]
    return parts


def _legend(drawn: list[tuple[str, Points, bool]], names: dict[str, str]) -> list[str]:
    """Below the axes, two names a row, where they cannot hide a line."""
    parts = []
    for k, (name, _, dashed) in enumerate(drawn):
        x, y = LEFT - 40 + (k % 2) * 220, HEIGHT + 8 + LEGEND * (k // 2)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        colour = names[name.removesuffix(" (paper)")]
        parts.append(
            f'<path d="M{x},{y}h18" stroke="{colour}" stroke-width="2"{dash}/>'
            f'<text x="{x + 23}" y="{y + 4}">{escape(name)}</text>'
        )
    return parts


def _range(numbers: list[float], *, from_zero: bool) -> tuple[float, float]:
    low, high = min(numbers), max(numbers)
    if from_zero:
        low, high = min(low, 0.0), high * 1.05
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _tick(number: float) -> str:
    if abs(number) >= 10_000:
        return f"{number / 1000:.4g}k"
    return f"{number:.3g}"
