"""What executors do in the second pass: publish partitions, then make shuffled files of the rows.

The order of the rows is uniformly random, as the local engine's is (Rao 1961, Sandelius 1962):
`deal` publishes a partition and deals its rows to random piles, Spark carries the piles together,
`gather` puts each pile in random order and makes one Parquet file of it. Between the two a pile's
rows of one partition travel as a single value, in compact form, that Spark need not look into.

Nothing here depends on which attempt of a task runs, on the machine, or on when. A record's rank
and draws follow from its partition's number and its place in it; a pile is put together in the
order of partitions. `print` tells what a partition gave so far: should Spark have to run it again
because a machine was lost, and should it then give something else, the piles disagree about it and
the driver stops.
"""

from __future__ import annotations

import hashlib
import pickle
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato.draws import Draws, IntArray, Positions
from sfumato.engines.compact import CompactRows, single_chunk
from sfumato.engines.counting import no_progress
from sfumato.engines.kinds import hold
from sfumato.engines.order import Regroup, joined, take
from sfumato.engines.quasi import Seen, quasi_column
from sfumato.engines.spark.counting import Sections
from sfumato.engines.spark.sealing import Sealed
from sfumato.engines.stream import RecordStream
from sfumato.engines.writing import record_file
from sfumato.mechanisms import Batch, RecordPlan
from sfumato.profile import Kinds, Profile
from sfumato.sorting import counted_order
from sfumato.table import Table
from sfumato.table.plain import normalize
from sfumato.table.sources import Source
from sfumato.table.spark import named, to_bytes

DEALT = "pile int, partition int, chunk int, print long, rows binary"
GATHERED = "pile int, records long, file binary, prints binary, seen binary"
_CHUNK = 1 << 19  # rows dealt to the piles at once
_WORTH = 4  # texts that repeat this often travel as codes

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, eq=False)
class Work:
    """All that a task needs. `order_draws` are for the order of rows, `draws` for the rest."""

    table: Table  # its roles; its source has a schema and no rows
    profile: Profile
    plan: RecordPlan
    sections: Sections
    draws: Draws
    order_draws: Draws
    piles: int
    folder: str | None = None  # where tasks put files, if they can; they return them otherwise
    kinds: Kinds | None = None  # where rows come with the kind and the rank of their person

    def stream(self, number: int, batches: Batches) -> RecordStream:
        """The records of one partition through the plan."""
        people = None if self.kinds is None else GivenPeople(self.kinds)
        source = PartitionSource(self.table.source, batches, self.table.quasi, people)
        return RecordStream(
            replace(self.table, source=source),
            self.profile,
            self.plan,
            self.draws,
            1 << 16,
            False,
            no_progress,
            section=self.sections.section(number),
            people=people,
        )


