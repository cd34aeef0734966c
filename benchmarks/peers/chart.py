"""The chart of docs/peers.md, drawn from the tables in the same document: risk against error.

Across: the error of counts under two conditions. Up: right guesses that the person's own record
gives the best attack. Nearer to the left corner below is better.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "peers.md"
CHART = PAGE.with_suffix(".svg")
ERROR, RISK = 2, 8  # columns of the table
WIDTH, PANEL, TOP, LEFT, KEY = 860, 380, 40, 60, 18
PLOT, GAP = 300, 90
OURS, THEIRS = "#2f6f9f", "#c8742c"
PEERS = ("anatomy", "mondrian", "full-domain", "MST", "PrivBayes")


@dataclass(frozen=True)
class Point:
    """A publication: both figures in percent."""

    title: str
    error: float
    risk: float

    @property
    def ours(self) -> bool:
        return not any(peer in self.title for peer in PEERS)


def points(page: str) -> dict[str, list[Point]]:
    """By table, in the order of its lines."""
    found: dict[str, list[Point]] = {}
    for part in page.split("<!-- peers on ")[1:]:
        name, rest = part.split(" -->", 1)
        lines = [line for line in rest.split("<!-- end")[0].splitlines() if line.startswith("| ")]
        for line in lines[1:]:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if cells[0].startswith("---"):
                continue
            title = cells[0].replace("`", "")
            found.setdefault(name, []).append(Point(title, float(cells[ERROR]), float(cells[RISK])))
    return found


def svg(found: dict[str, list[Point]]) -> str:
    """A panel for each table; the points are numbered, and named below."""
    titles = [point.title for point in max(found.values(), key=len, default=[])]
    height = TOP + PLOT + 60 + KEY * ((len(titles) + 1) // 2)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13" role="img">',
        "<title>What the person's own record gives the best attack, against the error of counts "
        "under two conditions</title>",
    ]
    for place, (name, own) in enumerate(found.items()):
        lines += _panel(name, own, titles, LEFT + place * (PANEL + 20))
    for place, title in enumerate(titles):
        x, y = LEFT + (place % 2) * (PANEL + 20), TOP + PLOT + 68 + KEY * (place // 2)
        fill = OURS if Point(title, 0, 0).ours else THEIRS
        lines.append(f'<text x="{x}" y="{y}" fill="{fill}">{place + 1}  {escape(title)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(name: str, own: list[Point], titles: list[str], left: int) -> list[str]:
    width, bottom = PANEL - GAP, TOP + PLOT
    widest = max([10.0, *(point.error for point in own)]) * 1.08
    highest = max([5.0, *(point.risk for point in own)]) * 1.08
    lowest = min([0.0, *(point.risk for point in own)]) * 1.08
    lines = [
        f'<text x="{left + width / 2}" y="{TOP - 16}" text-anchor="middle" font-weight="bold">'
        f"{escape(name.upper())}</text>",
        f'<path d="M{left},{TOP}V{bottom}H{left + width}" fill="none" stroke="#888"/>',
        f'<text x="{left + width / 2}" y="{bottom + 36}" text-anchor="middle">error of counts, %'
        "</text>",
        f'<text x="{left - 40}" y="{TOP + PLOT / 2}" text-anchor="middle" '
        f'transform="rotate(-90 {left - 40} {TOP + PLOT / 2})">own record, points</text>',
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        x, y = left + share * width, bottom - share * PLOT
        lines.append(
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{share * widest:.0f}</text>'
        )
        risk = lowest + share * (highest - lowest)
        lines.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{risk:.0f}</text>')
        lines.append(f'<path d="M{left},{y:.1f}h{width}" stroke="#eee"/>')
    for point in own:
        x = left + point.error / widest * width
        y = bottom - (point.risk - lowest) / (highest - lowest) * PLOT
        fill = OURS if point.ours else THEIRS
        number = titles.index(point.title) + 1 if point.title in titles else "?"
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}"/>')
        lines.append(f'<text x="{x + 7:.1f}" y="{y - 5:.1f}" fill="{fill}">{number}</text>')
    return lines
