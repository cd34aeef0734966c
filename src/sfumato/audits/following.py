"""People followed from the table to the release: how often they are shown truly, and its law.

Whoever is alone in a class of equal quasi-identifiers can be followed; people who look alike can be
followed together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.audits.case import AuditCase, encoded
from sfumato.audits.chances import ALARM, FloatArray, Tests
from sfumato.columns import quoted, value_text
from sfumato.draws import IntArray

Chances = Callable[[IntArray, IntArray], FloatArray]  # P[x, y]

MOST_PEOPLE = 2_000_000  # people looked at, chosen by a hash of their quasi-identifiers
SURE = 1.645  # standard errors below which a draw falls one time in twenty
MOST_VALUES = 1000  # people among so many different values cannot be followed
MOST_PAIRS = 8_000_000


@dataclass(frozen=True, eq=False)
class EquivalenceClasses:
    """The classes of a table. `true` and `shown` have a row for every class and combination of
    codes: `owner`, `count`, and the codes by column; what `Parts` show are symbols."""

    hashes: npt.NDArray[np.uint64]  # of the quasi-identifiers, ascending
    sizes: IntArray
    true: Mapping[str, IntArray]
    shown: Mapping[str, IntArray]
    quasi: Mapping[str, tuple[pa.Array, IntArray]]  # the values of a column, and which each has

    def cells(self, rows: Mapping[str, IntArray], codes: IntArray, values: int) -> Any:
        """Numbers of records by class and code, a sparse matrix."""
        from scipy.sparse import csr_array

        there = codes >= 0
        cells = (rows["count"][there], (rows["owner"][there], codes[there]))
        return csr_array(cells, shape=(len(self.sizes), values))


def find_classes(case: AuditCase) -> EquivalenceClasses:
    """One pass over the table and one over the records."""
    names = case.quasi
    every = -(-case.profile.rows // MOST_PEOPLE)
    key = f"hash({', '.join(names)}) AS h" if names else "0::UBIGINT AS h"
    codes = [f"__code_{index}" for index in range(len(case.table.sensitive))]
    case.database.execute(
        f"CREATE OR REPLACE TABLE cells AS SELECT {', '.join([key, *names, *codes])}, "
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
        f"SELECT {', '.join([key, *listed])}, count(*)::BIGINT AS count "
        f"FROM {case.complete('published')} GROUP BY ALL"
    )
    for code, column in zip(codes, case.table.sensitive, strict=True):
        shown = shown.append_column(code, pa.array(release.shown_codes(shown, column)))
    return EquivalenceClasses(
        hashes,
        classes.column("size").to_numpy(),
        _rows(true, hashes, case),
        _rows(shown, hashes, case),
        {name: encoded(classes.column(name)) for name in case.table.quasi},
    )


def _rows(found: pa.Table, hashes: npt.NDArray[np.uint64], case: AuditCase) -> dict[str, IntArray]:
    """Rows of classes that the table has; strangers are found by another check."""
    wanted = found.column("h").to_numpy()
    owner = np.minimum(np.searchsorted(hashes, wanted), max(len(hashes) - 1, 0))
    present = hashes[owner] == wanted if len(hashes) else np.zeros(len(wanted), np.bool_)
    rows = {"owner": owner, "count": found.column("count").to_numpy()}
    for index, column in enumerate(case.table.sensitive):
        rows[column] = found.column(f"__code_{index}").to_numpy()
    return {name: np.asarray(values[present], np.int64) for name, values in rows.items()}


@dataclass(frozen=True, eq=False)
class ValuePairs:
    """Within every class, each true value with each value that would agree with somebody's.

    The people of cell i are those of class `owner[i]` with `true[i]`. Pair k belongs to cell
    `cell[k]`, neighbours to the same one: each of its people is shown `shown[k]` with `chance[k]`,
    which agrees by `weight[k]`.
    """

    owner: IntArray
    true: IntArray
    count: FloatArray
    agreed: FloatArray  # per cell: how often its value is shown in its class, times its weight
    cell: IntArray
    shown: IntArray
    weight: FloatArray
    chance: FloatArray

    @classmethod
    def of(
        cls, sizes: IntArray, true: Any, shown: Any, chances: Chances, *, alone: bool
    ) -> ValuePairs | None:
        """From classes of these sizes, and numbers by class and value. With `alone`, only people
        whom nobody looks like. None where nobody can be followed."""
        support = np.diff(true.indptr)
        chosen = (support > 0) & (support <= MOST_VALUES)
        if alone:
            chosen &= sizes == 1
        # classes come in the order of a hash, so that those within the bound are a fair choice
        chosen &= np.cumsum(np.where(chosen, support.astype(np.int64) ** 2, 0)) <= MOST_PAIRS
        owners = np.repeat(np.arange(len(sizes)), support)
        kept = chosen[owners]
        owner, code, count = (array[kept] for array in (owners, true.indices, true.data))
        if not len(owner):
            return None
        share = count / sizes[owner]
        number = support[owner]
        cell = np.repeat(np.arange(len(owner)), number)
        mate = np.searchsorted(owner, owner)[cell] + np.arange(len(cell))
        mate -= (np.cumsum(number) - number)[cell]
        agreed = np.asarray(shown[owner, code]) * share
        code, chance = code.astype(np.int64), chances(code[cell], code[mate])
        return cls(
            owner, code, count.astype(np.float64), agreed, cell, code[mate], share[mate], chance
        )

    def apart(self) -> ValuePairs:
        """Every pair as a cell of its own, as if its people could agree by that value alone."""
        true = self.true[self.cell]
        return replace(
            self,
            owner=self.owner[self.cell],
            true=true,
            count=self.count[self.cell],
            agreed=np.where(true == self.shown, self.agreed[self.cell], 0.0),
            cell=np.arange(len(self.cell)),
        )

    def raised(self, slope: float) -> FloatArray:
        """By how much each pair raises E exp(s·agreement) of one person."""
        with np.errstate(over="ignore", invalid="ignore"):
            raised = self.chance * np.expm1(slope * self.weight)
        return np.where(self.chance <= 0, 0.0, raised)

    def moments(self, raised: FloatArray) -> FloatArray:
        """log E exp(s·agreement) of every cell."""
        return self.count * np.log1p(np.add.reduceat(raised, self.starts))

    @property
    def starts(self) -> IntArray:
        return np.searchsorted(self.cell, np.arange(len(self.owner)))


class AgreementGroups:
    """Groups of people: `key` numbers that of every cell, −1 for none.

    A group so small that it could not alarm, whatever it shows, is left out: it would cost the
    others their power and never tell anything (Tarone 1990).
    """

    def __init__(self, pairs: ValuePairs, key: IntArray, name: Callable[[int], str]):
        self.pairs, self._name = pairs, name
        cell, cells = pairs.cell, len(pairs.owner)
        truthful = pairs.true[cell] == pairs.shown
        own = np.bincount(cell, truthful, cells) > 0  # whether the true value is among the pairs
        weight = pairs.count[cell] * pairs.weight
        mean, square = (
            np.bincount(cell, weight * pairs.chance * factor, cells) for factor in (1, pairs.weight)
        )
        truth = np.where(own, np.bincount(cell, weight * truthful, cells), mean)
        surprise = np.where(pairs.chance > 0, -np.log(np.maximum(pairs.chance, 1e-300)), 0.0)
        most = pairs.count * np.maximum.reduceat(surprise, pairs.starts)
        people = np.where(own, pairs.count, 0.0)
        keys, inverse = np.unique(key, return_inverse=True)
        inverse = inverse.reshape(-1)
        kept = (keys >= 0) & (np.bincount(inverse, people) > 0)
        kept &= np.bincount(inverse, most) >= -np.log(ALARM)
        self.keys, self._place = keys[kept], np.where(kept, np.cumsum(kept) - 1, -1)[inverse]
        self.people, self.agreed, self.mean = map(self._sum, (people, pairs.agreed, mean))
        self._level = self._sum(truth) - SURE * np.sqrt(self._sum(np.where(own, 0.0, square)))
        self.exponents, self.truth = np.zeros(len(self.keys)), np.zeros(len(self.keys))

    def _sum(self, by_cell: FloatArray) -> FloatArray:
        inside = self._place >= 0
        totals = np.bincount(self._place[inside], by_cell[inside], len(self.keys))
        return np.asarray(totals, np.float64)

    def add(self, slope: float, by_cell: FloatArray, missing: int = 0) -> None:
        """One slope more, with the moments of the cells; those below 0 bound the chance of so
        little agreement, though the `missing` records had all agreed."""
        moments = self._sum(by_cell)
        level = self.agreed + (missing if slope < 0 else 0)
        self.exponents = np.maximum(self.exponents, slope * level - moments)
        if slope > 0:
            self.truth = np.maximum(self.truth, slope * self._level - moments)

    def name(self, group: int) -> str:
        figures = f"{self.agreed[group]:.0f} shown truly of {self.people[group]:.0f}"
        return f"{self._name(int(self.keys[group]))} ({figures}, {self.mean[group]:.1f} expected)"

    def tests(self, sides: int = 1) -> Tests:
        exponents, people = self.exponents - np.log(sides), self.people.astype(np.int64)
        return Tests(exponents, self.name, people, self.truth - np.log(sides))


def value_name(column: str, values: pa.Array) -> Callable[[int], str]:
    """How tests name the people with a value of a quasi-identifier, by its place."""
    return lambda place: f"{column} = {value_text(values[place].as_py())}"