class GivenPeople:
    """Kinds and ranks that come with the rows, batch by batch."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._given: tuple[IntArray, IntArray] | None = None

    def take(self, columns: Sequence[pa.Array]) -> None:
        kinds, ranks = (np.asarray(each.to_numpy(), np.int64) for each in columns)
        self._given = kinds, ranks

    def __call__(
        self, codes: Mapping[str, IntArray], start: int, blocks: IntArray | None = None
    ) -> tuple[IntArray, IntArray] | None:
        assert self._given is not None
        return self._given if hold(self._kinds, self._given[0], codes) else None


class PartitionSource(Source):
    """The batches of one partition as Spark hands them over: once. Texts become codes.

    Columns behind those of the table are for `people`.
    """

    def __init__(
        self,
        described: Source,
        batches: Batches,
        coded: Sequence[str],
        people: GivenPeople | None = None,
    ) -> None:
        self.label, self.schema = described.label, described.schema
        self._batches, self._coded, self._people = batches, frozenset(coded), people

    def batches(
        self, columns: Sequence[str], rows: int, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            if self._people is not None:
                self._people.take(batch.columns[len(columns) :])
                batch = batch.select(range(len(columns)))
            plain = normalize(named(batch, columns), columns)
            arrays = [
                _coded(array) if name in self._coded else array
                for name, array in zip(columns, plain.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def dealer(work: Sealed[Work]) -> Callable[[Batches], Batches]:
    """The function of a task that publishes a partition and deals its rows (`DEALT`)."""

    def deal_partition(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from deal(work.open(), context.partitionId(), batches)

    return deal_partition


def deal(work: Work, number: int, batches: Batches) -> Batches:
    stream = work.stream(number, batches)
    ready: list[pa.Table] = []
    chunks = Regroup(_CHUNK, ready.append)
    told = hashlib.blake2b(digest_size=8)
    dealt, chunk = work.sections.section(number).start, 0

    def waiting() -> Batches:
        nonlocal dealt, chunk
        while ready:
            rows = ready.pop(0)
            piles = _piles(work, stream.rows, rows, dealt)
            for _, content in piles:
                told.update(content)
            told_now = int.from_bytes(told.digest(), "little", signed=True)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([pile for pile, _ in piles], pa.int32()),
                    pa.array([number] * len(piles), pa.int32()),
                    pa.array([chunk] * len(piles), pa.int32()),
                    pa.array([told_now] * len(piles), pa.int64()),
                    pa.array([content for _, content in piles], pa.binary()),
                ],
                names=["pile", "partition", "chunk", "print", "rows"],
            )
            dealt, chunk = dealt + rows.num_rows, chunk + 1

    for batch in stream:
        chunks.add(pa.Table.from_batches([batch]))
        yield from waiting()
    chunks.finish()
    yield from waiting()


def _piles(work: Work, known: CompactRows, rows: pa.Table, dealt: int) -> list[tuple[int, bytes]]:
    """The rows of a chunk by pile, as they travel. `dealt` is the address of the first one."""
    address = Positions(dealt, rows.num_rows)
    pile = work.order_draws.below("shuffle pile", address, work.piles)
    sorted_rows = take(rows, counted_order(pile, work.piles))
    arrays = [
        column.restore(single_chunk(sorted_rows, column.name), ordered=False)
        for column in known.quasi
    ]
    made = [single_chunk(sorted_rows, name) for name in (*known.sensitive, *known.extra)]
    ends = np.cumsum(np.bincount(pile, minlength=work.piles)).tolist()
    piles, start = [], 0
    for place, end in enumerate(ends):
        if end > start:
            part = [_apart(array, start, end - start) for array in (*arrays, *made)]
            piles.append(
                (place, to_bytes(pa.RecordBatch.from_arrays(part, names=rows.schema.names)))
            )
        start = end
    return piles


def gatherer(work: Sealed[Work]) -> Callable[[pa.Table], pa.Table]:
    """The function of a task that makes the file of a pile (`GATHERED`)."""

    def gather_pile(dealt: pa.Table) -> pa.Table:
        return gather(work.open(), dealt)

    return gather_pile


def gather(work: Work, dealt: pa.Table) -> pa.Table:
    # shuffled blocks arrive in whatever order machines are quick
    dealt = dealt.sort_by([("partition", "ascending"), ("chunk", "ascending")])
    pile = int(dealt.column("pile")[0].as_py())
    batches = [
        pa.ipc.open_stream(content.as_buffer()).read_next_batch() for content in dealt["rows"]
    ]
    file, records, seen = make_file(work, pile, batches)
    if work.folder is not None:
        _put(Path(work.folder), pile, file)
        file = b""
    prints = [dealt.column(name).to_numpy() for name in ("partition", "chunk", "print")]
    return pa.table(
        {
            "pile": pa.array([pile], pa.int32()),
            "records": pa.array([records], pa.int64()),
            "file": pa.array([file], pa.binary()),
            "prints": pa.array([np.stack(prints, axis=1).astype(np.int64).tobytes()], pa.binary()),
            "seen": pa.array([pickle.dumps(seen)], pa.binary()),
        }
    )


def _put(folder: Path, pile: int, file: bytes) -> None:
    """Several attempts of a task may do this at once: all put the same, each of them whole."""
    own = folder / f"{pile}-{secrets.token_hex(8)}"
    own.write_bytes(file)
    own.replace(folder / str(pile))


def empty_file(work: Work) -> bytes:
    """The file of a release without records: its columns alone."""
    table, none = work.table, np.empty(0, np.int64)
    codes = dict.fromkeys(work.profile.histograms, none)
    ranks = codes if work.plan.needs_rank else {}
    addresses = dict.fromkeys(codes, Positions(0, 0))
    outcome = work.plan.apply(Batch(codes, ranks, addresses), work.draws)
    arrays = [pa.array([], table.type_of(name)) for name in table.quasi]
    arrays += [pa.array([], pa.int32()) for _ in (*outcome.codes, *outcome.extra)]
    names = [*table.quasi, *outcome.codes, *outcome.extra]
    return make_file(work, 0, [pa.RecordBatch.from_arrays(arrays, names=names)])[0]


def make_file(
    work: Work, pile: int, batches: Sequence[pa.RecordBatch]
) -> tuple[bytes, int, dict[str, Seen]]:
    """A pile in random order as a Parquet file; how many records; what its quasi columns show."""
    table, known = work.table, CompactRows(work.table, work.profile)
    names = batches[0].schema.names
    known.quasi = [quasi_column(table, name, batches[0].column(name).type) for name in table.quasi]
    made = [name for name in names if name not in table.quasi]
    known.sensitive = tuple(name for name in made if name in table.sensitive)
    known.extra = tuple(name for name in made if name not in table.sensitive)
    pieces = []
    for batch in batches:
        arrays = [column.add(batch.column(column.name)) for column in known.quasi]
        arrays += [batch.column(name) for name in made]
        pieces.append(pa.Table.from_arrays(arrays, names=[*table.quasi, *made]))
    rows = joined(pieces)
    order = work.order_draws.order(f"shuffle inside {pile}", rows.num_rows)
    final = known.restore(take(rows, order), ordered=True)
    sink = pa.BufferOutputStream()
    with record_file(sink, final.schema) as writer:
        writer.write_table(final, row_group_size=max(final.num_rows, 1))
    seen = {column.name: column.seen() for column in known.quasi}
    return sink.getvalue().to_pybytes(), rows.num_rows, seen


def _coded(array: pa.Array) -> pa.Array:
    if not pa.types.is_string(array.type):
        return array
    codes = array.dictionary_encode()
    return codes if _WORTH * len(codes.dictionary) <= len(array) else array


def _apart(array: pa.Array, start: int, rows: int) -> pa.Array:
    """A run of rows by itself; texts as codes where their dictionary is not the larger part."""
    piece = array.slice(start, rows)
    if not pa.types.is_dictionary(array.type):
        return piece
    if len(array.dictionary) > rows:
        return piece.dictionary_decode()
    width = pa.int8() if len(array.dictionary) < 1 << 7 else pa.int16()
    if len(array.dictionary) >= 1 << 15:
        return piece
    return pa.DictionaryArray.from_arrays(piece.indices.cast(width), array.dictionary)
