"""A release as every format describes it: files, tables, fields with types, domains and a label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.columns import Column
from sfumato.release import FileEntry, Manifest, Release
from sfumato.release.records import record_names

Basic = Literal["text", "integer", "number", "boolean", "date", "datetime"]


@dataclass(frozen=True)
class Field:
    """A column of a file: what it holds, and in which words."""

    name: str
    basic: Basic
    label: str
    several: bool = False  # whether a cell is a set of values
    column: Column | None = None  # the published column, where the field shows it


@dataclass(frozen=True)
class TableOf:
    """A table of the release: the files that hold it, and its fields."""

    name: str
    title: str
    files: tuple[str, ...]
    fields: tuple[Field, ...]
    rows: int


@dataclass(frozen=True)
class Described:
    """All that formats tell, and what only the steward can say: who, where, under which licence."""

    title: str
    creator: str
    license: str
    url: str
    manifest: Manifest
    files: dict[str, FileEntry]
    tables: tuple[TableOf, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The promise, and what a reader must know, as the manifest says it."""
        manifest = self.manifest
        return (
            f"A table of people, published under {manifest.guarantee} by {manifest.mechanism} "
            "with sfumato "
            f"{manifest.sfumato}. Values were changed or hidden on purpose: counts are to be "
            "estimated, not read off.",
            *manifest.statement,
            *(f"It does not protect against: {gap}." for gap in manifest.does_not_protect),
            *manifest.caveats,
        )


def described(release: Release, *, title: str, creator: str, license: str, url: str) -> Described:
    """Everything that can be told of a release."""
    names = record_names(release.manifest.files)
    tables = [_table(release, "records", names)]
    tables += [
        _table(release, name.removesuffix(".parquet"), [name])
        for name in sorted(set(release.manifest.files) - set(names))
    ]
    folder = release.path.resolve().name
    return Described(
        title=title or f"Release {folder}",
        creator=creator,
        license=license,
        url=url or folder,
        manifest=release.manifest,
        files=dict(release.manifest.files),
        tables=tuple(tables),
    )


def _table(release: Release, name: str, files: list[str]) -> TableOf:
    paths = [release.path / file for file in files]
    shown = {
        shown_name: column
        for column in release.columns
        for shown_name in (release.shown_as(column) if column.role == "quasi" else [column.name])
    }
    fields = tuple(_field(field, shown.get(field.name)) for field in pq.read_schema(paths[0]))
    rows = sum(pq.read_metadata(path).num_rows for path in paths)
    people = "One row per published record" if name == "records" else f"The table {name}"
    return TableOf(name, people, tuple(files), fields, rows)


def _field(found: pa.Field, column: Column | None) -> Field:
    several = pa.types.is_list(found.type) or pa.types.is_large_list(found.type)
    kind = found.type.value_type if several else found.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return Field(found.name, _basic(kind), _label(found.name, column), several, column)


def _basic(kind: pa.DataType) -> Basic:
    tests: list[tuple[Basic, bool]] = [
        ("boolean", pa.types.is_boolean(kind)),
        ("integer", pa.types.is_integer(kind)),
        ("number", pa.types.is_floating(kind) or pa.types.is_decimal(kind)),
        ("date", pa.types.is_date(kind)),
        ("datetime", pa.types.is_timestamp(kind)),
    ]
    return next((name for name, fits in tests if fits), "text")


def _label(name: str, column: Column | None) -> str:
    if column is None:
        labels = {
            "bucket": "The bucket of the record",
            "count": "How often the bucket has the value",
        }
        return labels.get(name, "The part of the release's operator that the record went through")
    origin = f", made from the raw column by {column.recode}" if column.recode else ""
    if column.role == "sensitive":
        return f"Sensitive column {column.name}, protected as the statement says{origin}"
    if name == column.name:
        return f"Quasi-identifier {column.name}{origin}"
    return (
        f"Quasi-identifier {column.name}, {name.removeprefix(column.name).strip('_')} end{origin}"
    )
