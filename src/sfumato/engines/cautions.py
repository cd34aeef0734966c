"""What a steward should be told besides the promise, seen in the first rows of the table.

A promise counts one record per person and limits what the release adds to what its reader knows:
a column that repeats like an identifier, or that all but tells the sensitive one, is no breach of
it and a danger all the same. So are draws for the same people under two promises.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato.draws import IntArray
from sfumato.guarantees import Guarantee
from sfumato.private import MODE, keep_private, read_private
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


def key_cautions(key_file: str | Path, guarantee: Guarantee, table: Table) -> Iterator[str]:
    """What to say of a key that drew for the same column under another promise before.

    Beside the key, in a private file, stands what it was used for.
    """
    if table.person is not None:
        yield (
            f"Under the key file {str(key_file)!r} the same rows of a person are published again, "
            "as long as the person has no others. Somebody with new rows may show one of these "
            "instead, and whoever has both releases sees draws of both: what is promised of one "
            "release is then not promised of the two together."
        )
    path = Path(f"{key_file}.uses")
    uses: list[list[str]] = []
    if path.is_file():
        keep_private(path)
    with suppress(ValueError):
        uses = json.loads(read_private(path, "the list of uses") or "[]")
    now = [[column, str(guarantee)] for column in table.sensitive]
    for column, promise in now:
        other = sorted({used for name, used in uses if name == column and used != promise})
        if other:
            yield (
                f"The key file {str(key_file)!r} drew for column {column!r} before, under "
                f"'{other[0]}'. Draws under two promises are independent, so whoever has both "
                "releases learns more than either promise allows: keep to one promise for a key, "
                "and take the operator over with --previous."
            )
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE)
        with os.fdopen(opened, "w", encoding="ascii") as file:
            json.dump([*uses, *(use for use in now if use not in uses)], file)
    except OSError as error:
        yield (
            f"What the key file {str(key_file)!r} was used for cannot be kept beside it "
            f"({error.strerror}): do not use it under another promise."
        )
