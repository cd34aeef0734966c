"""The chart of docs/mechanisms/local.md, drawn from the table of figures in the same document.

The table is what `python -m benchmarks.local` printed (`expected`, `gain`); so the chart cannot say
anything else.
Of each table: what `local` has of the error of `optimal`, on average over counts from 10 to 2,000,
and what of the right guesses of a reader who knows the links.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "mechanisms" / "local.md"
ERRORS = slice(4, 8)  # columns of the table: counts from 10 to 2,000
GUESSES = 9
WIDTH, LEFT, BAR, GAP = 720, 250, 16, 20
FILLS = {"error of counts": "#2f6f9f", "right guesses of who knows the links": "#c8742c"}


@dataclass(frozen=True)
class Gain:
    """What `local` has of `optimal`'s: 1 is the same, less is better."""

    table: str
    error: float
    guesses: float


def gains(page: str) -> list[Gain]:
    """One for every two lines of the table: `optimal`, then `local`."""
    rows = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in page.splitlines()
        if line.startswith("|") and line.split("|")[2].strip() in ("optimal", "local")
    ]
    found = []
    for whole, local in zip(rows[::2], rows[1::2], strict=True):
        pairs = zip(local[ERRORS], whole[ERRORS], strict=True)
        ratios = [float(one) / float(other) for one, other in pairs]
        guessed = [float(row[GUESSES].rstrip(" %")) for row in (local, whole)]
        found.append(
            Gain(whole[0].replace("`", ""), sum(ratios) / len(ratios), guessed[0] / guessed[1])
        )
    return found


def svg(found: list[Gain]) -> str:
    height = 56 + len(found) * (2 * BAR + GAP)
    scale = (WIDTH - LEFT - 60) / 1.2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13" role="img">',
        "<title>What local buckets have of the error and of the right guesses of optimal "
        "ones</title>",
    ]
    for place, (name, fill) in enumerate(FILLS.items()):
        x = LEFT + 160 * place
        lines.append(f'<rect x="{x}" y="8" width="12" height="12" fill="{fill}"/>')
        lines.append(f'<text x="{x + 18}" y="19">{name}</text>')
    same, bottom = LEFT + scale, height - 20
    lines.append(f'<line x1="{same}" y1="30" x2="{same}" y2="{bottom}" stroke="#777"/>')
    lines.append(f'<text x="{same}" y="{height - 5}" text-anchor="middle">as optimal</text>')
    for place, gain in enumerate(found):
        top = 36 + place * (2 * BAR + GAP)
        lines.append(
            f'<text x="{LEFT - 10}" y="{top + BAR + 5}" text-anchor="end">{escape(gain.table)}'
            "</text>"
        )
        for nth, (ratio, fill) in enumerate(
            zip((gain.error, gain.guesses), FILLS.values(), strict=True)
        ):
            y = top + nth * BAR
            wide = f"{ratio * scale:.1f}"
            lines.append(
                f'<rect x="{LEFT}" y="{y}" width="{wide}" height="{BAR - 2}" fill="{fill}"/>'
            )
            lines.append(
                f'<text x="{LEFT + ratio * scale + 6:.1f}" y="{y + BAR - 4}">{ratio:.2f}</text>'
            )
    return "\n".join([*lines, "</svg>"]) + "\n"


def draw() -> None:
    """Write docs/mechanisms/local.svg."""
    PAGE.with_suffix(".svg").write_text(svg(gains(PAGE.read_text("utf-8"))), "utf-8")
