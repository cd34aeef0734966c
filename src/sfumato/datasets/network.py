"""A made-up population: columns drawn one after the other, each given some earlier ones.

A column's distribution is a table of shares, one row for every combination of its parents' groups
(a Bayesian network). `rake` bends such a table so that the column's overall shares are the wanted
ones, however strongly it depends on its parents.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.datasets.alias import AliasTable, Codes, FloatArray, Offsets
from sfumato.draws import Draws, IntArray, Positions

if TYPE_CHECKING:
    import pyarrow as pa

_CHUNK = 1 << 15  # rows per inner step: temporaries stay in the second-level cache
_RAKING_STEPS = 400  # a fixed number, so that the tables never depend on a stopping rule


def listed(name: str) -> Any:
    """A list of data that comes with the package."""
    return json.loads(
        resources.files("sfumato.datasets").joinpath(f"{name}.json").read_text("utf-8")
    )


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
    values: tuple[str, ...] | tuple[int, ...]
    shares: FloatArray
    parents: tuple[Parent, ...] = ()
    integers: str = ""

    def __post_init__(self) -> None:
        wanted = (*(parent.size for parent in self.parents), len(self.values))
        assert self.shares.shape == wanted, (self.name, self.shares.shape, wanted)

    @cached_property
    def table(self) -> AliasTable:
        return AliasTable.from_shares(self.shares.reshape(-1, len(self.values)))

    @cached_property
    def offsets(self) -> tuple[Offsets, ...]:
        """For each parent: value code → its part of the row's place in the alias table."""
        stride = self.table.slots
        parts: list[Offsets] = []
        for parent in reversed(self.parents):
            parts.insert(0, (parent.groups * stride).astype(np.intp))
            stride *= parent.size
        return tuple(parts)

    def _places(self, codes: dict[str, Codes], rows: slice) -> Offsets:
        position = np.zeros(rows.stop - rows.start, np.intp)
        for parent, offset in zip(self.parents, self.offsets, strict=True):
            position += offset.take(codes[parent.column][rows])
        return position

    def draw(self, draws: Draws, start: int, codes: dict[str, Codes], rows: slice) -> IntArray:
        """Codes for the records `start … ` of the stream, which lie in `rows` of `codes`."""
        words = draws.words(self.name, Positions(start, rows.stop - rows.start))
        return self.table.pick(words, self._places(codes, rows))

    def arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        if self.integers:
            return pa.type_for_alias(self.integers)
        return pa.dictionary(pa.int32(), pa.string())

    @cached_property
    def dictionary(self) -> pa.Array:
        import pyarrow as pa

        return pa.array(self.values, pa.type_for_alias(self.integers or "string"))

    def arrow(self, codes: Codes) -> pa.Array:
        import pyarrow as pa

        if self.integers:
            return pa.array(np.asarray(self.values, self.integers)[codes])
        return pa.DictionaryArray.from_arrays(pa.array(codes), self.dictionary, safe=False)


@dataclass(frozen=True)
class Network:
    """Columns in the order in which they are drawn, and the order in which they are written."""

    name: str
    columns: tuple[NetworkColumn, ...]
    order: tuple[str, ...]

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

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([(name, self.column(name).arrow_type()) for name in self.order])

    def batch(self, draws: Draws, start: int, count: int) -> pa.RecordBatch:
        import pyarrow as pa

        codes = self.codes(draws, start, count)
        arrays = [self.column(name).arrow(codes[name]) for name in self.order]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema())


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


def bands(values: range, edges: tuple[int, ...]) -> IntArray:
    """The band of each value: band 0 lies below the first edge, and an edge opens its band.

    >>> bands(range(0, 6), (2, 5)).tolist()
    [0, 0, 1, 1, 1, 2]
    """
    return np.searchsorted(np.asarray(edges), np.arange(values.start, values.stop), side="right")


def band_masses(shares: FloatArray, groups: IntArray) -> FloatArray:
    """Share of each band, from the shares of the values."""
    return np.bincount(groups, weights=shares).astype(np.float64)
