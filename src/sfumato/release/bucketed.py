"""Releases that list sensitive values by bucket: who in a bucket has which is not told."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from sfumato.columns import Column, Values, list_some
from sfumato.errors import BundleError
from sfumato.release.plans import is_whole, whole_number
from sfumato.release.reader import Release
from sfumato.release.records import scan


class BucketedRelease(Release):
    """Quasi columns as they are with a bucket; `sensitive.parquet` lists the values of each."""

    kind: ClassVar[str] = "bucketed"
    side_files: ClassVar[tuple[str, ...]] = ("sensitive.parquet",)

    @property
    def listed_column(self) -> Column:
        """The one sensitive column, whose values are listed by bucket."""
        return self.sensitive[0]

    @property
    def fakes(self) -> int:
        """How many of the values that a bucket lists nobody has."""
        return self._fakes

    @property
    def histogram(self) -> tuple[int, ...] | None:
        """True counts by code, where they are stated because fakes hide them."""
        return self._histogram

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Pairs: a size, and how many buckets have so many records."""
        return self._sizes

    @property
    def discloses_histogram(self) -> bool:
        return not self._fakes

    def shown_as(self, column: Column) -> tuple[str, ...]:
        return (column.name,) if column.role == "quasi" else ("bucket",)

    def _known_names(self, table: str) -> set[str]:
        if table == "records":
            return {column.name for column in self.quasi} | {"bucket"}
        return {self.listed_column.name, "bucket", "count"}

    def _check_schemas(self) -> None:
        if len(self.sensitive) != 1:
            raise BundleError(
                f"{self.where} is bucketed but has {len(self.sensitive)} sensitive columns; it "
                "needs exactly one."
            )
        super()._check_schemas()
        for table, schema in self._schemas.items():
            lacking = sorted(self._known_names(table) - set(schema.names))
            if lacking:
                raise BundleError(f"Table {table!r} of {self.where} lacks {list_some(lacking)}.")
            for name in {"bucket", "count"} & set(schema.names):
                if not pa.types.is_integer(schema.field(name).type):
                    raise BundleError(
                        f"Column {name!r} in table {table!r} of {self.where} does not hold whole "
                        "numbers."
                    )

    def _compare_with_plan(self) -> None:
        self._in_database(self._compare_buckets)

    def _compare_buckets(self, connection: Any) -> None:
        """Every record is in a bucket that lists values, each at least once."""
        listed = scan([self.file("sensitive")])
        found = connection.sql(
            f"SELECT count(*) FROM {listed} WHERE NOT coalesce(count > 0, false)"
        )
        if found.fetchall()[0][0]:
            raise BundleError(
                f"sensitive.parquet of {self.where} has a count below 1. Fetch it again."
            )
        found = connection.sql(
            f"SELECT count(*) FROM {scan(self.records)} AS r ANTI JOIN {listed} AS s "
            "ON r.bucket = s.bucket"
        )
        if strangers := found.fetchall()[0][0]:
            raise BundleError(
                f"{strangers:,} records of {self.where} are in a bucket that lists no values. "
                "Fetch it again."
            )

    def _read_plan(self) -> None:
        self._fakes = whole_number(self.plan, "fakes", self.where, default=0)
        self._sizes = self._read_sizes(self.plan.get("sizes", []))
        self._histogram = self._read_histogram(self.plan.get("histogram"))

    def _read_sizes(self, stated: Any) -> tuple[tuple[int, int], ...]:
        if not isinstance(stated, list) or not all(
            isinstance(each, dict) and is_whole(each.get("size")) and is_whole(each.get("buckets"))
            for each in stated
        ):
            raise BundleError(
                f"The plan of {self.where} has 'sizes', which must list objects with 'size' and "
                "'buckets'."
            )
        return tuple((each["size"], each["buckets"]) for each in stated)

    def _read_histogram(self, stated: Any) -> tuple[int, ...] | None:
        if not self._fakes:
            return None
        domain = self.listed_column.domain
        assert isinstance(domain, Values)
        listed = stated if isinstance(stated, list) else []
        if not all(map(is_whole, listed)) or len(listed) != len(domain) or sum(listed) != self.rows:
            raise BundleError(
                f"{self.where} has fake values, but its plan states no histogram of its "
                f"{self.rows:,} records."
            )
        return tuple(listed)
