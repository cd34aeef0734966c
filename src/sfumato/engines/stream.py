"""The second pass: records through the plan, in compact form, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.columns import Column, Values
from sfumato.draws import Address, Draws, IntArray, Positions
from sfumato.engines.coding import SensitiveCoder, person_keys
from sfumato.engines.counting import Progress, drop_missing
from sfumato.engines.from_cells import cell_outcomes, cell_quasi_columns
from sfumato.engines.quasi import QuasiColumn, quasi_column
from sfumato.engines.tracing import TraceWriter
from sfumato.errors import DataError
from sfumato.mechanisms import Batch, CellPlan, Plan
from sfumato.profile import Profile
from sfumato.table import Table


@dataclass(frozen=True, eq=False)
class Section:
    """A run of the stream, as the first pass counted it.

    `start` is its first position; `before` and `counts` are, per sensitive column, the counts of
    every value before it and in it. Ranks and draws follow from these, so sections can be published
    apart from one another, in any order, and again.
    """

    start: int
    rows: int
    before: Mapping[str, IntArray]
    counts: Mapping[str, IntArray]

    @staticmethod
    def whole(profile: Profile) -> Section:
        counts = {column: h.counts for column, h in profile.histograms.items()}
        before = {column: np.zeros_like(count) for column, count in counts.items()}
        return Section(0, profile.rows, before, counts)


class RecordStream:
    """The second pass: published records in compact form, batch by batch."""

    def __init__(
        self,
        table: Table,
        profile: Profile,
        plan: Plan,
        draws: Draws,
        batch_rows: int,
        threads: bool,
        progress: Progress,
        tracing: TraceWriter | None = None,
        section: Section | None = None,
    ) -> None:
        self.table, self.profile, self.plan, self.draws = table, profile, plan, draws
        self.tracing = tracing
        self.batch_rows, self.threads, self.progress = batch_rows, threads, progress
        self.quasi: list[QuasiColumn] = []
        self.sensitive: tuple[str, ...] = ()  # the sensitive columns that records show
        self.extra: tuple[str, ...] = ()
        self.expected = profile.rows - plan.withheld
        self.published = 0
        self._coders = {
            column: SensitiveCoder(table, column, histogram.values)
            for column, histogram in profile.histograms.items()
        }
        self._section = Section.whole(profile) if section is None else section
        self._left = {column: counts.copy() for column, counts in self._section.counts.items()}
        self._seen = {column: counts.copy() for column, counts in self._section.before.items()}

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        table, plan = self.table, self.plan
        by_person = self.draws.origin == "key-file"
        columns = [*table.quasi, *table.sensitive, *([table.key] if by_person else [])]
        first = start = self._section.start
        for batch in table.batches([str(c) for c in columns], self.batch_rows, self.threads):
            batch = drop_missing(table, batch)
            codes = {c: coder(batch.column(c)) for c, coder in self._coders.items()}
            self._check_counts(codes)
            addresses: dict[str, Address] = dict.fromkeys(codes, Positions(start, batch.num_rows))
            if by_person:
                for column, code in codes.items():
                    values = self.profile.histograms[column].values
                    keys = person_keys(batch.column(table.key), code, values)
                    addresses[column] = self.draws.persons(column, keys)
            ranks = {}
            if plan.needs_rank:
                ranks = {c: ranks_in_value(code, self._seen[c]) for c, code in codes.items()}
            given = Batch(codes, ranks, addresses)
            outcome = plan.apply(given, self.draws)
            if self.tracing is not None:
                self.tracing.add(given, outcome, plan.trace(given))
            start += batch.num_rows
            self.sensitive, self.extra = tuple(outcome.codes), tuple(outcome.extra)
            taken = sorted(set(self.extra) & {*table.quasi, *table.sensitive})
            if taken:
                raise DataError(
                    f"Column {taken[0]!r} of {table.label} has the name of a column that the "
                    "release adds. Rename it."
                )
            if not self.quasi:
                self.quasi = [quasi_column(table, n, batch.column(n).type) for n in table.quasi]
            made = [*outcome.codes.values(), *outcome.extra.values()]
            kept = outcome.keep
            if kept is not None and not kept.all():
                batch = batch.filter(pa.array(kept))
                made = [array[kept] for array in made]
            arrays = [column.add(batch.column(column.name)) for column in self.quasi]
            arrays += [pa.array(array.astype(np.int32)) for array in made]
            self.published += batch.num_rows
            self.progress("publishing", start, self.profile.rows)
            names = [*table.quasi, *self.sensitive, *self.extra]
            yield pa.RecordBatch.from_arrays(arrays, names=names)
        for quasi in self.quasi:
            quasi.check_stated()
        rows, whole = self._section.rows, self._section.rows == self.profile.rows
        # how many records of a section are withheld, its reader cannot know
        if start - first != rows or (whole and self.published != self.expected):
            raise self.changed(f"counted {rows:,} rows, then read {start - first:,}")

    def _check_counts(self, codes: Mapping[str, IntArray]) -> None:
        """The plan fits the counted values: a table that shows others now is not published."""
        for column, code in codes.items():
            left = self._left[column]
            if len(code) and int(code.min()) >= 0:
                left -= np.bincount(code, minlength=len(left))
            if len(code) and (int(code.min()) < 0 or int(left.min()) < 0):
                raise self.changed(f"the values of column {column!r} are not those counted before")

    def changed(self, how: str) -> DataError:
        return DataError(
            f"{self.table.label} changed while it was being published: {how}. Publish from a fixed "
            "copy."
        )

    def restore(self, compact: pa.Table, *, ordered: bool) -> pa.Table:
        """Compact columns back to values."""
        names = compact.schema.names
        arrays = [
            column.restore(single_chunk(compact, column.name), ordered=ordered)
            for column in self.quasi
        ]
        arrays += [
            self._sensitive_values(single_chunk(compact, name), name) for name in self.sensitive
        ]
        arrays += [single_chunk(compact, name) for name in self.extra]
        return pa.Table.from_arrays(arrays, names=names)

    def restore_side(self, side: pa.Table) -> pa.Table:
        """A piece of a side table, its sensitive columns from codes to values."""
        for place, name in enumerate(side.schema.names):
            if name in self.profile.histograms:
                side = side.set_column(
                    place, name, self._sensitive_values(single_chunk(side, name), name)
                )
        return side

    def _sensitive_values(self, codes: pa.Array, name: str) -> pa.Array:
        values = pa.array(self.profile.histograms[name].values, self.sensitive_type(name))
        missing = values.null_count  # null, where it is a value, is the last one
        if missing:
            codes = pa.compute.if_else(
                pa.compute.equal(codes, len(values) - 1), pa.scalar(None, pa.int32()), codes
            )
        return pa.DictionaryArray.from_arrays(codes, values.slice(0, len(values) - missing))

    def sensitive_type(self, name: str) -> pa.DataType:
        return pa.string() if name in self.table.bins else self.table.type_of(name)

    def columns(self) -> tuple[Column, ...]:
        sensitive = (
            Column(
                name,
                "sensitive",
                "categorical" if name in self.table.bins else self.table.kinds[name],
                str(self.sensitive_type(name)),
                Values(histogram.values),
                self.table.bins[name].edges if name in self.table.bins else None,
            )
            for name, histogram in self.profile.histograms.items()
        )
        return (*(column.column() for column in self.quasi), *sensitive)


class CellStream(RecordStream):
    """Rows that a plan makes from the profile's cells; the table is not read again."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        assert isinstance(self.plan, CellPlan)
        for batch, outcome in cell_outcomes(self.table, self.plan, self.draws, self.batch_rows):
            self.sensitive, self.extra = tuple(outcome.codes), tuple(outcome.extra)
            if not self.quasi:
                self.quasi = cell_quasi_columns(self.table, self.plan, batch)
            arrays = [column.add(batch.column(column.name)) for column in self.quasi]
            made = [*outcome.codes.values(), *outcome.extra.values()]
            arrays += [pa.array(array.astype(np.int32)) for array in made]
            self.published += batch.num_rows
            self.progress("publishing", self.published, self.expected)
            names = [*self.table.quasi, *self.sensitive, *self.extra]
            yield pa.RecordBatch.from_arrays(arrays, names=names)
        for quasi in self.quasi:
            quasi.check_stated()
        assert self.published == self.expected, (self.published, self.expected)


def ranks_in_value(codes: IntArray, seen: IntArray) -> IntArray:
    """How many earlier records have the same value; `seen` carries the counts between batches.

    >>> ranks_in_value(np.array([1, 0, 1, 1]), np.array([5, 7])).tolist()
    [7, 5, 8, 9]
    """
    narrow = codes.astype(np.uint16) if len(seen) <= 1 << 16 else codes
    order = np.argsort(narrow, kind="stable")
    counts = np.bincount(codes, minlength=len(seen))
    starts = np.cumsum(counts) - counts
    ranks = np.empty(len(codes), np.int64)
    sorted_codes = codes[order]
    ranks[order] = np.arange(len(codes)) + (seen - starts)[sorted_codes]
    seen += counts
    return ranks


def single_chunk(table: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
