"""People who look alike: classes of equal quasi-identifiers, what is true and what is shown.

Whoever is alone in a class can be followed from the table to the release; people who look alike can
be followed together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.audits.case import AuditCase, quoted
from sfumato.columns import value_text
from sfumato.draws import IntArray

MOST_PEOPLE = 2_000_000  # people looked at, chosen by a hash of their quasi-identifiers


@dataclass(frozen=True, eq=False)
class ValueCells:
    """Numbers of records by class and code, one row for each pair that there is."""

    owner: IntArray
    code: IntArray
    count: IntArray

    @classmethod
    def of(cls, owner: IntArray, code: IntArray, count: IntArray) -> ValueCells:
        """Equal pairs are added up; sorted by class, then code.

        >>> cells = ValueCells.of(np.array([2, 0, 2]), np.array([0, 1, 0]), np.array([1, 5, 2]))
        >>> cells.count.tolist()
        [5, 3]
        """
        codes = int(code.max(initial=-1)) + 1
        keys, inverse = np.unique(owner * codes + code, return_inverse=True)
        counts = np.bincount(inverse.reshape(-1), count, minlength=len(keys)).astype(np.int64)
        return cls(*np.divmod(keys, max(codes, 1)), counts)

    def look_up(self, owner: IntArray, code: IntArray) -> IntArray:
        """How many records of these classes have these codes."""
        codes = 1 + max(int(self.code.max(initial=-1)), int(code.max(initial=-1)))
        keys, wanted = self.owner * codes + self.code, owner * codes + code
        position = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        if not len(keys):
            return np.zeros(len(wanted), np.int64)
        return np.asarray(np.where(keys[position] == wanted, self.count[position], 0))


@dataclass(frozen=True, eq=False)
class QuasiGroups:
    """The classes by their value of one quasi-identifier."""

    column: str
    values: pa.Array
    group: IntArray  # of every class, its value's place

    def name(self, place: int) -> str:
        return f"{self.column} = {value_text(self.values[place].as_py())}"


@dataclass(frozen=True, eq=False)
class EquivalenceClasses:
    """The classes of a table. `true` and `shown` have a row for every class and combination of
    codes: `owner`, `count`, and the codes by column; what `Parts` show are symbols."""

    hashes: npt.NDArray[np.uint64]  # of the quasi-identifiers, ascending
    sizes: IntArray
    true: Mapping[str, IntArray]
    shown: Mapping[str, IntArray]
    quasi: tuple[QuasiGroups, ...]

    def cells(self, rows: Mapping[str, IntArray], codes: IntArray) -> ValueCells:
        return ValueCells.of(rows["owner"], codes, rows["count"])


def find_classes(case: AuditCase) -> EquivalenceClasses:
    """One pass over the table and one over the records."""
    names = case.quasi
    every = -(-case.profile.rows // MOST_PEOPLE)
    codes = [f"__code_{index}" for index in range(len(case.table.sensitive))]
    case.database.execute(
        f"CREATE OR REPLACE TABLE cells AS SELECT {', '.join([_hash(names), *names, *codes])}, "
        f"count(*)::BIGINT AS count FROM {case.complete('raw')} WHERE h % {every} = 0 "
        "GROUP BY ALL"
    )
    first = "".join(f", any_value({name}) AS {name}" for name in names)
    classes = case.columns(
        f"SELECT h, sum(count)::BIGINT AS size{first} FROM cells GROUP BY h ORDER BY h"
    )
    hashes = classes.column("h").to_numpy()
    true = case.columns(f"SELECT h, {', '.join(codes)}, count FROM cells")
    release = case.release
    listed = [quoted(name) for name in case.table.sensitive for name in
              release.shown_as(release.column(name))]  # fmt: skip
    shown = case.columns(
        f"SELECT {', '.join([_hash(names), *listed])}, count(*)::BIGINT AS count "
        f"FROM {case.complete('published')} GROUP BY ALL"
    )
    for code, column in zip(codes, case.table.sensitive, strict=True):
        shown = shown.append_column(code, pa.array(release.shown_codes(shown, column)))
    return EquivalenceClasses(
        hashes,
        classes.column("size").to_numpy(),
        _rows(true, hashes, case),
        _rows(shown, hashes, case),
        tuple(_quasi_groups(name, classes.column(name)) for name in case.table.quasi),
    )


def _hash(names: list[str]) -> str:
    return f"hash({', '.join(names)}) AS h" if names else "0::UBIGINT AS h"


def _rows(found: pa.Table, hashes: npt.NDArray[np.uint64], case: AuditCase) -> dict[str, IntArray]:
    """Rows of classes that the table has; strangers are found by another check."""
    wanted = found.column("h").to_numpy()
    owner = np.minimum(np.searchsorted(hashes, wanted), max(len(hashes) - 1, 0))
    present = hashes[owner] == wanted if len(hashes) else np.zeros(len(wanted), np.bool_)
    rows = {"owner": owner, "count": found.column("count").to_numpy()}
    for index, column in enumerate(case.table.sensitive):
        rows[column] = found.column(f"__code_{index}").to_numpy()
    return {name: np.asarray(values[present], np.int64) for name, values in rows.items()}


def _quasi_groups(name: str, column: pa.ChunkedArray) -> QuasiGroups:
    coded = column.combine_chunks()
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode(null_encoding="encode")
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    return QuasiGroups(name, coded.dictionary, np.asarray(coded.indices.to_numpy(), np.int64))
