"""People who look alike: classes of equal quasi columns, with what is true and what is shown.

Whoever is alone in a class can be followed from the table to the release; people who look alike can
be followed together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.audits.case import AuditCase, quoted
from sfumato.columns import value_text
from sfumato.draws import BoolArray, IntArray
from sfumato.release import BucketedRelease

MOST_PEOPLE = 2_000_000  # people looked at, chosen by a hash of their quasi columns


@dataclass(frozen=True, eq=False)
class Cells:
    """Numbers of records by class and value, sorted by both."""

    owner: IntArray  # the class
    value: IntArray
    count: IntArray
    values: int  # of the domain

    @classmethod
    def of(cls, owner: IntArray, value: IntArray, count: IntArray, values: int) -> Cells:
        keys, place = np.unique(owner * values + value, return_inverse=True)
        counts = np.bincount(place.reshape(-1), count, minlength=len(keys)).astype(np.int64)
        return cls(keys // values, keys % values, counts, values)

    def look_up(self, owner: IntArray, value: IntArray) -> IntArray:
        """How many records of these classes have these values.

        >>> cells = Cells.of(np.array([0, 2, 2]), np.array([1, 0, 0]), np.array([5, 1, 2]), 3)
        >>> cells.look_up(np.array([2, 0]), np.array([0, 0])).tolist()
        [3, 0]
        """
        keys, wanted = self.owner * self.values + self.value, owner * self.values + value
        place = np.searchsorted(keys, wanted)
        there = place < len(keys)
        there[there] = keys[place[there]] == wanted[there]
        found = np.zeros(len(wanted), np.int64)
        found[there] = self.count[place[there]]
        return found


@dataclass(frozen=True, eq=False)
class Rows:
    """Numbers of records by class and the codes of all sensitive columns."""

    owner: IntArray
    codes: Mapping[str, IntArray]
    count: IntArray
    values: Mapping[str, int]

    def of(self, column: str) -> Cells:
        return Cells.of(self.owner, self.codes[column], self.count, self.values[column])

    def together(self, first: str, second: str) -> Cells:
        """Two columns as one, whose value is first · (values of the second) + second."""
        values = self.values[second]
        codes = self.codes[first] * values + self.codes[second]
        return Cells.of(self.owner, codes, self.count, self.values[first] * values)


@dataclass(frozen=True, eq=False)
class QuasiGroups:
    """The classes by their value of one quasi column."""

    column: str
    values: pa.Array
    group: IntArray  # of every class, its value's place

    def name(self, place: int) -> str:
        return f"{self.column} = {value_text(self.values[place].as_py())}"


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of a table, what their people have and what the release shows of them."""

    hashes: npt.NDArray[np.uint64]  # of the quasi columns, ascending
    sizes: IntArray
    true: Rows
    shown: Rows
    quasi: tuple[QuasiGroups, ...]
    people: int  # in these classes

    def find(self, hashed: npt.NDArray[np.uint64]) -> tuple[IntArray, BoolArray]:
        """The classes with these hashes, and whether there is such a class."""
        return _find(self.hashes, hashed)


def find_classes(case: AuditCase) -> Classes:
    """One pass over the table and one over the records."""
    table = case.table
    names = [quoted(name) for name in table.quasi]
    hashed = f"hash({', '.join(names)})" if names else "0::UBIGINT"
    every = -(-case.profile.rows // MOST_PEOPLE)
    chosen = f"WHERE {hashed} % {every} = 0" if every > 1 else ""
    codes = [f"__code_{index}" for index in range(len(table.sensitive))]
    connection = case.connect(complete=True)
    connection.execute(
        f"CREATE TABLE cells AS SELECT {', '.join([f'{hashed} AS h', *names, *codes])}, "
        f"count(*) AS n FROM raw {chosen} GROUP BY ALL"
    )
    first = "".join(f", any_value({name}) AS {name}" for name in names)
    classes = connection.sql(
        f"SELECT h, sum(n)::BIGINT AS size{first} FROM cells GROUP BY h ORDER BY h"
    ).to_arrow_table()
    hashes = classes.column("h").to_numpy()
    true = connection.sql(f"SELECT h, {', '.join(codes)}, n FROM cells ORDER BY h").to_arrow_table()
    if isinstance(case.release, BucketedRelease):
        shown = true.slice(0, 0)  # its records show no value: buckets have checks of their own
    else:
        shown = _shown(case, connection)
    sizes = classes.column("size").to_numpy()
    quasi = tuple(_quasi_groups(name, classes.column(name)) for name in table.quasi)
    return Classes(
        hashes,
        sizes,
        _rows(true, hashes, case),
        _rows(shown, hashes, case),
        quasi,
        int(sizes.sum()),
    )


def _shown(case: AuditCase, connection: Any) -> pa.Table:
    """Published records by class and codes."""
    table = case.table
    names = [quoted(name) for name in table.quasi]
    codes = [f"__code_{index}" for index in range(len(table.sensitive))]
    joins = []
    for index, column in enumerate(table.sensitive):
        domain = case.release.domain(column)
        numbers = pa.array(range(len(domain)), pa.int64())
        connection.register(f"domain_{index}", pa.table({"value": domain, "code": numbers}))
        joins.append(
            f"JOIN domain_{index} AS d{index} ON d{index}.value IS NOT DISTINCT FROM "
            f"p.{quoted(column)}"
        )
    shown_codes = [f"d{index}.code AS {code}" for index, code in enumerate(codes)]
    own = [f"p.{name}" for name in names]
    hashed = f"hash({', '.join(own)})" if own else "0::UBIGINT"
    return connection.sql(
        f"SELECT {hashed} AS h, {', '.join(shown_codes)}, count(*) AS n FROM published AS p "
        f"{' '.join(joins)} GROUP BY ALL ORDER BY h"
    ).to_arrow_table()


def _find(
    hashes: npt.NDArray[np.uint64], wanted: npt.NDArray[np.uint64]
) -> tuple[IntArray, BoolArray]:
    owner = np.minimum(np.searchsorted(hashes, wanted), max(len(hashes) - 1, 0))
    known = hashes[owner] == wanted if len(hashes) else np.zeros(len(wanted), np.bool_)
    return owner, np.asarray(known)


def _rows(found: pa.Table, hashes: np.ndarray, case: AuditCase) -> Rows:
    """Counts in classes that the table has; strangers are found by another check."""
    h = found.column("h").to_numpy()
    owner, known = _find(hashes, h)
    codes, values = {}, {}
    for index, column in enumerate(case.table.sensitive):
        codes[column] = found.column(f"__code_{index}").to_numpy()[known]
        values[column] = len(case.profile.histograms[column].values)
    return Rows(owner[known], codes, found.column("n").to_numpy()[known], values)


def _quasi_groups(name: str, column: pa.ChunkedArray) -> QuasiGroups:
    coded = column.combine_chunks()
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode(null_encoding="encode")
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    return QuasiGroups(name, coded.dictionary, np.asarray(coded.indices.to_numpy(), np.int64))
