"""The data dictionary: one page for whoever is about to use a release."""

from __future__ import annotations

from sfumato.columns import domain_text, list_some
from sfumato.export.described import Described, Field
from sfumato.pages import Block, sections_page
from sfumato.results import untitled


def dictionary(release: Described) -> str:
    """The HTML text: complete in itself."""
    manifest = release.manifest
    facts = {
        "promise": manifest.guarantee,
        "mechanism": manifest.mechanism,
        "kind": manifest.kind,
        "records": f"{manifest.rows:,}",
        "suppressed": f"{manifest.suppressed:,}",
        "rows without a sensitive value": manifest.missing,
        "written by": f"sfumato {manifest.sfumato}",
    }
    facts |= {"by": release.creator} if release.creator else {}
    facts |= {"licence": release.license} if release.license else {}
    columns = ("column", "type", "meaning", "values")
    tables: list[tuple[str, list[Block]]] = [
        (
            f"Table {table.name}",
            [
                f"{table.title}; {table.rows:,} rows in {list_some(table.files)}.",
                untitled(columns, [(f.name, _type(f), f.label, _domain(f)) for f in table.fields]),
            ],
        )
        for table in release.tables
    ]
    files = untitled(
        ("file", "bytes", "SHA-256"),
        [(name, entry.bytes, entry.sha256) for name, entry in sorted(release.files.items())],
    )
    return sections_page(
        release.title,
        f"Data dictionary: {manifest.rows:,} records under {manifest.guarantee}.",
        [("What it is", [facts, release.sentences]), *tables, ("Files", [files])],
    )


def _type(field: Field) -> str:
    return f"set of {field.basic}" if field.several else field.basic


def _domain(field: Field) -> str:
    return "" if field.column is None else domain_text(field.column.domain)
