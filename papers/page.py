"""The pages of `make papers`: one per paper, and one that lists every part with its verdict."""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

from papers.steps import chosen
from papers.tables import Reproduction, Series
from sfumato.pages import Block, Chart, sections_page, write_whole
from sfumato.pages.charts import data, named, specification
from sfumato.results import Cell, ResultTable, untitled

PARTS = Path(__file__).with_name("parts.md")
_COLUMNS = ("part", "what", "verdict", "command")


def write_paper(report: Reproduction, out: Path) -> None:
    """`<name>.json` and `<name>.html` of a rerun."""
    text = json.dumps(report.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
    (out / f"{report.paper}.json").write_text(text + "\n", encoding="utf-8")
    sections = [(f"{t.name}. {t.title}", _table(t)) for t in report.tables]
    drawn: list[Block] = [_chart(series) for series in report.series]
    if drawn:
        sections.append(("Figures", drawn))
    footer = f"Made in {report.seconds:.1f} seconds of processor time."
    page = sections_page(report.title, " ".join(report.notes), sections, footer)
    write_whole(out / f"{report.paper}.html", page)


def _table(table: ResultTable) -> list[Block]:
    columns = tuple(f"{c} (paper)" if c in table.paper else c for c in table.columns)
    blocks: list[Block] = [untitled(columns, table.rows)]
    return [*blocks, table.note] if table.note else blocks


def _chart(series: Series) -> Chart:
    """Lines, or a cloud of points; the paper's lines are named so."""
    import altair as alt

    lines = {**series.lines, **{f"{name} (paper)": p for name, p in series.paper.items()}}
    rows: list[dict[str, Any]] = [
        {"line": name, "x": x, "y": y} for name, points in lines.items() for x, y in points
    ]
    axes = {
        "x": alt.X("x:Q", title=series.x, scale=alt.Scale(zero=False)),
        "y": alt.Y("y:Q", title=series.y),
    }
    base = alt.Chart(data(rows))
    drawn = base.mark_point() if series.marks else base.mark_line(point=True)
    spec = specification(drawn.encode(**axes, **named("line", list(lines))))
    cells: list[tuple[Cell, ...]] = [(row["line"], row["x"], row["y"]) for row in rows]
    table = untitled(("line", series.x, series.y), cells, folded="The figures")
    return Chart(series.name, f"{series.name}. {series.title}", series.note, [("", spec)], table)


def parts() -> list[tuple[str, list[list[str]]]]:
    """Every section, table and figure of the papers: paper, and rows of `_COLUMNS`."""
    text = PARTS.read_text(encoding="utf-8")
    papers = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
        papers.append((section.partition("\n")[0], [r for r in rows if not r[0].startswith("--")]))
    return papers


def asked(command: str) -> tuple[str, list[str]] | None:
    """The paper that a command reruns, and the tables and figures that it names."""
    words = shlex.split(command.strip("`"))
    if words[:3] != ["python", "-m", "papers"]:
        return None
    return words[3], [name for flag, name in pairwise(words) if flag == "--only"]


def verdicts(folder: Path) -> dict[str, list[list[str]]]:
    """The rows of the table "Verdicts" of every paper that was rerun into the folder."""
    runs = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
    return {
        run["paper"]: [r for t in run["tables"] if t["name"] == "Verdicts" for r in t["rows"]]
        for run in runs
        if "paper" in run
    }


def write_index(out: Path) -> Path:
    """The page of all parts; what was rerun has its verdicts, the rest what `parts.md` says."""
    known = verdicts(out)
    sections: list[tuple[str, list[Block]]] = []
    for title, rows in parts():
        lines: list[tuple[Cell, ...]] = []
        for part, what, status, command in rows:
            rerun = asked(command)
            if rerun is not None:
                found = [r for r in known.get(rerun[0], []) if chosen(r[0], rerun[1])]
                told = "; ".join(f"{about}: {verdict}" for about, _, _, verdict in found)
                status = told or "not run"
            lines.append((part, what, status, command.strip("`")))
        sections.append((title, [untitled(_COLUMNS, lines)]))
    lead = "Every section, table and figure of the five papers, with the verdicts of this run."
    write_whole(out / "index.html", sections_page("What of the papers is here", lead, sections))
    return out / "index.html"
