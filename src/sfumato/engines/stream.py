"""The second pass: published rows, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.columns import value_to_json
from sfumato.draws import Address, Draws, IntArray, Positions
from sfumato.errors import DataError
from sfumato.mechanisms import Batch, Published, RecordPlan
from sfumato.profile import Profile
from sfumato.table import Table
from sfumato.table.staging import codes_of


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
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The records of a section of a staged table through a plan that publishes each by itself.

    Published rows hold codes wherever the table does. A table that shows other values than those
    counted is not published.
    """
    by_person = draws.origin == "key-file"
    left = {column: counts.copy() for column, counts in section.counts.items()}
    seen = {column: counts.copy() for column, counts in section.before.items()}
    start = section.start
    for batch in batches:
        codes = codes_of(batch, table.sensitive)
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
        start += batch.num_rows
        yield _rows(table, batch, plan.apply(Batch(codes, ranks, addresses, keys), draws))
    if start - section.start != section.rows:
        read = f"counted {section.rows:,} rows, then read {start - section.start:,}"
        raise changed(table, read)


def _rows(table: Table, batch: pa.RecordBatch, made: Published) -> pa.RecordBatch:
    """The published rows of a batch."""
    arrays = [batch.column(name) for name in table.quasi]
    arrays = [a.indices if pa.types.is_dictionary(a.type) else a for a in arrays]
    for name, codes in made.codes.items():
        arrays.append(pa.array(codes).cast(batch.column(name).indices.type))
    arrays += [pa.array(numbers).cast(pa.int32()) for numbers in made.extra.values()]
    rows = pa.RecordBatch.from_arrays(arrays, names=[*table.quasi, *made.codes, *made.extra])
    return rows if made.keep is None or made.keep.all() else rows.filter(pa.array(made.keep))


def person_keys(keys: pa.Array, codes: IntArray, values: tuple[Any, ...]) -> list[bytes]:
    """What identifies a draw that belongs to a person: the key and the true value.

    The value itself stands there, not its code: codes change when the domain does.
    """
    texts = [repr(value_to_json(value)) for value in values]
    return [
        f"{key}\x00{texts[code]}".encode()
        for key, code in zip(keys.to_pylist(), codes.tolist(), strict=True)
    ]


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
