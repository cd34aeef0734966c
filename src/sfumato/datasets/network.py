"""A made-up population: columns drawn one after the other, each given some earlier ones.

A column's distribution is a table of shares, one row for every combination of its parents' groups
(a Bayesian network). A data file states the weights behind it, factor by factor; `rake` bends their
product so that the column's overall shares are the wanted ones, however strongly it depends on its
parents. All figures are invented but for the census's margins of occupation and education, which
are those of the papers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.draws import Draws, IntArray, Positions

FloatArray = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]

PATIENT = "patient"
_CHUNK = 1 << 15  # rows per inner step: temporaries stay in the second-level cache
_RAKING_STEPS = 400  # a fixed number, so that the tables never depend on a stopping rule
_ONCE = 90  # patients of one stay in a cycle
_GOLDEN = 0.6180339887498949  # its multiples, modulo 1, are spread evenly: an order without draws


@dataclass(frozen=True)
class Parent:
    """An earlier column, and the group that each of its values counts as."""

    column: str
    groups: IntArray

    @property
    def size(self) -> int:
        return int(self.groups.max()) + 1


@dataclass(frozen=True)
class NetworkColumn:
    """One column: its values, and its shares given each combination of its parents' groups.

    `shares` has the shape (groups of the first parent, …, groups of the last, values). Numbers
    are stored as `integers` ("int8", "int16"); other values are texts, dictionary coded.
    """

    name: str
    values: Sequence[Any]
    shares: FloatArray
    parents: tuple[Parent, ...] = ()
    integers: str = ""

    @classmethod
    def of(
        cls, described: Mapping[str, Any], earlier: Mapping[str, NetworkColumn]
    ) -> NetworkColumn:
        """The column of a data file: `parents` are cut at edges, each of the `weights` depends on
        one of them, and `overall` are the shares that the column has in the whole table."""
        parents = tuple(
            Parent(name, _groups(earlier[name].values, edges))
            for name, edges in described.get("parents", {}).items()
        )
        values, axes = described["values"], [parent.column for parent in parents]
        tilt: Any = 1.0
        for factor in described["weights"]:
            shape = [p.size if p.column in factor["by"] else 1 for p in parents]
            tilt = tilt * np.array(factor["each"], np.float64).reshape(*shape, len(values))
        if "overall" in described:
            # how many there are of each combination of parents: each given those before it
            given = (part for p in parents for part in _given(p, earlier, axes))
            cells = np.einsum(*given, range(len(axes)))
            shares = rake(tilt, cells, np.array(described["overall"]))
        else:
            shares = shares_of(tilt)
        return cls(described["name"], values, shares, parents, described.get("integers", ""))

    @cached_property
    def ends(self) -> FloatArray:
        """Where each value's part of a row ends, row n from n to n + 1, one after the other.

        >>> NetworkColumn("x", ("a", "b"), np.array([[0.25, 0.75], [1, 0]]),
        ...               (Parent("y", np.arange(2)),)).ends.tolist()
        [0.25, 1.0, 2.0, 2.0]
        """
        ends = np.cumsum(self.shares.reshape(-1, len(self.values)), axis=1)
        ends /= ends[:, -1:]  # exactly 1 from the last value on that occurs
        return np.asarray((ends + np.arange(len(ends))[:, None]).reshape(-1))

    def draw(self, draws: Draws, start: int, codes: dict[str, Codes], rows: slice) -> IntArray:
        """Codes for the records `start … ` of the stream, which lie in `rows` of `codes`."""
        row = np.zeros(rows.stop - rows.start, np.int64)
        for parent in self.parents:
            row = row * parent.size + parent.groups.take(codes[parent.column][rows])
        words = draws.words(self.name, Positions(start, len(row)))
        shares = (words >> np.uint64(20)) * 2.0**-44  # as fine as sums with a row's number are
        place = np.searchsorted(self.ends, row + shares, side="right")
        return np.asarray(place - row * len(self.values), np.int64)

    def arrow(self, codes: Codes) -> pa.Array:
        if self.integers:
            return pa.array(np.asarray(self.values, self.integers)[codes])
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(self.values))


@dataclass(frozen=True)
class Network:
    """Columns in the order in which they are drawn, and the order in which they are written."""

    name: str
    columns: tuple[NetworkColumn, ...]
    order: tuple[str, ...]

    @staticmethod
    @cache
    def named(name: str) -> Network:
        """The population of a data file; made once."""
        file = resources.files("sfumato.datasets").joinpath(f"{name}.json")
        described, columns = json.loads(file.read_text("utf-8")), dict[str, NetworkColumn]()
        for column in described["columns"]:
            columns[column["name"]] = NetworkColumn.of(column, columns)
        return Network(name, tuple(columns.values()), tuple(described["order"]))

    def column(self, name: str) -> NetworkColumn:
        return next(column for column in self.columns if column.name == name)

    def codes(self, draws: Draws, start: int, count: int) -> dict[str, Codes]:
        """Value codes of the records `start … start+count-1`: the same however they are cut."""
        stream = draws.child("dataset " + self.name)
        codes: dict[str, Codes] = {c.name: np.empty(count, np.int32) for c in self.columns}
        for low in range(0, count, _CHUNK):
            rows = slice(low, min(low + _CHUNK, count))
            for column in self.columns:
                codes[column.name][rows] = column.draw(stream, start + low, codes, rows)
        return codes

    def batch(self, draws: Draws, start: int, count: int) -> pa.RecordBatch:
        codes = self.codes(draws, start, count)
        arrays = [self.column(name).arrow(codes[name]) for name in self.order]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.order))


@dataclass(frozen=True)
class Patients(Network):
    """The stays of a hospital's network, of patients who have at most `stays` each.

    A patient keeps age, sex and region, and half of the stays are for the same illness. How many
    stays patients have is a fixed cycle, in which n stays are n^1.5 times as rare as one, so that
    a longer table begins with the shorter one.
    """

    stays: int = 20
    kept: tuple[str, ...] = ("age", "sex", "region")

    @cached_property
    def _ends(self) -> IntArray:
        """Rows up to the end of each patient of a cycle."""
        numbers = np.arange(1, self.stays + 1)
        sizes = np.repeat(numbers, np.maximum(1, np.rint(_ONCE / numbers**1.5).astype(np.int64)))
        return np.cumsum(sizes[np.argsort(np.arange(len(sizes)) * _GOLDEN % 1.0)])

    def patients(self, start: int, count: int) -> IntArray:
        """Whose stay each of these rows is.

        >>> Patients("hospital", (), (), stays=20).patients(0, 8).tolist()
        [0, 1, 2, 2, 2, 2, 2, 2]
        """
        cycle, remainder = np.divmod(np.arange(start, start + count), self._ends[-1])
        return np.asarray(
            cycle * len(self._ends) + np.searchsorted(self._ends, remainder, side="right")
        )

    def codes(self, draws: Draws, start: int, count: int) -> dict[str, Codes]:
        whose = self.patients(start, max(count, 1))
        first, rows = int(whose[0]), slice(0, count)
        person = super().codes(draws.child("patients"), first, int(whose[-1]) - first + 1)
        whose = whose[rows] - first
        codes: dict[str, Codes] = {name: person[name][whose] for name in self.kept}
        stream = draws.child("dataset " + self.name)
        for column in self.columns:
            if column.name not in self.kept:
                codes[column.name] = column.draw(stream, start, codes, rows).astype(np.int32)
        again = stream.bernoulli("again", Positions(start, count), Fraction(1, 2))
        for name in set(codes) - set(self.kept):
            codes[name] = np.where(again, person[name][whose], codes[name])
        return codes

    def batch(self, draws: Draws, start: int, count: int) -> pa.RecordBatch:
        columns = super().batch(draws, start, count).columns
        whose = pa.array(self.patients(start, count))
        return pa.RecordBatch.from_arrays([whose, *columns], names=[PATIENT, *self.order])


def _groups(values: Sequence[Any], edges: Sequence[int] | None) -> IntArray:
    """The group of each value: 0 below the first edge, an edge opens its group; else its own.

    >>> _groups(range(0, 6), (2, 5)).tolist()
    [0, 0, 1, 1, 1, 2]
    """
    if edges is None:
        return np.arange(len(values))
    return np.searchsorted(np.asarray(edges), np.asarray(values), side="right")


def _given(parent: Parent, earlier: Mapping[str, NetworkColumn], axes: list[str]) -> list[Any]:
    """The shares of a parent's groups given its own parents, and whose axes they have."""
    column = earlier[parent.column]
    grouped = np.apply_along_axis(lambda row: np.bincount(parent.groups, row), -1, column.shares)
    names = (*(above.column for above in column.parents), column.name)
    return [grouped, [axes.index(name) for name in names]]


