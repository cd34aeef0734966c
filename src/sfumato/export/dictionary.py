"""The data dictionary: one page for whoever is about to use a release."""

from __future__ import annotations

from sfumato.columns import list_some, value_text
from sfumato.export.described import Described, Field
from sfumato.pages import Bullets, Facts, Page, Paragraph, Section, render
from sfumato.results import untitled


def dictionary(release: Described) -> str:
    """The HTML text: complete in itself."""
    manifest = release.manifest
    facts = [
        ("promise", manifest.guarantee),
        ("mechanism", manifest.mechanism),
        ("kind", manifest.kind),
        ("records", f"{manifest.rows:,}"),
        ("suppressed", f"{manifest.suppressed:,}"),
        ("rows without a sensitive value", manifest.missing),
        ("written by", f"sfumato {manifest.sfumato}"),
    ]
    given = [("by", release.creator), ("licence", release.license)]
    facts += [(name, text) for name, text in given if text]
    tables = [
        Section(
            f"Table {table.name}",
            [
                Paragraph(f"{table.title}; {table.rows:,} rows in {list_some(table.files)}."),
                untitled(
                    ("column", "type", "meaning", "values"),
                    [
                        (field.name, _type(field), field.label, _values(field))
                        for field in table.fields
                    ],
                ),
            ],
        )
        for table in release.tables
    ]
    files = untitled(
        ("file", "bytes", "SHA-256"),
        [(name, entry.bytes, entry.sha256) for name, entry in sorted(release.files.items())],
    )
    return render(
        Page(
            release.title,
            f"Data dictionary: {manifest.rows:,} records under {manifest.guarantee}.",
            [
                Section("What it is", [Facts(facts), Bullets(list(release.sentences))]),
                *tables,
                Section("Files", [files]),
            ],
        )
    )


def _type(field: Field) -> str:
    return f"set of {field.basic}" if field.several else field.basic


def _values(field: Field) -> str:
    if field.values is not None:
        return list_some([value_text(value) for value in field.values])
    if field.range is not None and field.range.low is not None:
        missing = ", or missing" if field.range.missing else ""
        return f"{field.range.low} to {field.range.high}{missing}"
    return ""
