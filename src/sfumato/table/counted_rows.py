"""How many rows a person has, as one more column: where one row of each is published, its sums
answer questions about rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.table.sources import Batches, Source
from sfumato.table.staging import Staged

LEAST, SHARE = 20, 100  # people, and one in so many, who share the largest number


def with_row_counts(rows: Staged, person: str, name: str, *, top: bool = True) -> Source:
    """Staged rows with a column of how many the person of each has.

    Numbers that few people reach are top-coded: those above show their mean, so that sums stay
    right.

    >>> from sfumato.table import read
    >>> stays = pa.table({"who": ["a", "b", "a"], "ill": ["flu", "HIV", "cold"]})
    >>> rows = read(stays, quasi=[], sensitive="ill", person="who").rows
    >>> counted = with_row_counts(rows, "who", "stays", top=False)
    >>> next(iter(counted.batches(["ill", "stays"], 10))).column("stays").to_pylist()
    [2, 1, 2]
    """
    numbers = _rows_of_persons(rows, person)
    numbers = top_coded(numbers) if top else numbers

    def counted(batches: Batches) -> Batches:
        start = 0
        for batch in batches:
            shown = numbers[start : start + batch.num_rows].astype(np.int64)
            yield batch.append_column(name, pa.array(shown))
            start += batch.num_rows

    return rows.derived(rows.schema.append(pa.field(name, pa.int64())), counted, [person])


def _rows_of_persons(rows: Staged, person: str) -> npt.NDArray[np.uint32]:
    """How many rows the person of every row has."""
    numbers = np.zeros(rows.number, np.uint32)
    schema = pa.schema([("place", pa.int64()), ("person", rows.type(person))])
    read = 0

    def placed(batch: pa.RecordBatch) -> pa.RecordBatch:
        nonlocal read
        places = pa.array(np.arange(read, read + batch.num_rows))
        read += batch.num_rows
        return pa.RecordBatch.from_arrays([places, batch.column(person)], schema=schema)

    query = "SELECT place, count(*) OVER (PARTITION BY person) AS n FROM people"
    for batch in rows.map([person], placed, schema).sql(query, "place", "person"):
        numbers[batch.column("place").to_numpy()] = batch.column("n").to_numpy()
    return numbers


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
