"""A generalized release and its raw table in memory, in the same codes."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.audits.case import AuditCase, traced_file
from sfumato.columns import Column
from sfumato.draws import IntArray
from sfumato.engines.whole import TRACE


class Ranges:
    """Which published rows show a range around a value, or a set with it, column by column."""

    def __init__(self, case: AuditCase) -> None:
        import pyarrow.parquet as pq

        self.case = case
        batches = list(case.raw_batches())
        self.raw = pa.Table.from_batches(batches).combine_chunks()
        self.records = pa.concat_tables([pq.read_table(path) for path in case.release.records])
        self.codes = np.asarray(self.raw.column("__code_0").to_numpy(), np.int64)
        self.columns = case.release.quasi
        (self.sensitive,) = case.table.sensitive

    @cached_property
    def published(self) -> IntArray:
        """Sensitive codes of the published rows; −1 for a value that the table does not have."""
        values = self.case.profile.histograms[self.sensitive].values
        shown = self.records.column(self.sensitive)
        domain = pa.array(values, shown.type)
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
        step = max(1, -(-len(self.codes) // most))
        return np.arange(0, len(self.codes), step)


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


class Trace:
    """The private match graph that `publish --trace` wrote."""

    def __init__(self, folder: str) -> None:
        import pyarrow.parquet as pq

        table = pq.read_table(traced_file(folder, TRACE))
        self.source = np.asarray(table.column("source").to_numpy(), np.int64)
        self.group = self.matches = None
        if "matches" in table.schema.names:  # of row r: matches[starts[r]:starts[r + 1]]
            lists = pa.concat_arrays(table.column("matches").chunks)
            self.matches = np.asarray(lists.flatten().to_numpy(), np.int64)
            lengths = pc.list_value_length(lists).to_numpy()
            self.starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        if "group" in table.schema.names:
            self.group = np.asarray(table.column("group").to_numpy(), np.int64)

    def spans(self) -> int:
        """How many people a row spans, in the mean over rows, to the next whole number."""
        rows, people = len(self.source), 0
        if self.matches is not None:
            people = len(self.matches)
        elif self.group is not None:
            _, group = np.unique(self.group, return_inverse=True)
            people = int((np.bincount(group) ** 2).sum())
        return (2 * people + rows) // (2 * rows) if rows else 0


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)


def _plain(array: pa.Array) -> pa.Array:
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
