"""Opening a release folder that nobody vouches for."""

from __future__ import annotations

import math
from datetime import datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.columns import Column, Range, Values, list_some, value_to_json
from sfumato.errors import BundleError
from sfumato.operators import operator_from_json
from sfumato.release.bundle import UNFINISHED
from sfumato.release.generalized import check_schema, check_values
from sfumato.release.manifest import NAME, FileEntry, Manifest, read_manifest
from sfumato.release.records import FOLDER, record_names, scan
from sfumato.scratch import scratch_database


class Release:
    """A release on disk, validated: manifest, files, hashes, schemas, domains, operators."""

    def __init__(self, path: str | Path, *, verify: bool = True) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise BundleError(f"There is no release folder {str(self.path)!r}.")
        if self.path.resolve().name.endswith(UNFINISHED):
            raise BundleError(f"{str(self.path)!r} was left by a run that did not finish.")
        self.manifest: Manifest = read_manifest(self.path)
        self._check_files(verify)
        self._check_schemas()
        if verify:
            self._check_values()
        self._check_plan()

    @property
    def kind(self) -> str:
        return self.manifest.kind

    @property
    def rows(self) -> int:
        return self.manifest.rows

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.manifest.columns

    @property
    def plan(self) -> dict[str, Any]:
        return self.manifest.plan

    @property
    def records(self) -> list[Path]:
        """The Parquet files that hold the records: one, or one for each part."""
        return [self.path / name for name in record_names(self.manifest.files)]

    @property
    def scales(self) -> tuple[float, ...] | None:
        """By part: how many records, at most, stand for one that was drawn; None where all do."""
        sampling = self.plan.get("sampling")
        return None if sampling is None else tuple(map(float, sampling["scales"]))

    def file(self, stem: str) -> Path:
        """A side file, such as `sensitive` of a bucketed release."""
        if f"{stem}.parquet" not in self.manifest.files:
            raise BundleError(f"{str(self.path)!r} has no file {stem}.parquet.")
        return self.path / f"{stem}.parquet"

    def column(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise BundleError(f"{str(self.path)!r} has no column {name!r}.")

    def domain(self, name: str) -> pa.Array:
        """The listed values of a column, in domain order, in the type of the files."""
        domain = self.column(name).domain
        if not isinstance(domain, Values):
            raise BundleError(f"Column {name!r} of {str(self.path)!r} has no listed domain.")
        return typed_values(domain.values, self._field_type(name))

    def _field_type(self, name: str) -> pa.DataType:
        for schema in self._schemas.values():
            if name in schema.names:
                kind = schema.field(name).type
                return kind.value_type if pa.types.is_dictionary(kind) else kind
        raise BundleError(f"No file of {str(self.path)!r} holds the column {name!r}.")

    def _check_files(self, verify: bool) -> None:
        listed = set(self.manifest.files) | {NAME}
        present = {path.name for path in self.path.iterdir()}
        parts = self.path / FOLDER
        if self.records[0].parent == parts and parts.is_dir() and not parts.is_symlink():
            inside = {f"{FOLDER}/{path.name}" for path in parts.iterdir()}
            present = (present - {FOLDER}) | inside
        if listed - present:
            raise BundleError(
                f"{str(self.path)!r} lacks {list_some(sorted(listed - present))}. The release is "
                "incomplete: fetch it again."
            )
        if present - listed:
            raise BundleError(
                f"{str(self.path)!r} holds files that the manifest does not name: "
                f"{list_some(sorted(present - listed))}. Remove them."
            )
        for name, entry in self.manifest.files.items():
            path = self.path / name
            if path.is_symlink() or not path.is_file():
                raise BundleError(f"{name} of {str(self.path)!r} is not a plain file.")
            changed = path.stat().st_size != entry.bytes or (verify and FileEntry.of(path) != entry)
            if changed:
                raise BundleError(
                    f"{name} of {str(self.path)!r} is not the file that was published: its SHA-256 "
                    "or size differs from the manifest. Fetch the release again."
                )

    def _tables(self) -> dict[str, list[Path]]:
        """The tables of the release, `records` and its side tables, with the files of each."""
        sides = set(self.manifest.files) - set(record_names(self.manifest.files))
        return {
            "records": self.records,
            **{name.removesuffix(".parquet"): [self.path / name] for name in sorted(sides)},
        }

    def _check_schemas(self) -> None:
        self._schemas: dict[str, pa.Schema] = {}
        for table, paths in self._tables().items():
            rows = 0
            for path in paths:
                schema, length = self._read_schema(path)
                rows += length
                if schema != self._schemas.setdefault(table, schema):
                    raise BundleError(
                        f"{path.name} of {str(self.path)!r} has other columns or types than "
                        f"{paths[0].name}."
                    )
            if table == "records" and rows != self.rows:
                raise BundleError(
                    f"The records of {str(self.path)!r} have {rows:,} rows; the manifest says "
                    f"{self.rows:,}."
                )
        if self.kind == "generalized":
            check_schema(self._schemas["records"], self.columns, repr(str(self.path)))
            return
        for column in self.columns:
            found = self._field_type(column.name)
            if str(found) != column.type:
                raise BundleError(
                    f"Column {column.name!r} of {str(self.path)!r} has type {found}; the manifest "
                    f"says {column.type}."
                )
            try:
                if isinstance(column.domain, Values):
                    typed_values(column.domain.values, found)
            except (pa.ArrowException, ValueError, TypeError, OverflowError):
                raise BundleError(
                    f"The domain of column {column.name!r} in the manifest of {str(self.path)!r} "
                    f"does not fit its type {column.type}."
                ) from None
        if self.kind == "perturbed":
            shown = set(self._schemas["records"].names)
            lacking = [column.name for column in self.columns if column.name not in shown]
            if lacking:
                raise BundleError(f"The records of {str(self.path)!r} lack {list_some(lacking)}.")
        known = {column.name for column in self.columns} | {"part", "bucket", "count"}
        known |= {f"part_{column.name}" for column in self.columns if column.role == "sensitive"}
        for name, schema in self._schemas.items():
            strangers = sorted(set(schema.names) - known)
            if strangers:
                raise BundleError(
                    f"Table {name!r} of {str(self.path)!r} has columns that the manifest does not "
                    f"name: {list_some(strangers)}."
                )

    def _read_schema(self, path: Path) -> tuple[pa.Schema, int]:
        """The columns of a file, and how many rows it has."""
        import pyarrow.parquet as pq

        name = path.relative_to(self.path).as_posix()
        try:
            with pq.ParquetFile(path) as file:
                schema, rows = file.schema_arrow, file.metadata.num_rows
        except (pa.ArrowException, OSError):
            raise BundleError(f"{name} of {str(self.path)!r} is not Parquet.") from None
        if len(set(schema.names)) != len(schema.names):
            raise BundleError(f"{name} of {str(self.path)!r} has a column twice.")
        return schema, rows

    def _check_values(self) -> None:
        import duckdb

        try:
            with scratch_database() as connection:
                self._compare_domains(connection)
        except duckdb.Error as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise BundleError(f"Cannot read the files of {str(self.path)!r}: {reason}.") from None

    def _compare_domains(self, connection: Any) -> None:
        generalized = self.kind == "generalized"
        if generalized:
            check_values(connection, scan(self.records), self.columns, repr(str(self.path)))
        for name, paths in self._tables().items():
            schema = self._schemas[name]
            # by position: DuckDB does not tell `age` from `Age`
            places = {column: f"c{place}" for place, column in enumerate(schema.names)}
            source = f"{scan(paths)} AS t({', '.join(places.values())})"
            for column in self.columns:
                if column.name not in schema.names or (generalized and column.role == "quasi"):
                    continue
                found_as = places[column.name]
                if isinstance(column.domain, Values):
                    found = connection.sql(
                        f"SELECT DISTINCT {found_as} AS v FROM {source}"
                    ).to_arrow_table()
                    values = {value_to_json(v) for v in in_utc(found.column("v")).to_pylist()}
                    strangers = len(values - set(column.domain.values))
                elif isinstance(column.domain, Range) and column.domain.low is not None:
                    row = connection.execute(
                        f"SELECT count(*) FILTER (WHERE NOT isnan({found_as}::DOUBLE) AND "
                        f"({found_as} < ? OR {found_as} > ?)) FROM {source}",
                        [column.domain.low, column.domain.high],
                    ).fetchall()[0]
                    strangers = row[0]
                else:
                    continue
                if strangers:
                    raise BundleError(
                        f"Column {column.name!r} in table {name!r} of {str(self.path)!r} has "
                        f"{strangers:,} values outside the domain that the manifest states."
                    )

    def _check_sampling(self, sampling: Any) -> None:
        """Scales are numbers from 1 up, and every record's part has one."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        scales = sampling.get("scales") if isinstance(sampling, dict) else None
        if not isinstance(scales, list) or not all(
            isinstance(scale, (int, float)) and 1 <= scale < math.inf for scale in scales
        ):
            raise BundleError(f"The sampling scales of {str(self.path)!r} are not numbers from 1.")
        if "part" not in self._schemas["records"].names:
            raise BundleError(f"The records of {str(self.path)!r} lack the column 'part'.")
        for path in self.records:
            found = pc.min_max(pq.read_table(path, columns=["part"]).column(0)).as_py()
            low, high = found["min"], found["max"]
            if low is not None and not 0 <= low <= high < len(scales):
                raise BundleError(f"A part in {path.name} of {str(self.path)!r} has no scale.")

    def _check_plan(self) -> None:
        if "sampling" in self.plan:
            self._check_sampling(self.plan["sampling"])
        operators = self.plan.get("operators", {})
        if not isinstance(operators, dict):
            raise BundleError(f"The operators of {str(self.path)!r} are not an object.")
        if self.kind == "perturbed" and not operators:
            raise BundleError(f"The manifest of {str(self.path)!r} names no operator.")
        sensitive = {column.name for column in self.columns if column.role == "sensitive"}
        if self.kind == "perturbed" and set(operators) != sensitive:
            raise BundleError(
                f"The manifest of {str(self.path)!r} has operators for "
                f"{list_some(sorted(operators))}; the sensitive columns are "
                f"{list_some(sorted(sensitive))}."
            )
        for name, described in operators.items():
            if not isinstance(described, dict):
                raise BundleError(f"The operator of column {name!r} is not an object.")
            operator = operator_from_json(described)
            domain = self.column(name).domain
            if not isinstance(domain, Values) or len(domain) != operator.domain_size:
                raise BundleError(
                    f"The operator of column {name!r} in {str(self.path)!r} does not fit its "
                    "domain."
                )


def in_utc(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Instants as a release tells them: DuckDB gives them in the zone of this machine."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return column.cast(pa.timestamp(kind.unit, "UTC"))
    return column


def typed_values(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    """Values as they stand in JSON, back in their own type."""
    texts = [None if v is None else v if isinstance(v, str) else str(v) for v in values]
    if pa.types.is_boolean(kind):
        return pa.array(values, kind)
    if pa.types.is_binary(kind):
        return pa.array([None if v is None else bytes.fromhex(v) for v in values], kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pa.array([float(v) if isinstance(v, str) else v for v in values], kind)
    if pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        read = (time if pa.types.is_time(kind) else datetime).fromisoformat
        return pa.array([None if text is None else read(text) for text in texts], kind)
    return pa.array(texts, pa.string()).cast(kind)
