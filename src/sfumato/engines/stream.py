"""The second pass: published rows in compact form, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.draws import Address, Draws, IntArray, Positions
from sfumato.engines.coding import SensitiveCoder, person_keys
from sfumato.errors import DataError
from sfumato.mechanisms import Batch, Published, RecordPlan
from sfumato.profile import Profile
from sfumato.table import Table


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


def apply_plan(
    table: Table,
    profile: Profile,
    plan: RecordPlan,
    draws: Draws,
    section: StreamSection,
    *,
    batch_rows: int = 1 << 16,
    threads: bool = False,
) -> Iterator[tuple[pa.RecordBatch, Published]]:
    """The records of a section through a plan that publishes each by itself, batch by batch.

    A table that shows other values than those counted is not published.
    """
    by_person = draws.origin == "key-file"
    coders = {c: SensitiveCoder(table, c, h.values) for c, h in profile.histograms.items()}
    left = {column: counts.copy() for column, counts in section.counts.items()}
    seen = {column: counts.copy() for column, counts in section.before.items()}
    columns = [*table.quasi, *table.sensitive, *([table.key] if by_person else [])]
    start = section.start
    for batch in table.batches([str(c) for c in columns], batch_rows, threads):
        codes = {c: coder(batch.column(c)) for c, coder in coders.items()}
        keys = plan.keys(codes, None if plan.tree is None else plan.tree.numbers(batch))
        for name, key in keys.items():
            if len(key) and int(key.min()) >= 0:
                left[name] -= np.bincount(key, minlength=len(left[name]))
            if len(key) and (int(key.min()) < 0 or int(left[name].min()) < 0):
                about = f"column {name!r}" if name in table.sensitive else "sensitive columns"
                raise changed(table, f"the values of {about} are not those counted before")
        addresses: dict[str, Address] = dict.fromkeys(codes, Positions(start, batch.num_rows))
        if by_person:
            for column, code in codes.items():
                own = person_keys(batch.column(table.key), code, profile.histograms[column].values)
                addresses[column] = draws.persons(column, own)
        ranks = {}
        if plan.needs_rank:
            ranks = {c: ranks_in_value(key, seen[c]) for c, key in keys.items()}
        batch_of_codes = Batch(codes, ranks, addresses, keys)
        start += batch.num_rows
        yield batch, plan.apply(batch_of_codes, draws)
    if start - section.start != section.rows:
        read = f"counted {section.rows:,} rows, then read {start - section.start:,}"
        raise changed(table, read)


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
    narrow = codes.astype(np.uint16) if len(seen) <= 1 << 16 else codes  # numpy counts small ones
    order = np.argsort(narrow, kind="stable")
    counts = np.bincount(codes, minlength=len(seen))
    starts = np.cumsum(counts) - counts
    ranks = np.empty(len(codes), np.int64)
    sorted_codes = codes[order]
    ranks[order] = np.arange(len(codes)) + (seen - starts)[sorted_codes]
    seen += counts
    return ranks
