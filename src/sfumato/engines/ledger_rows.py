"""The rows of a ledger and of a run together: hashes of people, and marks of their draws.

A mark follows from operator, domain, key and value under a subkey of the key file, so that without
it all values are equally good guesses, and equal values of two people differ.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.columns import value_to_json
from sfumato.draws import Draws, IntArray, Persons
from sfumato.engines.run import Run
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.scratch import scratch_database
from sfumato.table.staging import staged

State = tuple[int, ...]  # what somebody holds: numbers of charges
Matrix = npt.NDArray[np.uint64]  # rows in the order of their first column, a person's hash
_BATCH = 1 << 17


@dataclass
class Met:
    """The people that a release meets: `moves` counts by what somebody held and comes to hold, the
    others of the ledger included; `another` by column those who are drawn otherwise than before."""

    people: int = 0
    new: int = 0
    another: Counter[str] = field(default_factory=Counter)
    moves: Counter[tuple[State, State]] = field(default_factory=Counter)


def says_who(run: Run) -> list[str]:
    """The columns that say whose a row is: the person, and the key of the row."""
    return [name for name in (run.table.person, run.table.key) if name]


def marks_of(run: Run) -> list[str]:
    """A name for every column under this key file, which does not betray the file."""
    return [key.child("name").reveal() for key in _keys(run)]


def joined(
    path: Path | None, run: Run, secret: str, marks: Sequence[str], met: Met
) -> Iterator[tuple[Matrix, Matrix]]:
    """The rows of a ledger's file and of a run together, with the marks of both, and of each one
    number: what it held and, as bits, the columns that are drawn anew."""
    columns = run.table.sensitive
    own = {
        column: 2 + marks.index(name) for column, name in zip(columns, marks_of(run), strict=False)
    }
    for old, now in _aligned(_stored(path), _arriving(run, secret)):
        both = np.sort(np.concatenate([old[:, 0], now[:, 0]]), kind="stable")  # merges two runs
        who = both[np.append(both[1:] != both[:-1], True)[: len(both)]]
        rows = np.zeros((len(who), 2 + len(marks)), np.uint64, "F")
        rows[:, 0], here = who, _places(now[:, 0], who)
        rows[_places(old[:, 0], who), : old.shape[1]] = old
        adds = np.full(len(now), (1 << len(columns)) - 1, np.uint64)
        for k, (column, place) in enumerate(own.items()):
            known, mark = rows[here, place].copy(), now[:, 1 + k]
            rows[here, place] = np.where(known == 0, mark, known)
            adds -= (known != 0).astype(np.uint64) << np.uint64(k)
            met.another[column] += int(((known != 0) & (known != mark)).sum())
        met.people += len(now)
        met.new += int((rows[here, 1] == 0).sum())
        kinds = rows[:, 1] << np.uint64(len(columns))
        kinds[here] += adds
        yield rows, kinds


def _places(some: Matrix, who: Matrix) -> slice | IntArray:
    """Where some of the people stand among these."""
    return slice(None) if np.array_equal(some, who) else np.searchsorted(who, some)


def _stored(path: Path | None) -> Iterator[Matrix]:
    """The rows of a ledger's file; first of all none."""
    file = None if path is None else pq.ParquetFile(path, pre_buffer=False)
    yield np.zeros((0, 2 if file is None else file.metadata.num_columns), np.uint64)
    for batch in [] if file is None else file.iter_batches(_BATCH):
        yield np.column_stack([column.to_numpy() for column in batch.columns])


def _arriving(run: Run, secret: str) -> Iterator[Matrix]:
    """The people of a run by the hash of each, with a mark of each column's draw under a key file;
    first of all none."""
    whose, columns, keys = says_who(run), run.table.sensitive, _keys(run)
    yield np.zeros((0, 1 + len(keys)), np.uint64)
    if not whose:
        return
    drawn = []
    for key, column in zip(keys, columns, strict=False):
        assert isinstance(run.plan, PerturbedPlan)
        values = [value_to_json(value) for value in run.profile.histograms[column].values]
        drawing = json.dumps([run.plan.operators[column].to_json(), values], sort_keys=True)
        words = key.persons("value", [repr(value).encode() for value in values]).blocks[:, 0]
        drawn.append((partial(key.words, drawing), words))
    source = staged(run.table)
    names = [source.columns[name] for name in (*whose, *columns)]
    batches = source.people.sql(f"SELECT {', '.join(names)} FROM people", *names)
    first = next(batches)
    # MD5 will do: whoever finds two keys with one hash has them charged for one another
    hashed = [f"(md5_number($secret || {name}::VARCHAR) >> 64)::UBIGINT" for name in names]
    found = ", ".join([f"{hashed[0]} AS who", *hashed[1 : len(whose)], *names[len(whose) :]])
    with closing(scratch_database(columns=2)) as database:
        people = pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
        database.register("people", people)
        query = f"SELECT {found} FROM people ORDER BY who"
        for batch in database.sql(query, params={"secret": secret}).to_arrow_reader(_BATCH):
            arrays = [column.to_numpy() for column in batch.columns]
            row, codes = arrays[len(whose) - 1], arrays[len(whose) :]  # whose draws they are
            marks = [
                mark(Persons(np.column_stack([row, words[code]])))
                for (mark, words), code in zip(drawn, codes, strict=False)
            ]
            yield np.column_stack([arrays[0], *marks])


def _aligned(*streams: Iterator[Matrix]) -> Iterator[list[Matrix]]:
    """Sorted streams step by step, so that the rows of one person come together."""
    heads = [next(stream) for stream in streams]
    while True:
        pairs = list(zip(heads, streams, strict=True))
        heads = [head if len(head) else next(stream, head) for head, stream in pairs]
        ends = [head[-1, 0] for head in heads if len(head)]
        if not ends:
            return
        cuts = [int(np.searchsorted(head[:, 0], min(ends), "right")) for head in heads]
        yield [head[:cut] for head, cut in zip(heads, cuts, strict=True)]
        heads = [head[cut:] for head, cut in zip(heads, cuts, strict=True)]


def _keys(run: Run) -> list[Draws]:
    """For every sensitive column the subkey of the key file that its marks are made with."""
    keyed = run.draws.origin == "key-file"
    return [run.draws.child(f"ledger {name}") for name in run.table.sensitive] if keyed else []
