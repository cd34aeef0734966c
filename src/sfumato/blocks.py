"""Blocks of people who are alike: a tree of cuts on quasi columns, public like the columns.

The block of a record is a function of its quasi values and of nothing else, so every engine, every
audit and every reader of a release finds the same. A cut either asks whether a number lies below
an edge, a missing one lying below all, or whether a value is among some listed ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import MsgspecError, convert

from sfumato.columns import ManifestPart, Stated, Value, in_json, value_text, value_to_json
from sfumato.permutations import IntArray

if TYPE_CHECKING:
    import pyarrow as pa


class Cut(ManifestPart, frozen=True, omit_defaults=True):
    """Records below the edge, or with one of the values (as JSON has them), go to the first side.

    >>> str(Cut("age", below=38)), str(Cut("sex", values=("F",)))
    ('age below 38', "sex 'F'")
    """

    column: str
    below: int | float | None = None
    values: tuple[Stated, ...] = ()

    def __post_init__(self) -> None:
        if (self.below is None) != bool(self.values) or abs(self.below or 0) > 1.7e308:
            raise ValueError("a cut needs a column, and either an edge 'below' or 'values'")

    def __str__(self) -> str:
        if self.below is not None:
            return f"{self.column} below {self.below:g}"
        return f"{self.column} {', '.join(value_text(value) for value in self.values)}"


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """A quasi column in few bins: numbers by `edges`, other values one by one.

    Bin i of numbers reaches from edge i − 1 to below edge i, a missing one stands in bin 0; bin i
    of values is `values[i]`, as JSON has it, and the bin after the last everything else.
    """

    column: str
    edges: tuple[float, ...] = ()
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
            return np.arange(self.number) <= self.edges.index(float(cut.below))
        inside = set(cut.values)
        return np.array([*(value in inside for value in self.values or ()), False])

    def _of_values(self, values: pa.Array) -> IntArray:
        """The bin of every value, and of a missing one after them."""
        if self.values is None:
            numbers = np.append(as_numbers(values), -math.inf)
            return np.searchsorted(np.array(self.edges), numbers, side="right")
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
        if len(self.bins) != len(self.columns):
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
        edges: dict[str, set[float]] = {}
        values: dict[str, dict[Value, None]] = {}
        for cut in filter(None, self.cuts):
            if cut.below is not None:
                edges.setdefault(cut.column, set()).add(float(cut.below))
            else:
                values.setdefault(cut.column, {}).update(dict.fromkeys(cut.values))
        by_number = (ColumnBins(name, edges=tuple(sorted(cut))) for name, cut in edges.items())
        by_value = (ColumnBins(name, values=tuple(named)) for name, named in values.items())
        return *by_number, *by_value

    def numbers(self, records: pa.RecordBatch | pa.Table) -> IntArray:
        """The block of every record. O(depth) each."""
        bins = {column.column: column for column in self.bins}
        codes = {name: column.of(records.column(name)) for name, column in bins.items()}
        block_of_record = np.zeros(records.num_rows, np.int64)
        waiting, block = [np.arange(records.num_rows, dtype=np.int32)], 0
        for cut in self.cuts:  # first sides come before second ones
            rows = waiting.pop()
            if cut is None:
                block_of_record[rows] = block
                block += 1
            else:
                inside = bins[cut.column].first(cut)[codes[cut.column].take(rows)]
                waiting += [rows[~inside], rows[inside]]
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
    """Numbers as cuts compare them: missing ones below all others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = np.asarray(
        pc.fill_null(pc.cast(array, pa.float64(), safe=False), -math.inf).to_numpy(), np.float64
    )
    return np.where(np.isnan(numbers), -math.inf, numbers)
