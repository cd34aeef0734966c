"""The files of a release, which follow from its content alone: nothing in them can carry a message.

Rows are sorted by what they show, column by column: a coded column by its codes, any other by its
values, missing ones last. Buckets are numbered by a fixed order of what they hold, and their lists
are sorted. Files, row groups and dictionaries are cut in one way. So whoever has the content can
write the same bytes again, and an audit does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.draws import IntArray
from sfumato.release.records import part_name
from sfumato.table.staging import LARGE, LocalPeople

ROW_GROUP, GROUPS = 250_000, 4  # rows, and how many such groups a part has
BUCKET = "bucket"
LISTS = "sensitive.parquet"
_BEGIN = 16  # bits of a word by which words are taken together
_AT_ONCE = 1 << 22  # words that are sorted at the same time
_NONE = np.uint64(0xD6E8FEB86659FD93)  # stands for a missing value in a hash
_STEP = np.uint64(0x9E3779B97F4A7C15)
_HALVES = np.array([1, _STEP], np.uint64)

Words = npt.NDArray[np.uint64]
Batches = Callable[[], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, eq=False)
class Spelled:
    """A column of a file: codes into `values`, or lists of such codes; without values its own.

    `listed` values are a dictionary of the file, in their order; others are written one by one.

    >>> Spelled("ill", pa.array(["flu", "HIV"])).restore(pa.array([1, None, 0])).to_pylist()
    ['HIV', None, 'flu']
    """

    name: str
    values: pa.Array | None = None
    listed: bool = True

    def restore(self, shown: pa.Array) -> pa.Array:
        """What the file holds."""
        if self.values is None:
            return shown
        if pa.types.is_list(shown.type):
            return pa.ListArray.from_arrays(shown.offsets, self.values.take(shown.values))
        if not self.listed:
            return self.values.take(shown)
        return pa.DictionaryArray.from_arrays(shown, self.values)


def restored(columns: Sequence[Spelled], batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows as files hold them; a column that is not named holds what it shows."""
    spelled = {column.name: column for column in columns}
    arrays = [
        spelled.get(name, Spelled(name)).restore(column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def spell(
    folder: Path,
    columns: Sequence[Spelled],
    records: Batches,
    lists: Batches | None = None,
    first: Sequence[int] = (0,),
    *,
    many: bool = False,
) -> None:
    """Write the records, and the lists of buckets where there are some; both come in any order.

    `records` and `lists` give batches anew each time, at least one; their columns are among
    `columns`, and lists hold a bucket, codes of sensitive columns, and counts. Blocks begin at the
    buckets `first`, and buckets keep to their block. Of `many` records fewer are sorted at once.
    """
    if lists is not None:
        number = bucket_numbers(records, lists, first)
        records = renumbered(records, number)
        write_lists(folder, columns, lists, number)
    (folder / part_name(0)).parent.mkdir()
    write_rows(lambda part: folder / part_name(part), columns, records, groups=GROUPS, many=many)


def write_lists(folder: Path, columns: Sequence[Spelled], lists: Batches, number: IntArray) -> None:
    """Write the lists of buckets that have got these numbers."""
    write_rows(lambda _: folder / LISTS, columns, renumbered(lists, number), groups=None)


def write_rows(
    file: Callable[[int], Path],
    columns: Sequence[Spelled],
    rows: Batches,
    *,
    groups: int | None,
    many: bool = False,
) -> None:
    """Sort the rows and write them to files of so many row groups. No rows make one file without
    any."""
    schema, ordered = sorted_rows(rows, many)
    tables = row_groups(columns, schema, ordered, ROW_GROUP)
    for part, table in enumerate(tables):
        write_file(file(part), chain([table], islice(tables, groups and groups - 1)))


def write_file(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write row groups to a file, the next one restored while the last is written."""
    writer: pq.ParquetWriter | None = None
    written: Future[None] | None = None
    with ThreadPoolExecutor(1) as pool:
        try:
            for table in tables:
                if written is not None:
                    written.result()
                writer = writer or _opened(path, table.schema)
                written = pool.submit(writer.write_table, table, max(table.num_rows, 1))
            assert written is not None
            written.result()
        finally:
            if writer is not None:
                writer.close()


def _opened(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """No Arrow schema inside: a text column reads back as text, not as codes. No least and largest
    texts beside row groups: to find them takes a third of the writing."""
    numbers = [field.name for field in schema if not pa.types.is_dictionary(field.type)]
    return pq.ParquetWriter(path, schema, store_schema=False, write_statistics=numbers)


def sorted_rows(rows: Batches, many: bool = False) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Rows in order, and what they hold. Those that fit into a word of 64 bits are sorted as such,
    in a fifth of the time; DuckDB sorts others, and spills where it must.

    >>> people = pa.record_batch({"age": [41, None, 30, 41], "ill": [0, 0, 1, -2]})
    >>> schema, ordered = sorted_rows(lambda: [people])
    >>> [list(row.values()) for group in ordered for row in group.to_pylist()]
    [[30, 1], [41, -2], [41, 0], [None, 0]]
    """
    schema = next(iter(rows())).schema
    spans = _spans(rows, schema)
    if spans is not None:
        return schema, _in_words(rows, schema, spans)
    places = [f"c{index}" for index in range(len(schema))]
    numbered = pa.schema(list(zip(places, schema.types, strict=True)))

    def given(_: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in rows():
            yield pa.RecordBatch.from_arrays(batch.columns, schema=numbered)

    people = LocalPeople(numbered, given, LARGE + many)
    return schema, people.sql("SELECT * FROM people ORDER BY ALL NULLS LAST", *places)


def _spans(rows: Batches, schema: pa.Schema) -> list[tuple[int, int]] | None:
    """Of every column the least number and the one after its largest, which stands for a missing
    one; None where a row does not fit into a word."""
    if any(kind == pa.uint64() or not pa.types.is_integer(kind) for kind in schema.types):
        return None
    ends = list[list[int]]([] for _ in schema)
    for batch in rows():
        for column, seen in zip(batch.columns, ends, strict=True):
            if column.null_count < len(column):
                seen += pc.min_max(column).as_py().values()
    spans = [(min(seen, default=0), max(seen, default=-1) + 1) for seen in ends]
    bits = sum((none - low).bit_length() for low, none in spans)
    return spans if bits <= 64 and all(none < 1 << 63 for _, none in spans) else None


def _in_words(
    rows: Batches, schema: pa.Schema, spans: Sequence[tuple[int, int]]
) -> Iterator[pa.RecordBatch]:
    """The first column stands in the highest bits of a word; of very many words those that begin
    alike are sorted at once."""
    widths = [(none - low).bit_length() for low, none in spans]
    rest = np.uint64(max(sum(widths) - _BEGIN, 0))

    def words() -> Iterator[Words]:
        for batch in rows():
            packed = np.zeros(batch.num_rows, np.uint64)
            for column, width, (low, none) in zip(batch.columns, widths, spans, strict=True):
                codes = column.cast(pa.int64()).fill_null(none).to_numpy() - low
                np.left_shift(packed, np.uint64(width), out=packed)
                np.bitwise_or(packed, codes.view(np.uint64), out=packed)
            yield packed

    counts = np.zeros(1 << _BEGIN, np.int64)
    for packed in words():
        counts += np.bincount((packed >> rest).view(np.int64), minlength=len(counts))
    upto, first = np.append(0, np.cumsum(counts)), 0
    while upto[first] < upto[-1]:
        last = max(int(np.searchsorted(upto, upto[first] + _AT_ONCE, "right")) - 1, first + 1)
        some, at = np.empty(upto[last] - upto[first], np.uint64), 0
        for packed in words():
            begin = packed >> rest
            chosen = packed[(begin >= first) & (begin < last)]
            some[at : at + len(chosen)], at = chosen, at + len(chosen)
        some.sort()
        for start in range(0, len(some), ROW_GROUP):
            yield _of_words(some[start : start + ROW_GROUP].copy(), schema, widths, spans)
        first = last


def _of_words(
    words: Words, schema: pa.Schema, widths: Sequence[int], spans: Sequence[tuple[int, int]]
) -> pa.RecordBatch:
    arrays = list[pa.Array]()
    for kind, width, (low, none) in reversed([*zip(schema.types, widths, spans, strict=True)]):
        codes = (words & np.uint64((1 << width) - 1)).view(np.int64)
        missing = codes == none - low
        shown = (codes + low).astype(kind.to_pandas_dtype())
        arrays.append(pa.array(shown, kind, mask=missing if missing.any() else None))
        words >>= np.uint64(width)
    return pa.RecordBatch.from_arrays(arrays[::-1], schema=schema)


def row_groups(
    columns: Sequence[Spelled], schema: pa.Schema, batches: Iterable[pa.RecordBatch], rows: int
) -> Iterator[pa.Table]:
    """Ordered rows in groups of so many, as files hold them; the columns have this schema."""
    nothing = schema.empty_table()
    waiting, waiting_rows, empty = [nothing], 0, True

    def group() -> pa.Table:
        codes = [column.combine_chunks() for column in pa.concat_tables(waiting).columns]
        return pa.Table.from_batches(
            [restored(columns, pa.RecordBatch.from_arrays(codes, schema=schema))]
        )

    for batch in batches:
        table = pa.Table.from_arrays(batch.columns, names=schema.names).cast(schema)
        while table.num_rows:
            part = table.slice(0, rows - waiting_rows)
            table, waiting_rows = table.slice(part.num_rows), waiting_rows + part.num_rows
            waiting.append(part)
            if waiting_rows == rows:
                yield group()
                waiting, waiting_rows, empty = [nothing], 0, False
    if waiting_rows or empty:
        yield group()


def renumbered(rows: Batches, number: IntArray) -> Batches:
    """The same rows with other numbers for their buckets."""

    def given() -> Iterator[pa.RecordBatch]:
        for batch in rows():
            index = batch.schema.get_field_index(BUCKET)
            bucket = pa.array(number[batch.column(index).to_numpy()].astype(np.int32))
            yield batch.set_column(index, BUCKET, bucket)

    return given


def bucket_numbers(records: Batches, lists: Batches, first: Sequence[int]) -> IntArray:
    """A new number for every bucket, by a fixed order of what it lists and of its records.

    The order is that of 128 bits that depend on both and on no order of either, block by block.
    Buckets of equal content could change places unseen.

    >>> lists = pa.record_batch({"bucket": [0, 1, 1], "ill": [0, 0, 1], "count": [2, 1, 1]})
    >>> people = pa.record_batch({"age": [30, 30, 41, 41], "bucket": [0, 1, 0, 1]})
    >>> number = bucket_numbers(lambda: [people], lambda: [lists], (0,))
    >>> swap = np.array([1, 0])
    >>> other = [renumbered(lambda b=b: [b], swap) for b in (people, lists)]
    >>> number[swap].tolist() == bucket_numbers(*other, (0,)).tolist()
    True
    """
    many = bucket_count(lists)
    sums = bucket_words(records(), many, 0) + bucket_words(lists(), many, 1)
    return bucket_order(sums, first)


def bucket_count(lists: Batches) -> int:
    return 1 + max(pc.max(batch.column(BUCKET)).as_py() or 0 for batch in lists())


def bucket_words(rows: Iterable[pa.RecordBatch], many: int, turn: int) -> Words:
    """What rows add to the 128 bits of each bucket."""
    sums = np.zeros((2, many), np.uint64)
    for batch in rows:
        bucket = batch.column(BUCKET).to_numpy()
        words = np.full(batch.num_rows, turn, np.uint64)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name != BUCKET:
                words = words * _STEP + _word(column)
        for bits in sums:
            words = _mixed(words)
            np.add.at(bits, bucket, words)
    return sums


def bucket_order(sums: Words, first: Sequence[int]) -> IntArray:
    """A number for every bucket by these bits, block by block."""
    many = sums.shape[1]
    block = np.searchsorted(np.asarray(first), np.arange(many), side="right")
    number = np.empty(many, np.int64)
    number[np.lexsort((sums[1], sums[0], block))] = np.arange(many)
    return number


def _word(array: pa.Array) -> Words:
    """A number for every value, equal for equal ones."""
    if pa.types.is_decimal(array.type):
        halves = array.take(pa.array(np.arange(len(array)))).buffers()[1]
        words = np.frombuffer(halves, np.uint64, 2 * len(array)).reshape(-1, 2) @ _HALVES
        return np.where(array.is_null().to_numpy(zero_copy_only=False), _NONE, words)
    if pa.types.is_floating(array.type):
        array = array.cast(pa.float64()).view(pa.int64())
    elif not pa.types.is_integer(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    words = array.fill_null(0).to_numpy().astype(np.int64).view(np.uint64)
    if array.null_count:
        words = np.where(array.is_null().to_numpy(zero_copy_only=False), _NONE, words)
    return words


def _mixed(words: Words) -> Words:
    """Every bit of a word spread over all of them (SplitMix64)."""
    words = words + _STEP
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))
