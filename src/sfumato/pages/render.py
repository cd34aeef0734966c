"""From a page to one HTML text that needs nothing else: no network, no further file.

Everything that is shown is escaped. A policy inside the page allows exactly the scripts that it was
written with, by their hashes, and no request to anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import tempfile
from dataclasses import replace
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from sfumato.pages.parts import (
    Block,
    Bullets,
    Chart,
    Facts,
    Formula,
    Heading,
    Notice,
    Page,
    Paragraph,
    Section,
)
from sfumato.results import ResultTable

VENDORED = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")
_LONG = 40  # a text cell above this is given room of its own
_MARKS = {"plain": "", "good": "✓ ", "bad": "✗ ", "private": "Private. "}


def render(page: Page) -> str:
    """The whole page.

    >>> text = render(Page("A <title>", "What it is", [Section("One", [Paragraph("a & b")])]))
    >>> "A &lt;title&gt;" in text and "a &amp; b" in text and "<script" not in text
    True
    """
    scripts = [*(_vendored(name) for name in VENDORED), _own("page.js")] if page.charts else []
    names = [f"section-{number}" for number, _ in enumerate(page.sections, 1)]
    links = "".join(
        f'<a href="#{name}">{escape(section.title)}</a>'
        for name, section in zip(names, page.sections, strict=True)
    )
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="referrer" content="no-referrer"><link rel="icon" href="data:,">',
        f"<title>{escape(page.title)}</title><style>{_own('page.css')}</style></head>",
        '<body><main><header><p class="wordmark">sfumato</p>',
        f'<h1>{escape(page.title)}</h1><p class="lead">{escape(page.lead)}</p>',
        *(_notice(notice) for notice in page.notices),
        f"<nav>{links}</nav></header>",
        *(_section(name, section) for name, section in zip(names, page.sections, strict=True)),
        f"<footer>{escape(page.footer)}</footer></main>",
        *(f"<script>{script}</script>" for script in scripts),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def write_page(page: Page, path: Path) -> None:
    """Write the page; the file appears whole or not at all, readable by its owner alone."""
    write_whole(path, render(page))


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file that appears whole or not at all, readable by its owner alone."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8") if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def json_in_html(value: Any) -> str:
    """JSON that no HTML parser reads anything into.

    >>> json_in_html({"a": "</script>"})
    '{"a": "\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(_drawable(value), ensure_ascii=True, allow_nan=False, default=str)
    for sign, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(sign, code)
    return text


def _drawable(value: Any) -> Any:
    """Charts have no infinities and no NaN: they leave a gap there."""
    if isinstance(value, dict):
        return {key: _drawable(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_drawable(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@cache
def _vendored(name: str) -> str:
    folder = resources.files("sfumato.pages").joinpath("vendor")
    return _script(folder.joinpath(name).read_text("utf-8"))


@cache
def _own(name: str) -> str:
    text = resources.files("sfumato.pages").joinpath(name).read_text("utf-8")
    return _script(text) if name.endswith(".js") else text


def _script(text: str) -> str:
    """A script as it can stand in a page: nothing in it ends the element early."""
    assert "\r" not in text  # the browser would hash it as a line feed
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _policy(scripts: list[str]) -> str:
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    ]
    allowed = " ".join(hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _section(name: str, section: Section) -> str:
    blocks = "\n".join(_block(block) for block in section.blocks)
    return f'<section id="{name}"><h2>{escape(section.title)}</h2>\n{blocks}</section>'


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Heading):
        return f"<h3>{escape(block.text)}</h3>"
    if isinstance(block, Formula):
        return f'<div class="formula">{escape(block.text)}</div>'
    if isinstance(block, Bullets):
        return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in block.items)}</ul>"
    if isinstance(block, Facts):
        pairs = "".join(
            f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in block.pairs
        )
        return f"<dl>{pairs}</dl>"
    if isinstance(block, Notice):
        return _notice(block)
    if isinstance(block, ResultTable):
        return _table(block)
    return _chart(block)


def _notice(notice: Notice) -> str:
    mark = f"<strong>{_MARKS[notice.tone]}</strong>" if _MARKS[notice.tone] else ""
    return f'<div class="notice {notice.tone}">{mark}{escape(notice.text)}</div>'


def _chart(chart: Chart) -> str:
    panels = []
    for number, (heading, spec) in enumerate(chart.panels, 1):
        place = escape(f"chart-{chart.name}-{number}", quote=True)
        label = escape(f"{chart.title} {heading}".strip(), quote=True)
        panels.append(
            f"<div>{f'<h4>{escape(heading)}</h4>' if heading else ''}"
            f'<div class="chart" id="{place}" role="img" aria-label="{label}"></div>'
            f'<script type="application/json" data-chart="{place}">{json_in_html(spec)}</script>'
            "</div>"
        )
    return (
        f"<figure><h3>{escape(chart.title)}</h3><figcaption>{escape(chart.caption)}</figcaption>"
        "<noscript>The chart needs JavaScript; the table holds its figures.</noscript>"
        f'<div class="panels{" several" if len(panels) > 1 else ""}">{"".join(panels)}</div>'
        f"{_table(replace(chart.table, folded='The figures as a table'))}</figure>"
    )


def _table(table: ResultTable) -> str:
    texts = [
        all(isinstance(row[place], str) or row[place] is None for row in table.rows)
        and bool(table.rows)
        for place, _ in enumerate(table.columns)
    ]
    head = "".join(
        f'<th scope="col"{" class=text" if text else ""}>{escape(column)}</th>'
        for column, text in zip(table.columns, texts, strict=True)
    )
    body = []
    for number, row in enumerate(table.texts()):
        cells = []
        for shown, text in zip(row, texts, strict=True):
            kind = "text long" if text and len(shown) > _LONG else "text" if text else ""
            cells.append(f"<td{f' class={kind!r}' if kind else ''}>{escape(shown)}</td>")
        tone = table.marks.get(number)
        body.append(f"<tr{f' class={tone!r}' if tone else ''}>{''.join(cells)}</tr>")
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    shown = (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>{note}"
    )
    if not table.folded:
        return shown
    return f"<details><summary>{escape(table.folded)}</summary>{shown}</details>"
