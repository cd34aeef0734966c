"""A report as one HTML page that needs nothing but itself."""

from __future__ import annotations

from html import escape

from papers.charts import chart_svg
from sfumato.pages.tables import ReportTable, Reproduction, cell_text

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}
th,td{border:1px solid #ddd;padding:.2rem .6rem;text-align:right}
th{background:#f4f4f4}.paper{color:#777;font-style:italic}
figure{display:inline-block;width:28rem;margin:.5rem}figcaption{font-size:13px;color:#555}
"""


def report_html(report: Reproduction) -> str:
    """The whole page.

    >>> page = report_html(Reproduction("p", "A <title>"))
    >>> "A &lt;title&gt;" in page and "http" not in page.replace("http://www.w3.org", "")
    True
    """
    title = escape(report.title)
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>",
        *(f"<p>{escape(note)}</p>" for note in report.notes),
        *(_table(table) for table in report.tables),
        *(
            f"<figure>{chart_svg(series)}<figcaption>{escape(series.name)}. "
            f"{escape(series.title)} {escape(series.note)}</figcaption></figure>"
            for series in report.series
        ),
        f"<p>Made in {report.seconds:.1f} seconds of processor time.</p></body></html>",
    ]
    return "\n".join(parts)


def _table(table: ReportTable) -> str:
    marks = ['class="paper"' if column in table.paper else "" for column in table.columns]
    head = "".join(
        f"<th {mark}>{escape(column)}</th>"
        for column, mark in zip(table.columns, marks, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td {mark}>{escape(cell_text(cell))}</td>"
            for cell, mark in zip(row, marks, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return (
        f"<h2>{escape(table.name)}. {escape(table.title)}</h2>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"
    )
