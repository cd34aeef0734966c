"""Releases whose sensitive columns have buckets of their own: a list of values for each column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.blocks import BlockTree
from sfumato.columns import Column, bucket_column, list_some, listing_file
from sfumato.draws import IntArray
from sfumato.errors import BundleError
from sfumato.release.bucketed import BucketedRelease, check_listed, compare_buckets, read_sizes
from sfumato.release.manifest import NAME, FileEntry
from sfumato.release.reader import Release
from sfumato.release.records import ONE


class ApartRelease(Release):
    """Quasi columns as they are with a bucket for every sensitive column; `sensitive_1.parquet` and
    so on list the values of each."""

    kind: ClassVar[str] = "bucketed-apart"

    @property
    def side_files(self) -> tuple[str, ...]:
        return tuple(f"{listing_file(place)}.parquet" for place in range(len(self.sensitive)))

    @property
    def discloses_histogram(self) -> bool:
        return True

    def shown_as(self, column: Column) -> tuple[str, ...]:
        return (column.name if column.role == "quasi" else bucket_column(column.name),)

    def list_of(self, column: str) -> Path | None:
        return self.listing(column).file("sensitive")

    def listing(self, column: str) -> ColumnListing:
        """What the buckets of a sensitive column list."""
        return self._listings[column]

    @cached_property
    def _listings(self) -> dict[str, ColumnListing]:
        return {
            column.name: ColumnListing(self, place) for place, column in enumerate(self.sensitive)
        }

    def sizes(self, column: str) -> tuple[tuple[int, int], ...]:
        """Pairs: a size, and how many buckets of the column have so many records."""
        return self._sizes[column]

    def _known_names(self, table: str) -> set[str]:
        if table == "records":
            own = {bucket_column(column.name) for column in self.sensitive}
            return {column.name for column in self.quasi} | own
        place = [name.removesuffix(".parquet") for name in self.side_files].index(table)
        return {"bucket", self.sensitive[place].name, "count"}

    def _check_schemas(self) -> None:
        if not self.sensitive:
            raise BundleError(f"{self.where} is {self.kind} but has no sensitive column.")
        super()._check_schemas()
        for table, schema in self._schemas.items():
            check_listed(self, table, schema, self._known_names(table))

    def _compare_with_plan(self) -> None:
        self._in_database(self._compare_buckets)

    def _compare_buckets(self, connection: Any) -> None:
        for column in self.sensitive:
            file = self.listing(column.name).file("sensitive")
            compare_buckets(connection, self, file, bucket_column(column.name))

    def _read_plan(self) -> None:
        stated = self.plan.get("columns")
        names = [column.name for column in self.sensitive]
        if not isinstance(stated, dict) or sorted(stated) != sorted(names):
            raise BundleError(
                f"The plan of {self.where} needs 'columns', what was planned for each of "
                f"{list_some(names)}."
            )
        if not all(isinstance(each, dict) for each in stated.values()):
            raise BundleError(f"The plan of {self.where} has 'columns', which must be objects.")
        self._sizes = {n: read_sizes(stated[n].get("sizes", []), self.where) for n in names}


@dataclass(frozen=True, eq=False)
class ColumnListing:
    """One sensitive column's buckets, read as those of a release that has no other column."""

    release: ApartRelease
    place: int

    tells_people_apart: ClassVar[bool] = False
    histogram: ClassVar[None] = None
    tree: ClassVar[BlockTree | None] = None
    block_histograms: ClassVar[None] = None
    first_buckets: ClassVar[tuple[int, ...]] = (0,)

    @property
    def path(self) -> Path:
        return self.release.path

    @property
    def sensitive(self) -> tuple[Column, ...]:
        return (self.release.sensitive[self.place],)

    def domain(self, name: str) -> pa.Array:
        return self.release.domain(name)

    def counts(self) -> IntArray:
        """How often every bucket lists every value, by (bucket, value)."""
        import pyarrow.parquet as pq

        table, column = pq.read_table(self.file("sensitive")), self.sensitive[0].name
        codes = self.release.shown_codes(table.select([column]), column)
        buckets = np.asarray(table.column("bucket").to_numpy(), np.int64)
        values = len(self.domain(column))
        found = np.zeros((int(buckets.max(initial=-1)) + 1, values), np.int64)
        np.add.at(found, (buckets, codes), table.column("count").to_numpy())
        return found

    def file(self, stem: str) -> Path:
        assert stem == "sensitive", stem
        return self.release.file(listing_file(self.place))


def column_release(release: ApartRelease, column: str, folder: Path) -> BucketedRelease:
    """One sensitive column of a release as a bucketed release of its own, written into a folder.

    The quasi columns and the column's buckets are all that it shows: who sees no other sensitive
    column sees this.
    """
    import pyarrow.parquet as pq

    own, bucket = release.listing(column), bucket_column(column)
    quasi = [each.name for each in release.quasi]
    writer = None
    for path in release.records:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=[*quasi, bucket]):
                table = pa.Table.from_batches([batch]).rename_columns({bucket: "bucket"})
                writer = writer or pq.ParquetWriter(folder / ONE, table.schema)
                writer.write_table(table)
    if writer is None:
        schema = pq.read_schema(release.records[0])
        kept = [schema.field(name) for name in quasi]
        writer = pq.ParquetWriter(folder / ONE, pa.schema([*kept, pa.field("bucket", pa.int64())]))
    writer.close()
    listed = folder / "sensitive.parquet"
    listed.write_bytes(own.file("sensitive").read_bytes())
    manifest = replace(
        release.manifest,
        kind=BucketedRelease.kind,
        columns=(*release.quasi, release.column(column)),
        plan=release.plan["columns"][column],
        files={path.name: FileEntry.of(path) for path in (folder / ONE, listed)},
    )
    (folder / NAME).write_text(manifest.to_text(), encoding="utf-8")
    found = Release(folder, verify=False)
    assert isinstance(found, BucketedRelease)
    return found
