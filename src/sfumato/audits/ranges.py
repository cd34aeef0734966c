"""A generalized release and its raw table in memory, in the same codes."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.audits.case import AuditCase
from sfumato.columns import Column
from sfumato.draws import BoolArray, IntArray


class Ranges:
    """Which published rows show a range around a value, or a set with it, column by column; and of
    the sensitive column `codes` by record of the table, `published` by row of the release."""

    def __init__(self, case: AuditCase) -> None:
        self.case = case
        self.raw = pa.Table.from_batches(list(case.raw_batches())).combine_chunks()
        self.records = case.release.table()
        (self.histogram,) = case.profile.histograms.values()
        self.ceilings = case.guarantee.ceilings(self.histogram)
        self.codes = np.asarray(self.raw.column("__code_0").to_numpy(), np.int64)
        shown = self.records.column(self.histogram.column)
        domain = pa.array(self.histogram.values, shown.type)
        published = pc.index_in(shown, value_set=domain).fill_null(-1)  # −1: not in the table
        self.published = np.asarray(published.to_numpy(), np.int64)

    @cached_property
    def covers(self) -> dict[str, _Range | _Sets]:
        return {
            column.name: _Range(self, column) if column.kind == "numeric" else _Sets(self, column)
            for column in self.case.release.quasi
        }

    def matching(self, record: int) -> BoolArray:
        """The published rows whose ranges and sets hold what the record has."""
        fits = np.ones(self.records.num_rows, np.bool_)
        for cover in self.covers.values():
            fits &= cover.around(record)
        return fits

    @property
    def people(self) -> int:
        return int(self.raw.num_rows)


class _Range:
    def __init__(self, ranges: Ranges, column: Column) -> None:
        low, high = ranges.case.release.shown_as(column)
        self.low = _numbers(ranges.records.column(low))
        self.high = _numbers(ranges.records.column(high))
        self.value = _numbers(ranges.raw.column(column.name))

    def around(self, record: int) -> BoolArray:
        value = self.value[record]
        return np.asarray((self.low <= value) & (value <= self.high))

    def exact(self, starts: IntArray, rows: IntArray, matches: IntArray) -> BoolArray:
        """Whether every row shows exactly the range of its matches."""
        values = self.value[matches]
        low, high = (end.reduceat(values, starts[:-1]) for end in (np.minimum, np.maximum))
        return np.asarray((low == self.low) & (high == self.high))

    def inside(self, rows: IntArray, records: IntArray) -> BoolArray:
        value = self.value[records]
        return np.asarray((self.low[rows] <= value) & (value <= self.high[rows]))


class _Sets:
    def __init__(self, ranges: Ranges, column: Column) -> None:
        lists = ranges.records.column(column.name).combine_chunks()
        lists = pa.concat_arrays(lists.chunks) if isinstance(lists, pa.ChunkedArray) else lists
        flat, raw = lists.flatten(), ranges.raw.column(column.name).combine_chunks()
        raw = pa.concat_arrays(raw.chunks) if isinstance(raw, pa.ChunkedArray) else raw
        domain = pa.concat_arrays([raw.unique(), flat.unique()]).unique()
        self.size, self.shown = len(domain), len(lists)
        self.value = np.asarray(pc.index_in(raw, value_set=domain).to_numpy(), np.int64)
        codes = np.asarray(pc.index_in(flat, value_set=domain).to_numpy(), np.int64)
        rows = np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))
        order = np.argsort(codes, kind="stable")
        self._rows, self._starts = (
            rows[order],
            np.searchsorted(codes[order], np.arange(self.size + 1)),
        )
        self._pairs = np.sort(rows * self.size + codes)

    def around(self, record: int) -> BoolArray:
        value, inside = self.value[record], np.zeros(self.shown, np.bool_)
        inside[self._rows[self._starts[value] : self._starts[value + 1]]] = True
        return inside

    def exact(self, starts: IntArray, rows: IntArray, matches: IntArray) -> BoolArray:
        """Whether rows show the values of all their matches (a hierarchy may add others)."""
        return np.logical_and.reduceat(self.inside(rows, matches), starts[:-1])

    def inside(self, rows: IntArray, records: IntArray) -> BoolArray:
        wanted = rows * self.size + self.value[records]
        position = np.minimum(np.searchsorted(self._pairs, wanted), len(self._pairs) - 1)
        return np.asarray(self._pairs[position] == wanted)


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)
