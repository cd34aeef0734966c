"""Whose rows a run publishes, as a ledger knows them: hashes of people, and marks of their draws.

A mark follows from operator, domain, key and value under a subkey of the key file, so that without
it all values are equally good guesses, and equal values of two people differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.columns import value_to_json
from sfumato.draws import Draws, Persons
from sfumato.engines.run import Run
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.scratch import scratch_database
from sfumato.table.staging import staged

Matrix = npt.NDArray[np.uint64]  # rows in the order of their first column, a person's hash
_BATCH = 1 << 17


def says_who(run: Run) -> list[str]:
    """The columns that say whose a row is: the person, and the key of the row."""
    return [name for name in (run.table.person, run.table.key) if name]


def names_of_marks(run: Run) -> list[str]:
    """A name for every column under this key file, which does not betray the file."""
    return [key.child("name").reveal() for key in _keys(run)]


def marked_people(run: Run, secret: str) -> Iterator[Matrix]:
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


def aligned(*streams: Iterator[Matrix]) -> Iterator[list[Matrix]]:
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
