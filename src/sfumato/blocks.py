"""Blocks of people who are alike: a tree of cuts on quasi columns, public like the columns.

The block of a record is a function of its quasi values and of nothing else, so every engine, every
audit and every reader of a release finds the same. A cut either asks whether a number, a date or an
interval lies below an edge, a missing one lying below all, or whether a value is among some listed
ones.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import MsgspecError, convert

from sfumato.columns import Column, ManifestPart, Stated, Value, in_json, value_text, value_to_json
from sfumato.permutations import IntArray

if TYPE_CHECKING:
    import pyarrow as pa


Edge = int | float | str  # a number, or a date or time as JSON has it


class Cut(ManifestPart, frozen=True, omit_defaults=True):
    """Records below the edge, or with one of the values (as JSON has them), go to the first side.

    >>> str(Cut("age", below=38)), str(Cut("sex", values=("F",)))
    ('age below 38', "sex 'F'")
    """

    column: str
    below: Edge | None = None
    values: tuple[Stated, ...] = ()

    def __post_init__(self) -> None:
        no_number = not isinstance(self.below, str) and abs(self.below or 0) > 1.7e308
        if (self.below is None) != bool(self.values) or no_number:
            raise ValueError("a cut needs a column, and either an edge 'below' or 'values'")
        if isinstance(self.below, str):
            _moment(self.below)

    def fits(self, column: Column) -> bool:
        """Whether a column has what this cut asks for."""
        if not isinstance(self.below, str):
            return self.below is None or column.kind == "numeric" or column.bins is not None
        is_time = isinstance(_moment(self.below), datetime.time)
        return column.type.startswith(("time32", "time64") if is_time else ("date", "timestamp"))

    def __str__(self) -> str:
        if self.below is not None:
            edge = self.below if isinstance(self.below, str) else f"{self.below:g}"
            return f"{self.column} below {edge}"
        return f"{self.column} {', '.join(value_text(value) for value in self.values)}"


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """A quasi column in few bins: what has an order by `edges`, other values one by one.

    Bin i of numbers reaches from edge i − 1 to below edge i, a missing one stands in bin 0; bin i
    of values is `values[i]`, as JSON has it, and the bin after the last everything else.
    """

    column: str
    edges: tuple[Edge, ...] = ()
    values: tuple[Value, ...] | None = None

    @property
    def number(self) -> int:
        return len(self.edges) + 1 if self.values is None else len(self.values) + 1

    def of(self, array: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
        """The bin of every record: different values are looked at once.

        >>> import pyarrow as pa
        >>> ColumnBins("age", edges=(2.0, 7.0)).of(pa.array([7, 1, None, 2])).tolist()
        [2, 0, 0, 1]
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if not pa.types.is_dictionary(array.type):
            array = pc.dictionary_encode(array)
        bins = self._of_values(array.dictionary)
        indices = pc.fill_null(array.indices, len(bins) - 1).to_numpy()
        return np.asarray(bins.astype(np.min_scalar_type(self.number)).take(indices))

    def first(self, cut: Cut) -> npt.NDArray[np.bool_]:
        """Which bins go to the first side of a cut, whose edge or values are among these."""
        if cut.below is not None:
            return np.arange(self.number) <= self.edges.index(cut.below)
        inside = set(cut.values)
        return np.array([*(value in inside for value in self.values or ()), False])

    def _of_values(self, values: pa.Array) -> IntArray:
        """The bin of every value, and of a missing one after them."""
        if self.values is None:
            numbers = np.append(as_numbers(values), -math.inf)
            return np.searchsorted(edge_numbers(self.edges, values.type), numbers, side="right")
        bin_of = {value: n for n, value in enumerate(self.values)}
        others = len(bin_of)
        shown = [*map(value_to_json, values.to_pylist()), None]
        return np.array([bin_of.get(value, others) for value in shown])


