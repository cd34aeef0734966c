"""What came back from the two statements of a question, as arrays: classes, and values.

A *class* is the records with the same quasi keys and the same profile. A *form* is the values of a
profile that have the same remaining keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Forms, Statistic

if TYPE_CHECKING:
    from sfumato.queries.question_plan import Planned, QuestionPlan


class ByValue:
    """The table of `QuestionPlan.read_cells` as arrays by (profile, value …)."""

    def __init__(self, shape: tuple[int, ...], table: pa.Table) -> None:
        self._shape, self.table = shape, table
        values = [_places(table, f"x{n}") for n in range(len(shape) - 1)]
        profile = (
            _places(table, "profile")
            if "profile" in table.column_names
            else np.zeros(len(table), np.int64)
        )
        self._at = profile, *values
        keys = [name for name in table.column_names if name.startswith("k")]
        self.key, self.first_of_key = numbered([table.column(name) for name in keys], len(table))
        self._values: dict[tuple[str | None, str | None], tuple[FloatArray, BoolArray]] = {}

    @cached_property
    def forms(self) -> tuple[IntArray, IntArray, IntArray]:
        """The form of every (profile, value …), the first of each profile, and the key of each."""
        keys = max(len(self.first_of_key), 1)
        distinct, form = different(self._at[0] * keys + self.key)
        cells = np.full(self._shape, -1)
        cells[self._at] = form
        first = np.searchsorted(distinct // keys, np.arange(self._shape[0] + 1))
        return cells, first, distinct % keys

    def statistic(self, planned: Planned) -> Statistic:
        slot = planned.values, planned.there
        if slot not in self._values:
            there: BoolArray = np.zeros(self._shape, np.bool_)
            there[self._at] = True if planned.there is None else self._flags(planned.there)
            values = there.astype(np.float64)
            if planned.values is not None:
                numbers = np.zeros(self._shape)
                numbers[self._at] = numbers_of(self.table.column(planned.values))
                values = np.where(there, numbers, 0.0)
            self._values[slot] = values, there
        values, there = self._values[slot]
        return Statistic(planned.weight, planned.weight.number, values, there)

    def _flags(self, name: str) -> BoolArray:
        flags = pc.fill_null(self.table.column(name).cast(pa.bool_()), False)
        return np.asarray(flags.to_numpy(), np.bool_)


@dataclass(frozen=True, eq=False)
class LineClasses:
    """The lines of a question by class: equal quasi keys and equal profile."""

    of: IntArray  # the class of every line
    key: IntArray  # of every class: which combination of quasi keys it has
    profile: IntArray
    first_of_key: IntArray  # a line with these quasi keys
    profiles: pa.Table

    @classmethod
    def read(cls, lines: pa.Table, plan: QuestionPlan) -> LineClasses:
        keys, first = numbered([lines.column(f"k{index}") for index in plan.quasi], len(lines))
        profile, first_profile = numbered([lines.column(name) for name in plan.mixed], len(lines))
        many = max(len(first_profile), 1)
        distinct, of = different(keys * many + profile)
        profiles = lines.select(plan.mixed).take(pa.array(first_profile))
        return cls(of, distinct // many, distinct % many, first, profiles)

    @property
    def number(self) -> int:
        return len(self.key)

    def forms(self, cells: ByValue) -> Forms:
        numbers, first, _ = cells.forms
        return Forms.of(self.profile, numbers, first)


def numbered(columns: Sequence[pa.ChunkedArray], rows: int) -> tuple[IntArray, IntArray]:
    """Equal lines get equal numbers: that of every line, and a line of every number.

    >>> sexes = pa.chunked_array([["F", None, "F"]])
    >>> numbered([sexes], 3)
    (array([0, 1, 0]), array([0, 1]))
    >>> days = [pa.MonthDayNano([0, number, 0]) for number in (1, 2, 1)]
    >>> numbered([pa.chunked_array([days])], 3)[0]
    array([0, 1, 0])
    >>> numbered([pa.chunked_array([["a", "b"], ["b", None]])], 4)[0]
    array([0, 1, 1, 2])
    >>> numbered([pa.chunked_array([], pa.decimal128(6, 1))], 0)[0]
    array([], dtype=int64)
    """
    whole = np.zeros(rows, np.int64)
    for column in columns:
        if pa.types.is_floating(column.type):
            column = pc.add(column, pa.scalar(0.0, column.type))  # −0 is 0
        codes = _encoded(column)
        # so that numbers stay small however many columns there are
        _, whole = different(whole * (int(codes.max(initial=-1)) + 1) + codes)
    first = np.zeros(int(whole.max(initial=-1)) + 1, np.int64)
    first[whole[::-1]] = np.arange(rows)[::-1]
    return whole, first


def different(numbers: IntArray) -> tuple[IntArray, IntArray]:
    """`np.unique` with the inverse, without sorting where the numbers are small.

    >>> different(np.array([7, 3, 7]))
    (array([3, 7]), array([1, 0, 1]))
    """
    bound = int(numbers.max(initial=-1)) + 1
    if bound > 4 * len(numbers) + 1024:
        distinct, inverse = np.unique(numbers, return_inverse=True)
        return distinct, inverse
    there = np.zeros(bound, np.bool_)
    there[numbers] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[numbers]


def _encoded(values: pa.ChunkedArray) -> IntArray:
    if pa.types.is_integer(values.type) and not values.null_count and len(values):
        numbers = values.to_numpy()
        low, high = int(numbers.min()), int(numbers.max())
        if high - low < 4 * len(numbers):
            return np.asarray(numbers, np.int64) - low
    # every chunk has the one dictionary; Arrow joins no chunks of, say, coded decimals
    chunks = pc.dictionary_encode(values, null_encoding="encode").chunks
    return np.concatenate([np.empty(0, np.int64), *(chunk.indices.to_numpy() for chunk in chunks)])


def numbers_of(values: pa.ChunkedArray) -> FloatArray:
    numbers = values.cast(pa.float64()) if not pa.types.is_float64(values.type) else values
    return np.asarray(pc.fill_null(numbers, 0.0).to_numpy(), np.float64)


def _places(table: pa.Table, name: str) -> IntArray:
    return np.asarray(table.column(name).to_numpy(), np.int64)
