"""What the buckets of a release list, as an audit reads it: column by column, and all together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.audits.case import AuditCase, quoted
from sfumato.columns import value_text
from sfumato.draws import IntArray
from sfumato.profile import Histogram
from sfumato.release import BucketedRelease, scan


@dataclass(frozen=True, eq=False)
class Listing:
    """A column, or all of them as one, whose values are the combinations.

    `listed` names a table of bucket, code and n (records); `raw` is the code in SQL over
    the raw table's codes.
    """

    case: AuditCase
    connection: Any
    listed: str
    columns: tuple[str, ...]

    @property
    def title(self) -> str:
        return " and ".join(self.columns)

    @property
    def _domains(self) -> list[Histogram]:
        return [self.case.profile.histograms[column] for column in self.columns]

    @property
    def raw(self) -> str:
        found = "0"
        for column, histogram in zip(self.columns, self._domains, strict=True):
            place = self.case.table.sensitive.index(column)
            found = f"({found}) * {len(histogram.values)} + __code_{place}"
        return found

    def name(self, code: int) -> str:
        """A value in words."""
        found: list[str] = []
        for histogram in reversed(self._domains):
            code, own = divmod(code, len(histogram.values))
            found.append(value_text(histogram.values[own]))
        return " and ".join(reversed(found))

    def raw_counts(self) -> dict[int, int]:
        """How many rows of the table have each value."""
        if len(self.columns) == 1:
            return dict(enumerate(self._domains[0].counts.tolist()))
        found = self.case.connect().execute(f"SELECT {self.raw}, count(*) FROM raw GROUP BY 1")
        return {int(code): int(n) for code, n in found.fetchall()}

    def histogram(self) -> Histogram:
        """People by value, as listed."""
        rows = self.connection.execute(
            f"SELECT code, sum(n) FROM {self.listed} WHERE code IS NOT NULL GROUP BY code "
            "ORDER BY code"
        ).fetchall()
        if len(self.columns) > 1:
            counts = np.array([int(n) for _, n in rows], np.int64)
            values = tuple(self.name(int(code)) for code, _ in rows)
            return Histogram(self.title, values, counts)
        own = self._domains[0]
        counts = np.zeros(len(own.values), np.int64)
        counts[[int(code) for code, _ in rows]] = [int(n) for _, n in rows]
        return Histogram(own.column, own.values, counts)

    def codes(self) -> IntArray:
        """The code of every value of `histogram`."""
        if len(self.columns) == 1:
            return np.arange(len(self._domains[0].values))
        found = self.connection.execute(
            f"SELECT DISTINCT code FROM {self.listed} WHERE code IS NOT NULL ORDER BY code"
        ).fetchall()
        return np.array([int(code) for (code,) in found], np.int64)


def listings(case: AuditCase) -> Iterator[Listing]:
    """Every column, and all of several together; on one connection, the first being the strongest.

    The connection also has `members`, the records in each bucket, and `sizes`, what it lists.
    """
    import pyarrow as pa

    connection = case.connect()
    columns = case.table.sensitive
    joins = []
    for place, column in enumerate(columns):
        domain = case.release.domain(column)
        numbers = pa.array(range(len(domain)), pa.int64())
        connection.register(f"domain_{place}", pa.table({"value": domain, "code": numbers}))
        joins.append(
            f"LEFT JOIN domain_{place} AS d{place} ON d{place}.value IS NOT DISTINCT FROM "
            f"s.{quoted(column)}"
        )
    codes = ", ".join(f"d{place}.code AS __code_{place}" for place in range(len(columns)))
    assert isinstance(case.release, BucketedRelease)
    connection.execute(
        f"CREATE TABLE entries AS SELECT s.bucket, {codes}, s.count AS n "
        f"FROM {scan([case.release.file('sensitive')])} AS s {' '.join(joins)}"
    )
    connection.execute(
        "CREATE TABLE sizes AS SELECT bucket, sum(n)::BIGINT AS n FROM entries GROUP BY bucket"
    )
    connection.execute(
        "CREATE TABLE members AS SELECT bucket, count(*) AS n FROM published GROUP BY bucket"
    )
    views = [tuple(columns)] if len(columns) > 1 else []
    for place, view in enumerate([*views, *((column,) for column in columns)]):
        found = Listing(case, connection, f"listed_{place}", view)
        connection.execute(
            f"CREATE TABLE listed_{place} AS SELECT bucket, {found.raw} AS code, "
            "sum(n)::BIGINT AS n FROM entries GROUP BY ALL"
        )
        yield found