@dataclass(frozen=True)
class BlockTree:
    """`cuts` in the order of their branches, None for a block: first sides stand before second.

    >>> import pyarrow as pa
    >>> tree = BlockTree((Cut("age", below=38), None, Cut("sex", values=("F",)), None, None))
    >>> people = pa.table({"age": [20, 50, None, 38], "sex": ["M", "F", "F", "M"]})
    >>> tree.numbers(people).tolist(), tree.blocks
    ([0, 1, 0, 2], 3)
    """

    cuts: tuple[Cut | None, ...] = (None,)

    def __post_init__(self) -> None:
        sides = np.cumsum([1] + [-1 if cut is None else 1 for cut in self.cuts])  # still to come
        if sides[-1] != 0 or not sides[:-1].all():
            raise ValueError("the cuts and blocks of a tree do not fit together")
        kinds = {
            (cut.column, bool(cut.values), isinstance(cut.below, str)) for cut in self.cuts if cut
        }
        if len(kinds) != len(self.columns):
            raise ValueError("a column is cut by numbers and by values")

    @property
    def blocks(self) -> int:
        return sum(cut is None for cut in self.cuts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are cut, in the order of the tree."""
        return tuple(dict.fromkeys(cut.column for cut in self.cuts if cut is not None))

    @cached_property
    def bins(self) -> tuple[ColumnBins, ...]:
        """The columns that are cut, by all edges or values that their cuts name."""
        edges: dict[str, set[Edge]] = {}
        values: dict[str, dict[Value, None]] = {}
        for cut in filter(None, self.cuts):
            if cut.below is not None:
                edges.setdefault(cut.column, set()).add(cut.below)
            else:
                values.setdefault(cut.column, {}).update(dict.fromkeys(cut.values))
        by_number = (ColumnBins(name, edges=tuple(sorted(cut))) for name, cut in edges.items())
        by_value = (ColumnBins(name, values=tuple(named)) for name, named in values.items())
        return *by_number, *by_value

    @cached_property
    def _first_sides(self) -> list[tuple[Cut | None, npt.NDArray[np.bool_]]]:
        """The cuts, and which bins go to their first sides."""
        bins = {column.column: column for column in self.bins}
        nothing = np.empty(0, np.bool_)
        return [(cut, bins[cut.column].first(cut) if cut else nothing) for cut in self.cuts]

    def numbers(self, records: pa.RecordBatch | pa.Table) -> IntArray:
        """The block of every record. O(depth) each."""
        codes = {bins.column: bins.of(records.column(bins.column)) for bins in self.bins}
        block_of_record = np.zeros(records.num_rows, np.int64)
        waiting, block = [np.arange(records.num_rows)], 0
        for cut, first in self._first_sides:  # these come before second ones
            rows = waiting.pop()
            if cut is None:
                block_of_record[rows] = block
                block += 1
            else:
                inside = first.take(codes[cut.column].take(rows))
                waiting += [rows.compress(side) for side in (~inside, inside)]
        return block_of_record

    def to_json(self, blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The cuts, and in the place of each block what is to be said of it."""
        numbers = iter(blocks)
        return [dict(next(numbers)) if cut is None else in_json(cut) for cut in self.cuts]

    @staticmethod
    def from_json(stated: Any) -> tuple[BlockTree, list[dict[str, Any]]]:
        """The tree, and what is said of its blocks. Raises ValueError where it is no tree."""
        try:
            nodes = convert(stated, list[dict[str, Any]])
            cuts = tuple(convert(node, Cut) if "column" in node else None for node in nodes)
        except MsgspecError as error:
            raise ValueError(f"they are no list of cuts and blocks: {error}") from None
        return BlockTree(cuts), [node for node in nodes if "column" not in node]


def as_numbers(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """Numbers as cuts compare them, missing ones below all others: of dates and times microseconds,
    of intervals their lower end.

    >>> import pyarrow as pa
    >>> as_numbers(pa.array(["[18, 65)", None, "(-inf, 18)"])).tolist()
    [18.0, -inf, -inf]
    >>> as_numbers(pa.array([7.5, None, float("nan")])).tolist()
    [7.5, -inf, -inf]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return np.array([_lower_end(text) for text in array.to_pylist()], np.float64)
    if pa.types.is_time(array.type):
        array = pc.cast(array, pa.time64("us"), safe=False).cast(pa.int64())
    elif pa.types.is_temporal(array.type):
        array = pc.cast(array, pa.timestamp("us"), safe=False).cast(pa.int64())
    numbers = np.asarray(
        pc.fill_null(pc.cast(array, pa.float64(), safe=False), -math.inf).to_numpy(), np.float64
    )
    return np.where(np.isnan(numbers), -math.inf, numbers)


def edge_numbers(edges: Sequence[Edge], kind: pa.DataType) -> npt.NDArray[np.float64]:
    """The edges of a column of this type as cuts compare them."""
    import pyarrow as pa

    if not any(isinstance(edge, str) for edge in edges):
        return np.array(edges, np.float64)
    return as_numbers(pa.array([_moment(str(edge)) for edge in edges]).cast(kind, safe=False))


def _lower_end(text: str | None) -> float:
    try:
        return float((text or "")[1:].partition(",")[0])
    except ValueError:
        return -math.inf


def _moment(text: str) -> datetime.date | datetime.time:
    """A date, a time or both, as JSON has them."""
    for kind in (datetime.date, datetime.datetime, datetime.time):
        try:
            return kind.fromisoformat(text)
        except ValueError:
            continue
    raise ValueError(f"{text!r} is neither a number nor a date or time")
