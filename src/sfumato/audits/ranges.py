"""A generalized release and its raw table in memory, in the same codes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.audits.case import AuditCase
from sfumato.columns import Column, value_text
from sfumato.draws import IntArray
from sfumato.profile import Histogram


@dataclass(frozen=True, eq=False)
class HeldValues:
    """What people have, and rows show, of the sensitive column: `codes` by record of the table,
    `published` by row of the release."""

    histogram: Histogram
    codes: IntArray
    published: IntArray
    ceilings: list[Fraction]

    def name(self, code: int) -> str:
        """A value in words."""
        if code >= len(self.histogram.values):
            return "a value that is not there"
        return value_text(self.histogram.values[code])


class Ranges:
    """Which published rows show a range around a value, or a set with it, column by column."""

    def __init__(self, case: AuditCase) -> None:
        import pyarrow.parquet as pq

        self.case = case
        batches = list(case.raw_batches())
        self.raw = pa.Table.from_batches(batches).combine_chunks()
        self.records = pa.concat_tables([pq.read_table(path) for path in case.release.records])
        self.columns = case.release.quasi

    @cached_property
    def held(self) -> list[HeldValues]:
        """The sensitive column."""
        case, found = self.case, []
        for place, (name, histogram) in enumerate(case.profile.histograms.items()):
            codes = np.asarray(self.raw.column(f"__code_{place}").to_numpy(), np.int64)
            ceilings = case.guarantee.ceilings(histogram)
            found.append(HeldValues(histogram, codes, self._published(name), ceilings))
        return found

    def _published(self, name: str) -> IntArray:
        """Sensitive codes of the published rows; −1 for a value that the table does not have."""
        shown = self.records.column(name)
        domain = pa.array(self.case.profile.histograms[name].values, shown.type)
        return np.asarray(pc.index_in(shown, value_set=domain).fill_null(-1).to_numpy(), np.int64)

    @cached_property
    def covers(self) -> dict[str, _Range | _Sets]:
        return {
            column.name: _Range(self, column) if column.kind == "numeric" else _Sets(self, column)
            for column in self.columns
        }

    def matching(self, record: int) -> npt.NDArray[np.bool_]:
        """The published rows whose ranges and sets hold what the record has."""
        fits = np.ones(self.records.num_rows, np.bool_)
        for cover in self.covers.values():
            cover.narrow(record, fits)
        return fits

    def sample(self, most: int) -> IntArray:
        """At most `most` records, evenly spaced."""
        step = max(1, -(-self.people // most))
        return np.arange(0, self.people, step)

    @property
    def people(self) -> int:
        return int(self.raw.num_rows)


class _Range:
    def __init__(self, ranges: Ranges, column: Column) -> None:
        low, high = ranges.case.release.shown_as(column)
        self.low = _numbers(ranges.records.column(low))
        self.high = _numbers(ranges.records.column(high))
        self.value = _numbers(ranges.raw.column(column.name))

    def narrow(self, record: int, fits: npt.NDArray[np.bool_]) -> None:
        value = self.value[record]
        fits &= (self.low <= value) & (value <= self.high)

    def exact(self, rows: IntArray, matches: IntArray) -> npt.NDArray[np.bool_]:
        """Whether these rows show exactly the range of their matches."""
        values = self.value[matches]
        low, high = self.low[rows], self.high[rows]
        return np.asarray((values.min(axis=1) == low) & (values.max(axis=1) == high))

    def inside(self, rows: IntArray, records: IntArray) -> npt.NDArray[np.bool_]:
        value = self.value[records]
        return np.asarray((self.low[rows] <= value) & (value <= self.high[rows]))


class _Sets:
    def __init__(self, ranges: Ranges, column: Column) -> None:
        lists = ranges.records.column(column.name).combine_chunks()
        if isinstance(lists, pa.ChunkedArray):
            lists = pa.concat_arrays(lists.chunks)
        flat = lists.flatten()
        raw = ranges.raw.column(column.name).combine_chunks()
        domain = pa.concat_arrays([_plain(raw).unique(), _plain(flat).unique()]).unique()
        self.size = len(domain)
        self.value = np.asarray(pc.index_in(raw, value_set=domain).to_numpy(), np.int64)
        codes = np.asarray(pc.index_in(flat, value_set=domain).to_numpy(), np.int64)
        ends: IntArray = np.asarray(lists.offsets.to_numpy(), np.int64)
        self.lengths = ends[1:] - ends[:-1]
        rows = np.repeat(np.arange(len(self.lengths)), self.lengths)
        order = np.argsort(codes, kind="stable")
        self._rows = rows[order]
        self._starts = np.searchsorted(codes[order], np.arange(self.size + 1))
        self._pairs = np.sort(rows * self.size + codes)

    def narrow(self, record: int, fits: npt.NDArray[np.bool_]) -> None:
        value = self.value[record]
        inside = np.zeros(len(fits), np.bool_)
        inside[self._rows[self._starts[value] : self._starts[value + 1]]] = True
        fits &= inside

    def exact(self, rows: IntArray, matches: IntArray) -> npt.NDArray[np.bool_]:
        """Whether these rows show the values of all their matches (a hierarchy may add others)."""
        shown = np.repeat(rows, matches.shape[1])
        inside = self.inside(shown, matches.ravel()).reshape(matches.shape)
        return np.asarray(inside.all(axis=1))

    def inside(self, rows: IntArray, records: IntArray) -> npt.NDArray[np.bool_]:
        wanted = rows * self.size + self.value[records]
        place = np.minimum(np.searchsorted(self._pairs, wanted), len(self._pairs) - 1)
        return np.asarray(self._pairs[place] == wanted)


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)


def _plain(array: pa.Array) -> pa.Array:
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
