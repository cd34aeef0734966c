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
        waiting, found = [], {}
        for place, cut in enumerate(self.cuts):
            if cut is not None:
                waiting.append(place)
            elif waiting:
                found[waiting.pop()] = place + 1
        return found

    @cached_property
    def _edges(self) -> Mapping[str, npt.NDArray[np.float64]]:
        """The edges of every column that is cut by numbers, ascending."""
        found: dict[str, set[float]] = {}
        for cut in self.cuts:
            if cut is not None and cut.below is not None:
                found.setdefault(cut.column, set()).add(float(cut.below))
        return {column: np.array(sorted(edges)) for column, edges in found.items()}

    def numbers(self, records: pa.RecordBatch | pa.Table) -> IntArray:
        """The block of every record. O(records · depth)."""
        codes: dict[str, npt.NDArray[Any]] = {}
        for column in self.columns:
            array = records.column(column)
            if column in self._edges:
                # how many edges a number has reached
                edges = self._edges[column]
                reached = np.searchsorted(edges, as_numbers(array), side="right")
                codes[column] = reached.astype(np.min_scalar_type(len(edges)))
            else:
                named = self._named[column]
                rows, values = as_codes(array)
                place = [named.get(value, len(named)) for value in values]
                codes[column] = np.array(place, np.min_scalar_type(len(named)))[rows]
        return self.walk(records.num_rows, codes, self._firsts.__getitem__)

    @cached_property
    def _named(self) -> Mapping[str, Mapping[Value, int]]:
        """The values that cuts of a column name, numbered; all others are one more."""
        found: dict[str, dict[Value, int]] = {}
        for cut in self.cuts:
            if cut is not None and cut.below is None:
                own = found.setdefault(cut.column, {})
                for value in cut.values:
                    own.setdefault(value, len(own))
        return found

    @cached_property
    def _firsts(self) -> Mapping[Cut, npt.NDArray[np.bool_]]:
        """Of every cut: which codes of its column go to its first side."""
        found = {}
        for cut in self.cuts:
            if cut is None:
                continue
            if cut.below is not None:
                edges = self._edges[cut.column]
                below = np.arange(len(edges) + 1) <= np.searchsorted(edges, float(cut.below))
                found[cut] = below
            else:
                inside, named = set(cut.values), self._named[cut.column]
                found[cut] = np.array([*(value in inside for value in named), False])
        return found

    def walk(
        self,
        records: int,
        codes: Mapping[str, npt.NDArray[Any]],
        first: Callable[[Cut], npt.NDArray[np.bool_]],
    ) -> IntArray:
        """The block of every record; `first` says which codes of its column a cut takes first."""
        found = np.zeros(records, np.int64)
        waiting = [(0, np.arange(records, dtype=np.int32))]
        block = {place: n for n, place in enumerate(self._leaves)}
        while waiting:
            place, rows = waiting.pop()
            cut = self.cuts[place]
            if cut is None:
                found[rows] = block[place]
                continue
            inside = first(cut)[codes[cut.column][rows]]
            waiting += [(self._second[place], rows[~inside]), (place + 1, rows[inside])]
        return found

    @cached_property
    def _leaves(self) -> list[int]:
        return [place for place, cut in enumerate(self.cuts) if cut is None]

    def to_json(self, blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The cuts, and in the place of each block what is to be said of it."""
        told = iter(blocks)
        return [dict(next(told)) if cut is None else cut.to_json() for cut in self.cuts]

    @staticmethod
    def from_json(stated: Any) -> tuple[BlockTree, list[dict[str, Any]]]:
        """The tree, and what is said of its blocks. Raises ValueError where it is no tree."""
        if not isinstance(stated, list) or not all(isinstance(each, dict) for each in stated):
            raise ValueError("blocks are a list of cuts and blocks")
        cuts = tuple(Cut.from_json(each) if "column" in each else None for each in stated)
        return BlockTree(cuts), [each for each in stated if "column" not in each]


def as_numbers(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """Numbers as cuts compare them: missing ones below all others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = np.asarray(
        pc.fill_null(pc.cast(array, pa.float64(), safe=False), -math.inf).to_numpy(), np.float64
    )
    return np.where(np.isnan(numbers), -math.inf, numbers)


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
