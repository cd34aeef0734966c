"""Croissant 1.0 (MLCommons): JSON-LD for catalogues of data sets and for `mlcroissant`."""

from __future__ import annotations

import json
from typing import Any

from sfumato.export.described import Basic, Described, Field, TableOf

VERSION = "http://mlcommons.org/croissant/1.0"
TYPES: dict[Basic, str] = {
    "text": "sc:Text",
    "integer": "sc:Integer",
    "number": "sc:Float",
    "boolean": "sc:Boolean",
    "date": "sc:Date",
    "datetime": "sc:DateTime",
}
# the context that the specification prescribes, name for name
_OWN = (
    "citeAs column extract field fileProperty fileObject fileSet format includes "
    "isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated "
    "replace separator source subField transform"
)
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "sc": "https://schema.org/",
    **{name: f"cr:{name}" for name in _OWN.split()},
}


def croissant(release: Described) -> str:
    """The JSON-LD text."""
    dataset: dict[str, Any] = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": VERSION,
        "name": release.title,
        "description": "\n".join(release.sentences),
        "version": release.manifest.sfumato,
        "distribution": [_file(release, name) for name in sorted(release.files)],
        "recordSet": [
            _records(table, file, number if len(table.files) > 1 else None)
            for table in release.tables
            for number, file in enumerate(table.files)
        ],
    }
    if release.license:
        dataset["license"] = release.license
    if release.creator:
        dataset["creator"] = {"@type": "sc:Organization", "name": release.creator}
    if "://" in release.url:
        dataset["url"] = release.url
    return json.dumps(dataset, indent=2, ensure_ascii=False) + "\n"


def _file(release: Described, name: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": f"{release.url.rstrip('/')}/{name}",
        "contentSize": f"{release.files[name].bytes} B",
        "encodingFormat": "application/x-parquet",
        "sha256": release.files[name].sha256,
    }


def _records(table: TableOf, file: str, part: int | None) -> dict[str, Any]:
    """One record set per file: a part of many is one of its own, as Croissant joins none."""
    identifier = table.name if part is None else f"{table.name}-{part}"
    return {
        "@type": "cr:RecordSet",
        "@id": identifier,
        "name": identifier,
        "description": table.title,
        "field": [_field(identifier, file, field) for field in table.fields],
    }


def _field(place: str, file: str, field: Field) -> dict[str, Any]:
    described: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": f"{place}/{field.name}",
        "name": field.name,
        "description": field.label,
        "dataType": TYPES[field.basic],
        "source": {"fileObject": {"@id": file}, "extract": {"column": field.name}},
    }
    if field.several:
        described["repeated"] = True
    return described
