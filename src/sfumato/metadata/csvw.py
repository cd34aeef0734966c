"""CSVW (W3C, Metadata Vocabulary for Tabular Data): tables as CSV files, with what they hold."""

from __future__ import annotations

import json
from typing import Any

from sfumato.columns import value_to_json
from sfumato.metadata.described import Basic, Described, Field

NULL = "\\N"  # how a missing value is written: as PostgreSQL writes it, unlike an empty text
SEPARATOR = "|"
TYPES: dict[Basic, str] = {
    "text": "string",
    "integer": "integer",
    "number": "double",
    "boolean": "boolean",
    "date": "date",
    "datetime": "datetime",
}


def csvw(release: Described) -> str:
    """The JSON-LD text; it stands beside the CSV files that it describes."""
    told: dict[str, Any] = {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
        "dc:title": release.title,
        "dc:description": "\n".join(release.sentences),
        "tables": [
            {
                "url": f"{table.name}.csv",
                "dc:title": table.title,
                "tableSchema": {"columns": [_column(field) for field in table.fields]},
            }
            for table in release.tables
        ],
    }
    if release.license:
        told["dc:license"] = release.license
    if release.creator:
        told["dc:creator"] = release.creator
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"


def _column(field: Field) -> dict[str, Any]:
    told: dict[str, Any] = {
        "titles": field.name,
        "dc:description": field.label,
        "datatype": _datatype(field),
        "null": NULL,
    }
    if field.several:
        told["separator"] = SEPARATOR
    return told


def _datatype(field: Field) -> Any:
    """The type, with the ends of a range where the manifest states them."""
    stated = field.range
    if stated is None or stated.low is None or field.basic not in ("integer", "number"):
        return TYPES[field.basic]
    return {
        "base": TYPES[field.basic],
        "minimum": value_to_json(stated.low),
        "maximum": value_to_json(stated.high),
    }
