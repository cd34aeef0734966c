"""How many rows a person has, as one more column: where one row of each is published, its sums
answer questions about rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.errors import DataError, UsageError
from sfumato.scratch import scratch_database
from sfumato.table.sources import Source, reading_errors

LEAST, SHARE = 20, 100  # people, and one in so many, who share the largest number


class CountedRows(Source):
    """A source with a column of how many rows the person of each row has.

    Numbers that few people reach are top-coded: those above show their mean, so that sums stay
    right. Rows without one of the `needed` values do not count.

    >>> from sfumato.table.sources import find_source
    >>> stays = pa.table({"who": ["a", "b", "a"], "ill": ["flu", "HIV", "cold"]})
    >>> counted = CountedRows(find_source(stays), "who", "stays", (), top=False)
    >>> next(iter(counted.batches(["ill", "stays"], 10))).column("stays").to_pylist()
    [2, 1, 2]
    """

    def __init__(
        self, source: Source, person: str, name: str, needed: Sequence[str], *, top: bool = True
    ) -> None:
        if name in source.schema.names:
            raise UsageError(
                f"--count-rows names a new column, and {source.label} has a column {name!r} "
                "already. Choose another name."
            )
        self.source, self.person, self.name, self.needed, self.top = (
            source, person, name, tuple(needed), top,
        )  # fmt: skip
        self.label, self.engine, self.foreign = source.label, source.engine, source.foreign
        self.schema = source.schema.append(pa.field(name, pa.int64()))

    def batches(
        self, columns: Sequence[str], rows: int, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        if self.name not in columns:
            yield from self.source.batches(columns, rows, threads)
            return
        names = [name for name in columns if name != self.name] or [self.person]
        start = 0
        for batch in self.source.batches(names, rows, threads):
            numbers = self.numbers[start : start + batch.num_rows]
            start += batch.num_rows
            if len(numbers) < batch.num_rows:
                raise DataError(f"{self.label} has other rows than a moment ago. Use a fixed copy.")
            counted = batch.append_column(self.name, pa.array(numbers.astype(np.int64)))
            yield counted.select(list(columns))

    @cached_property
    def numbers(self) -> npt.NDArray[np.uint32]:
        """How many rows the person of every row has; one pass."""
        needed = [name for name in self.needed if name != self.person]
        schema = pa.schema([("row", pa.int64()), ("person", self.schema.field(self.person).type)])
        read = 0

        def given() -> Iterator[pa.RecordBatch]:
            nonlocal read
            for batch in self.source.batches([self.person, *needed], 1 << 17):
                person = batch.column(0)
                if pa.types.is_dictionary(person.type):
                    person = person.dictionary_decode()
                rows = pa.array(np.arange(read, read + batch.num_rows))
                read += batch.num_rows
                taken = pa.RecordBatch.from_arrays([rows, person], schema=schema)
                whole = np.ones(batch.num_rows, np.bool_)
                for name in needed:
                    column = batch.column(name)
                    absent = column.is_null(nan_is_null=pa.types.is_floating(column.type))
                    whole &= ~absent.to_numpy(zero_copy_only=False)
                yield taken.filter(pa.array(whole))

        connection = scratch_database()
        connection.register("given", pa.RecordBatchReader.from_batches(schema, given()))
        with reading_errors(self.source):
            numbered = connection.sql(
                'SELECT "row", count(*) OVER (PARTITION BY person) AS n FROM given'
            ).to_arrow_table()
        numbers = np.zeros(read, np.uint32)
        numbers[numbered.column("row").to_numpy()] = numbered.column("n").to_numpy()
        return numbers if not self.top else top_coded(numbers)


def top_coded(numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Numbers that few people reach as the mean of those who do, to the nearest whole one.

    >>> people = [1] * 80 + [2] * 19 + [7]
    >>> rows = np.repeat(people, people).astype(np.uint32)
    >>> np.unique(top_coded(rows)).tolist()
    [1, 2]
    """
    sizes = people_by_rows(numbers)
    reached = sizes[::-1].cumsum()[::-1]  # people with so many rows or more
    least = max(LEAST, -(-int(reached[0]) // SHARE))
    enough = np.flatnonzero(reached >= least)
    top = max(int(enough.max(initial=1)), 1)
    above = np.arange(len(sizes)) >= top
    people = int(sizes[above].sum())
    rows = int((np.arange(len(sizes)) * sizes)[above].sum())
    mean = (2 * rows + people) // (2 * people) if people else top
    return np.where(numbers >= top, mean, numbers).astype(np.uint32)


def people_by_rows(numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """How many people have each number of rows."""
    counts = np.bincount(numbers)
    counts[0] = 0
    return np.asarray(counts // np.maximum(np.arange(len(counts)), 1), np.int64)