def rake(tilt: FloatArray, cells: FloatArray, wanted: FloatArray) -> FloatArray:
    """Shares by cell, as like `tilt` as can be, whose average over `cells` is `wanted`.

    Iterative proportional fitting of the joint table to both margins; a zero in `tilt` stays a
    zero. `tilt` has the shape of `cells` with one axis more. Cells that hold nobody get equal
    shares.

    >>> tilt, cells = np.array([[1.0, 1.0], [1.0, 9.0]]), np.array([0.5, 0.5])
    >>> shares = rake(tilt, cells, np.array([0.5, 0.5]))
    >>> shares.round(3).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    mass = cells.reshape(-1) / cells.sum()
    target = wanted / wanted.sum()
    joint = tilt.reshape(len(mass), -1) * mass[:, None]
    filled = mass > 0
    for _ in range(_RAKING_STEPS):
        joint *= target / joint.sum(axis=0)
        joint[filled] *= (mass[filled] / joint[filled].sum(axis=1))[:, None]
    assert np.abs(joint.sum(axis=0) - target).max() < 1e-9, "the wanted shares cannot be reached"
    shares = np.full(joint.shape, 1.0 / len(target))
    shares[filled] = joint[filled] / mass[filled, None]
    return shares.reshape(tilt.shape)


def shares_of(weights: FloatArray) -> FloatArray:
    """Weights scaled so that the last axis adds up to 1."""
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))
