"""Two tables in files, compared row by row, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.draws import BoolArray

_AT_ONCE = 1 << 17


@dataclass(frozen=True)
class Differences:
    """How many rows differ, and the first of them (from 0)."""

    number: int
    first: int = 0
    how: str = ""


def differing_rows(one: Sequence[Path], two: Sequence[Path]) -> Differences:
    """Compare two tables in files, row by row, in bounded memory."""
    number, first, how, start = 0, 0, "", 0
    left, right = _pieces(one), _pieces(two)
    while True:
        a, b = next(left, None), next(right, None)
        if a is None and b is None:
            return Differences(number, first, how)
        rows = max(0 if each is None else each.num_rows for each in (a, b))
        if a is None or b is None or a.num_rows != b.num_rows:
            both = 0 if a is None or b is None else min(a.num_rows, b.num_rows)
            wrong = np.ones(rows, np.bool_)
            if both and a is not None and b is not None:
                wrong[:both] = _different(a.slice(0, both), b.slice(0, both))
        else:
            wrong = _different(a, b)
        if wrong.any() and not number:
            place = int(wrong.argmax())
            first, how = start + place, _told(a, b, place)
        number += int(wrong.sum())
        start += rows


def _told(a: pa.Table | None, b: pa.Table | None, place: int) -> str:
    """What the release shows, and what it would show; both are as public as the release."""
    rows = [None if t is None or place >= t.num_rows else t.slice(place, 1).to_pylist()[0]
            for t in (a, b)]  # fmt: skip
    if rows[0] is None or rows[1] is None:
        return "there are more rows" if rows[1] is None else "there are fewer rows"
    names = sorted(set(rows[0]) | set(rows[1]))
    differ = [n for n in names if repr(rows[0].get(n)) != repr(rows[1].get(n))]
    return f"{', '.join(differ) or 'the bits of a number'} would be another"


def _different(a: pa.Table, b: pa.Table) -> BoolArray:
    """Which rows differ in some column, to the last bit."""
    wrong = np.zeros(a.num_rows, np.bool_)
    if a.schema.names != b.schema.names:
        return ~wrong
    for name in a.schema.names:
        ours, theirs = _bits(a.column(name)), _bits(b.column(name))
        if ours.type != theirs.type:
            return np.ones(a.num_rows, np.bool_)
        if not ours.equals(theirs):
            if pa.types.is_nested(ours.type):
                pairs = zip(ours.to_pylist(), theirs.to_pylist(), strict=True)
                wrong |= np.array([repr(x) != repr(y) for x, y in pairs], np.bool_)
            else:
                same = pc.fill_null(pc.equal(ours, theirs), False)
                both = pc.and_(pc.is_null(ours), pc.is_null(theirs))
                wrong |= ~np.asarray(pc.or_(same, both).to_numpy())
    return wrong


def _bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column whose equality is that of its bits: −0.0 is not 0.0, a NaN is itself."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = kind.value_type
    if pa.types.is_floating(kind):
        whole = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        return pa.chunked_array([chunk.view(whole) for chunk in column.chunks], whole)
    return column


def _pieces(paths: Sequence[Path]) -> Iterator[pa.Table]:
    """The rows of the files in tables of `_AT_ONCE` rows, however they were written."""
    import pyarrow.parquet as pq

    held: list[pa.Table] = []
    number = 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_AT_ONCE):
                held.append(pa.Table.from_batches([batch]))
                number += batch.num_rows
                while number >= _AT_ONCE:
                    whole = pa.concat_tables(held)
                    yield whole.slice(0, _AT_ONCE)
                    held, number = [whole.slice(_AT_ONCE)], number - _AT_ONCE
    if number:
        yield pa.concat_tables(held)
