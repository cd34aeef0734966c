"""The second pass: published rows in compact form, batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.draws import Address, Draws, IntArray, Positions
from sfumato.engines.coding import SensitiveCoder, person_keys
from sfumato.engines.compact import CompactRows
from sfumato.engines.counting import Progress
from sfumato.engines.quasi import quasi_column
from sfumato.errors import DataError
from sfumato.mechanisms import Batch, Plan, RecordPlan
from sfumato.profile import Profile
from sfumato.sorting import counted_order
from sfumato.table import Table


class RowStream(ABC):
    """The rows of a release, to be gone through once: `rows` knows them afterwards."""

    def __init__(self, table: Table, profile: Profile, plan: Plan, progress: Progress) -> None:
        self.table, self.profile, self.progress = table, profile, progress
        self.rows = CompactRows(table, profile, [quasi_column(table, n) for n in table.quasi])
        self.expected = profile.rows - plan.withheld
        self.published = 0

    @abstractmethod
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Compact batches; raises where there were other rows than expected."""


@dataclass(frozen=True, eq=False)
class StreamSection:
    """A run of the stream, as the first pass counted it.

    `start` is its first position; `before` and `counts` are the counts of what ranks count among
    (`RecordPlan.ranked`) before it and in it. Ranks and draws follow
    from these, so sections can be published apart from one another, in any order, and again.
    """

    start: int
    rows: int
    before: Mapping[str, IntArray]
    counts: Mapping[str, IntArray]

    @staticmethod
    def whole(profile: Profile, plan: RecordPlan) -> StreamSection:
        counts = plan.ranked(profile)
        before = {column: np.zeros_like(count) for column, count in counts.items()}
        return StreamSection(0, profile.rows, before, counts)


class RecordStream(RowStream):
    """The table's records through a plan that publishes each by itself."""

    def __init__(
        self,
        table: Table,
        profile: Profile,
        plan: RecordPlan,
        draws: Draws,
        batch_rows: int,
        threads: bool,
        progress: Progress,
        section: StreamSection | None = None,
    ) -> None:
        super().__init__(table, profile, plan, progress)
        self.plan, self.draws = plan, draws
        self.batch_rows, self.threads = batch_rows, threads
        self._coders = {
            column: SensitiveCoder(table, column, histogram.values)
            for column, histogram in profile.histograms.items()
        }
        self._section = StreamSection.whole(profile, plan) if section is None else section
        self._left = {column: counts.copy() for column, counts in self._section.counts.items()}
        self._seen = {column: counts.copy() for column, counts in self._section.before.items()}

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        table, plan = self.table, self.plan
        by_person = self.draws.origin == "key-file"
        columns = [*table.quasi, *table.sensitive, *([table.key] if by_person else [])]
        first = start = self._section.start
        for batch in table.batches([str(c) for c in columns], self.batch_rows, self.threads):
            codes = {c: coder(batch.column(c)) for c, coder in self._coders.items()}
            keys = plan.keys(codes, None if plan.tree is None else plan.tree.numbers(batch))
            self._check_counts(keys)
            addresses: dict[str, Address] = dict.fromkeys(codes, Positions(start, batch.num_rows))
            if by_person:
                for column, code in codes.items():
                    values = self.profile.histograms[column].values
                    own = person_keys(batch.column(table.key), code, values)
                    addresses[column] = self.draws.persons(column, own)
            ranks = {}
            if plan.needs_rank:
                ranks = {c: ranks_in_value(key, self._seen[c]) for c, key in keys.items()}
            batch_of_codes = Batch(codes, ranks, addresses, keys)
            outcome = plan.apply(batch_of_codes, self.draws)
            start += batch.num_rows
            if not self.published:
                self._begin(tuple(outcome.extra))
            compact = self.rows.add(batch, outcome)
            self.published += compact.num_rows
            self.progress("publishing", start, self.profile.rows)
            yield compact
        self.rows.check_stated()
        rows, whole = self._section.rows, self._section.rows == self.profile.rows
        # how many records of a section are withheld, its reader cannot know
        if start - first != rows or (whole and self.published != self.expected):
            raise changed(table, f"counted {rows:,} rows, then read {start - first:,}")

    def _begin(self, extra: tuple[str, ...]) -> None:
        table = self.table
        taken = sorted(set(extra) & {*table.quasi, *table.sensitive})
        if taken:
            raise DataError(
                f"Column {taken[0]!r} of {table.label} has the name of a column that the release "
                "adds. Rename it."
            )

    def _check_counts(self, keys: Mapping[str, IntArray]) -> None:
        """The plan fits the counted values: a table that shows others now is not published."""
        for name, key in keys.items():
            left = self._left[name]
            if len(key) and int(key.min()) >= 0:
                left -= np.bincount(key, minlength=len(left))
            if len(key) and (int(key.min()) < 0 or int(left.min()) < 0):
                about = f"column {name!r}" if name in self.table.sensitive else "sensitive columns"
                raise changed(self.table, f"the values of {about} are not those counted before")


def changed(table: Table, how: str) -> DataError:
    """A table that is not what it was when it was counted."""
    return DataError(
        f"{table.label} changed while it was being published: {how}. Publish from a fixed copy."
    )


def ranks_in_value(codes: IntArray, seen: IntArray) -> IntArray:
    """How many earlier records have the same value; `seen` carries the counts between batches.

    >>> ranks_in_value(np.array([1, 0, 1, 1]), np.array([5, 7])).tolist()
    [7, 5, 8, 9]
    """
    order = counted_order(codes, len(seen))
    counts = np.bincount(codes, minlength=len(seen))
    starts = np.cumsum(counts) - counts
    ranks = np.empty(len(codes), np.int64)
    sorted_codes = codes[order]
    ranks[order] = np.arange(len(codes)) + (seen - starts)[sorted_codes]
    seen += counts
    return ranks
