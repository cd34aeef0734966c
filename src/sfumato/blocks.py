"""Blocks of people who are alike: a tree of cuts on quasi columns, public like the columns.

The block of a record is a function of its quasi values and of nothing else, so every engine, every
audit and every reader of a release finds the same. A cut either asks whether a number lies below
an edge, a missing one lying below all, or whether a value is among some listed ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.columns import Value, value_text, value_to_json

if TYPE_CHECKING:
    import pyarrow as pa

IntArray = npt.NDArray[np.int64]

_REMEMBERED = 1 << 24  # combinations of codes, two bytes each
_NEAR = 1 << 12  # integers of a span that are looked at one by one


@dataclass(frozen=True)
class Cut:
    """Records below the edge, or with one of the values (as JSON has them), go to the first side.

    >>> str(Cut("age", below=38)), str(Cut("sex", values=("F",)))
    ('age below 38', "sex 'F'")
    """

    column: str
    below: int | float | None = None
    values: tuple[Value, ...] = ()

    def __str__(self) -> str:
        if self.below is not None:
            return f"{self.column} below {self.below:g}"
        return f"{self.column} {', '.join(value_text(value) for value in self.values)}"

    def to_json(self) -> dict[str, Any]:
        if self.below is not None:
            return {"column": self.column, "below": self.below}
        return {"column": self.column, "values": list(self.values)}

    @staticmethod
    def from_json(stated: Any) -> Cut:
        """Raises ValueError where it is not a cut."""
        if isinstance(stated, dict) and isinstance(stated.get("column"), str):
            below, values = stated.get("below"), stated.get("values")
            if values is None and isinstance(below, int | float) and _is_number(below):
                return Cut(stated["column"], below=below)
            scalar = (str, int, float, bool, type(None))
            listed = isinstance(values, list) and all(isinstance(v, scalar) for v in values)
            if listed and values and below is None:
                return Cut(stated["column"], values=tuple(values))
        raise ValueError("a cut needs a column, and either an edge 'below' or 'values'")


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
        by_number = {cut.column for cut in self.cuts if cut is not None and cut.below is not None}
        by_value = {cut.column for cut in self.cuts if cut is not None and cut.below is None}
        if by_number & by_value:
            raise ValueError("a column is cut by numbers and by values")

    @property
    def blocks(self) -> int:
        return sum(cut is None for cut in self.cuts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are cut, in the order of the tree."""
        return tuple(dict.fromkeys(cut.column for cut in self.cuts if cut is not None))

    @cached_property
    def _second(self) -> dict[int, int]:
        """Where the second side of every cut stands."""
        waiting, second = [], {}
        for index, cut in enumerate(self.cuts):
            if cut is not None:
                waiting.append(index)
            elif waiting:
                second[waiting.pop()] = index + 1
        return second

    @cached_property
    def _edges(self) -> Mapping[str, npt.NDArray[np.float64]]:
        """The edges of every column that is cut by numbers, ascending."""
        edges_by_column: dict[str, set[float]] = {}
        for cut in self.cuts:
            if cut is not None and cut.below is not None:
                edges_by_column.setdefault(cut.column, set()).add(float(cut.below))
        return {column: np.array(sorted(edges)) for column, edges in edges_by_column.items()}

    def numbers(self, records: pa.RecordBatch | pa.Table) -> IntArray:
        """The block of every record: O(columns) where its codes were met before, else O(depth)."""
        codes = self._codes(records)
        if self._known is None:
            return self.walk(records.num_rows, codes, self._firsts.__getitem__)
        key = np.zeros(records.num_rows, np.int64)
        for column, size in self._sizes.items():
            key *= size
            key += codes[column]
        leaves = self._known.take(key)  # the block and one more; 0 where nobody asked yet
        asked = np.flatnonzero(leaves == 0)
        if asked.size:
            fresh = np.unique(key[asked])
            parts = np.unravel_index(fresh, tuple(self._sizes.values()))
            blocks = self.walk(
                len(fresh), dict(zip(self._sizes, parts, strict=True)), self._firsts.__getitem__
            )
            self._known[fresh] = blocks + 1
            leaves[asked] = self._known.take(key[asked])
        return leaves.astype(np.int64) - 1

    @cached_property
    def _sizes(self) -> Mapping[str, int]:
        """How many codes every column has."""
        many = {column: len(edges) + 1 for column, edges in self._edges.items()}
        many |= {column: len(named) + 1 for column, named in self._named.items()}
        return {column: many[column] for column in self.columns}

    @cached_property
    def _known(self) -> npt.NDArray[np.uint16] | None:
        """By the codes of all columns: the block and one more, as far as it was asked for.

        Millions of records have the same few hundred thousand combinations. None where a table of
        all combinations would be too large.
        """
        every = math.prod(self._sizes.values())
        fits = self._sizes and every <= _REMEMBERED and self.blocks < 1 << 16
        return np.zeros(every, np.uint16) if fits else None

    def __getstate__(self) -> dict[str, Any]:
        """The cuts alone: whoever asks elsewhere finds the rest anew."""
        return {"cuts": self.cuts}

    def _codes(self, records: pa.RecordBatch | pa.Table) -> dict[str, npt.NDArray[Any]]:
        """For every column which of its edges a record has reached, or which named value it has."""
        codes: dict[str, npt.NDArray[Any]] = {}
        for column in self.columns:
            array = records.column(column)
            if column in self._edges:
                # how many edges a number has reached
                codes[column] = reached(self._edges[column], array)
            else:
                named = self._named[column]
                rows, values = as_codes(array)
                value_codes = [named.get(value, len(named)) for value in values]
                codes[column] = np.array(value_codes, np.min_scalar_type(len(named)))[rows]
        return codes

    @cached_property
    def _named(self) -> Mapping[str, Mapping[Value, int]]:
        """The values that cuts of a column name, numbered; all others are one more."""
        named: dict[str, dict[Value, int]] = {}
        for cut in self.cuts:
            if cut is not None and cut.below is None:
                of_column = named.setdefault(cut.column, {})
                for value in cut.values:
                    of_column.setdefault(value, len(of_column))
        return named

    @cached_property
    def _firsts(self) -> Mapping[Cut, npt.NDArray[np.bool_]]:
        """Of every cut: which codes of its column go to its first side."""
        firsts = {}
        for cut in self.cuts:
            if cut is None:
                continue
            if cut.below is not None:
                edges = self._edges[cut.column]
                below = np.arange(len(edges) + 1) <= np.searchsorted(edges, float(cut.below))
                firsts[cut] = below
            else:
                inside, named = set(cut.values), self._named[cut.column]
                firsts[cut] = np.array([*(value in inside for value in named), False])
        return firsts

    def walk(
        self,
        records: int,
        codes: Mapping[str, npt.NDArray[Any]],
        first: Callable[[Cut], npt.NDArray[np.bool_]],
    ) -> IntArray:
        """The block of every record; `first` says which codes of its column a cut takes first."""
        leaf_of_record = np.zeros(records, np.int64)
        waiting = [(0, np.arange(records, dtype=np.int32))]
        block = {leave: n for n, leave in enumerate(self._leaves)}
        while waiting:
            node, rows = waiting.pop()
            if not rows.size:
                continue
            cut = self.cuts[node]
            if cut is None:
                leaf_of_record[rows] = block[node]
                continue
            inside = first(cut)[codes[cut.column][rows]]
            waiting += [(self._second[node], rows[~inside]), (node + 1, rows[inside])]
        return leaf_of_record

    @cached_property
    def _leaves(self) -> list[int]:
        return [index for index, cut in enumerate(self.cuts) if cut is None]

    def to_json(self, blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The cuts, and in the place of each block what is to be said of it."""
        numbers = iter(blocks)
        return [dict(next(numbers)) if cut is None else cut.to_json() for cut in self.cuts]

    @staticmethod
    def from_json(stated: Any) -> tuple[BlockTree, list[dict[str, Any]]]:
        """The tree, and what is said of its blocks. Raises ValueError where it is no tree."""
        if not isinstance(stated, list) or not all(isinstance(node, dict) for node in stated):
            raise ValueError("blocks are a list of cuts and blocks")
        cuts = tuple(Cut.from_json(node) if "column" in node else None for node in stated)
        return BlockTree(cuts), [node for node in stated if "column" not in node]


def as_numbers(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """Numbers as cuts compare them: missing ones below all others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = np.asarray(
        pc.fill_null(pc.cast(array, pa.float64(), safe=False), -math.inf).to_numpy(), np.float64
    )
    return np.where(np.isnan(numbers), -math.inf, numbers)


def reached(edges: npt.NDArray[np.float64], array: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """How many of the ascending edges every number has reached.

    >>> import pyarrow as pa
    >>> reached(np.array([2.0, 7.0]), pa.array([7, 1, 2])).tolist()
    [2, 0, 1]
    """
    kind = np.min_scalar_type(len(edges))
    near = near_integers(array)
    if near is None:
        return np.searchsorted(edges, as_numbers(array), side="right").astype(kind)
    values, places = near
    return np.searchsorted(edges, values, side="right").astype(kind)[places]


def near_integers(
    array: pa.Array | pa.ChunkedArray,
) -> tuple[npt.NDArray[np.float64], IntArray] | None:
    """All integers of the span that an array has, as numbers, and the place of each in it.

    Ages and years are few, so what is asked of them is answered once for each of them. None where
    they are no integers, some are missing, or the span is long.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_integer(array.type) or array.null_count or not len(array):
        return None
    low, high = (int(end.as_py()) for end in pc.min_max(array).values())
    if high - low >= _NEAR or max(-low, high) >= 1 << 62:
        return None
    places = array.to_numpy().astype(np.int64)
    places -= low
    return np.arange(low, high + 1).astype(np.float64), places


def as_codes(array: pa.Array | pa.ChunkedArray) -> tuple[IntArray, list[Value]]:
    """The values of a batch as JSON has them, and which of them every record has."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not pa.types.is_dictionary(array.type):
        array = pc.dictionary_encode(array)
    values = _json_values(array.dictionary.to_pylist())
    indices = pc.fill_null(array.indices, len(values)).to_numpy()
    return np.asarray(indices, np.int64), [*values, None]


def _is_number(stated: int | float) -> bool:
    return not isinstance(stated, bool) and abs(stated) <= 1.7e308  # not "inf", nor too large


def _json_values(values: Iterable[Value]) -> list[Value]:
    return [value_to_json(value) for value in values]
