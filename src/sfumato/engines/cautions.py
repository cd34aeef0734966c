"""What a steward should be told besides the promise, seen in the first rows of the table.

A promise counts one record per person and limits what the release adds to what its reader knows:
a column that repeats like an identifier, or that all but tells the sensitive one, is no breach of
it and a danger all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sfumato.draws import IntArray
from sfumato.table import Table
from sfumato.table.staging import drop_missing

SEEN = 100_000  # rows looked at
_LEAST = (
    100  # different values from which on a column may name people, and rows from which on to look
)
_ROWS_EACH = 5  # rows of a value, on average: people with more are visits of few, not people
_RIGHT = 0.95  # of the guesses from a column: from there on it all but tells the sensitive one
_LEFT = 0.2  # of the wrong guesses without it that it may leave


def table_cautions(table: Table) -> Iterator[str]:
    """Columns that repeat like an identifier, and quasi columns that tell a sensitive one.

    >>> from sfumato.table import read
    >>> patients, wards = [k // 2 for k in range(1000)], [k % 7 for k in range(1000)]
    >>> visits = pa.table({"patient": patients, "ward": wards, "head": [f"Dr {w}" for w in wards]})
    >>> table = read(visits, quasi="ward", sensitive="head", drop="patient")
    >>> [line.split(":")[0] for line in table_cautions(table)]
    ["Column 'patient' repeats like an identifier", "Column 'ward' all but tells 'head'"]
    """
    for seen in repeating_columns(table):
        yield (
            f"Column {seen.name!r} repeats like an identifier: {seen.different:,} different values "
            f"in {seen.rows:,} rows. If it names people, some have several records, and "
            "the promise holds for each record by itself: name it with --person."
        )
    batch = _first_rows(table, table.quasi)
    if batch is None:
        return
    for sensitive in table.sensitive:
        truth, _ = _codes(batch.column(sensitive))
        alone = float(np.bincount(truth).max()) / len(truth)
        for name in table.quasi:
            right = _guessed(*_codes(batch.column(name)), truth)
            if right >= _RIGHT and 1 - right <= _LEFT * (1 - alone):
                yield (
                    f"Column {name!r} all but tells {sensitive!r}: guesses from it are right for "
                    f"{right:.0%} of the rows, and for {alone:.0%} without it. The promise does "
                    "not limit what quasi-identifiers tell: coarsen the column, or drop it."
                ).replace("%", " %")


IDENTIFIER = r"id|ids|nr|nbr|no|num|number|key|code|uuid|ssn|mrn|patient|person|subject|member"


def is_named(name: str, words: str) -> bool:
    """Whether a word of a column's name is one of these: patient_nbr, maritalStatus, diag_1.

    >>> is_named("maritalStatus", "marital"), is_named("remarks", "marks")
    (True, False)
    """
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return any(re.fullmatch(words, word) for word in re.split(r"[^a-z]+", apart.lower()))


@dataclass(frozen=True)
class Repeating:
    """A column with so many different values in so many rows: a few rows of each."""

    name: str
    different: int
    rows: int

    @property
    def identifies(self) -> bool:
        """Whether it is named like an identifier, too."""
        return is_named(self.name, IDENTIFIER)


def repeating_columns(table: Table) -> Iterator[Repeating]:
    """Columns that may name people with several rows, where nobody said which one does."""
    if table.key is not None or table.person is not None:
        return
    table = replace(table, source=table.source.origin)
    plain = [
        field.name for field in table.source.schema
        if field.name not in table.sensitive
        and (pa.types.is_integer(field.type) or pa.types.is_string(field.type))
    ]  # fmt: skip
    batch = _first_rows(table, plain)
    if batch is None:
        return
    for name in plain:
        values = batch.column(name).drop_null()
        different = len(values.unique())
        if _LEAST <= different < len(values) <= _ROWS_EACH * different:
            yield Repeating(name, different, len(values))


def _first_rows(table: Table, columns: Sequence[str]) -> pa.RecordBatch | None:
    """The first rows, where there are enough of them to look at."""
    batch = next(iter(table.batches([*table.sensitive, *columns], SEEN)), None)
    batch = None if batch is None else drop_missing(table, batch.slice(0, SEEN))
    return None if batch is None or batch.num_rows < _LEAST else batch


def _codes(array: pa.Array) -> tuple[IntArray, int]:
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    number = len(coded.dictionary)
    return np.asarray(coded.indices.fill_null(number).to_numpy(), np.int64), number + 1


def _guessed(code: IntArray, number: int, truth: IntArray) -> float:
    """How often the commonest value among those with the same code is right.

    Columns with few rows of each value tell nothing that way: guesses would fit by accident.
    """
    if len(code) < _ROWS_EACH * len(np.unique(code)):
        return 0.0
    values = int(truth.max()) + 1
    pairs, counts = np.unique(code * values + truth, return_counts=True)
    largest = np.zeros(number, np.int64)
    np.maximum.at(largest, pairs // values, counts)
    return float(largest.sum()) / len(code)
