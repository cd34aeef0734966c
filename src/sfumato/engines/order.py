"""The order in which rows leave: shuffled without a trace of the input, or as they came.

Rows reach these classes as compact columns (codes and plain arrays) and leave as row groups of a
fixed size, so that the file does not depend on how the stream was cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato.draws import Draws, Positions
from sfumato.sorting import counted_order

ROW_GROUP = 1 << 20
_SCATTER = 1 << 19  # rows dealt to the piles at once
_PILE = 3 << 18  # expected rows of a pile

Sink = Callable[[pa.Table], None]


class Order(ABC):
    """Takes compact batches in stream order, gives row groups to the sink."""

    @abstractmethod
    def add(self, batch: pa.RecordBatch) -> None: ...

    @abstractmethod
    def finish(self) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Let go of whatever is still open, after success or failure."""


class Regroup:
    """Cuts a stream of tables into pieces of exactly `rows` rows, the last one shorter."""

    def __init__(self, rows: int, sink: Sink) -> None:
        self._rows, self._sink = rows, sink
        self._parts: list[pa.Table] = []
        self._held = 0

    def add(self, table: pa.Table) -> None:
        while table.num_rows:
            part = table.slice(0, self._rows - self._held)
            self._parts.append(part)
            self._held += part.num_rows
            table = table.slice(part.num_rows)
            if self._held == self._rows:
                self.finish()

    def finish(self) -> None:
        if self._held:
            self._sink(joined(self._parts))
            self._parts, self._held = [], 0


class KeptOrder(Order):
    """Rows leave as they came."""

    def __init__(self, sink: Sink) -> None:
        self._groups = Regroup(ROW_GROUP, sink)

    def add(self, batch: pa.RecordBatch) -> None:
        self._groups.add(pa.Table.from_batches([batch]))

    def finish(self) -> None:
        self._groups.finish()

    def close(self) -> None:
        pass


class ShuffledOrder(Order):
    """A uniformly random order of all rows, in bounded memory.

    Every row is dealt to a random pile; every pile is put in random order; the piles follow one
    another (Rao 1961, Sandelius 1962: exactly uniform). Piles wait on disk in compact form, after
    publication: nothing that the release does not hold is ever written.
    """

    def __init__(self, sink: Sink, rows: int, draws: Draws, folder: Path) -> None:
        self._draws, self._folder = draws, folder
        self._groups = Regroup(ROW_GROUP, sink)
        self._piles = pile_count(rows)
        self._scatter = Regroup(_SCATTER, self._deal)
        self._dealt = 0
        self._memory: list[pa.Table] = []
        self._schemas: list[pa.Schema] = []  # codes grow wider; each time other files are begun
        self._writers: list[pa.ipc.RecordBatchStreamWriter] = []
        self._files: list[pa.NativeFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._scatter.add(pa.Table.from_batches([batch]))

    def _deal(self, table: pa.Table) -> None:
        if self._piles == 1:
            self._memory.append(table)
            return
        if table.schema not in self._schemas[-1:]:
            self._begin(table.schema)
        address = Positions(self._dealt, table.num_rows)
        self._dealt += table.num_rows
        pile = self._draws.below("shuffle pile", address, self._piles)
        dealt = take(table, counted_order(pile, self._piles))
        ends = np.cumsum(np.bincount(pile, minlength=self._piles)).tolist()
        start = 0
        for writer, end in zip(self._writers, ends, strict=True):
            if end > start:
                writer.write_table(dealt.slice(start, end - start))
            start = end

    def _begin(self, schema: pa.Schema) -> None:
        self._end()
        self._folder.mkdir(exist_ok=True)
        paths = [self._pile(number, len(self._schemas)) for number in range(self._piles)]
        self._schemas.append(schema)
        self._files = [pa.OSFile(str(path), "wb") for path in paths]
        self._writers = [pa.ipc.new_stream(file, schema) for file in self._files]

    def _end(self) -> None:
        for opened in (self._writers, self._files):
            while opened:
                opened.pop().close()

    def finish(self) -> None:
        self._scatter.finish()
        self._end()
        if self._memory:
            self._release(0, joined(self._memory))
        for number in range(self._piles if self._schemas else 0):
            paths = [self._pile(number, time) for time in range(len(self._schemas))]
            with ExitStack() as held:
                files = [held.enter_context(pa.memory_map(str(path))) for path in paths]
                self._release(number, joined([pa.ipc.open_stream(f).read_all() for f in files]))
            for path in paths:
                path.unlink()
        if self._schemas:
            self._folder.rmdir()
        self._groups.finish()

    def _release(self, number: int, pile: pa.Table) -> None:
        order = self._draws.order(f"shuffle inside {number}", pile.num_rows)
        self._groups.add(take(pile, order))

    def close(self) -> None:
        for opened in (*self._writers, *self._files):
            with suppress(OSError, pa.ArrowException):
                opened.close()

    def _pile(self, number: int, time: int) -> Path:
        return self._folder / f"{number}-{time}.arrow"


def pile_count(rows: int) -> int:
    """How many piles so many rows are dealt to, such that each fits into memory."""
    return max(1, -(-rows // _PILE))


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows one after the other, in one piece; codes as wide as the widest."""
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def take(table: pa.Table, order: np.ndarray) -> pa.Table:
    """Rows in the given order: through numpy where a column has no nulls, which is faster."""
    arrays = []
    indices = pa.array(order)
    for column in table.columns:
        chunk = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if (
            chunk.null_count == 0
            and pa.types.is_primitive(chunk.type)
            and (pa.types.is_integer(chunk.type) or pa.types.is_floating(chunk.type))
        ):
            # `clip` spares numpy a look at places that are all inside
            arrays.append(pa.array(chunk.to_numpy().take(order, mode="clip")))
        else:
            arrays.append(chunk.take(indices))
    return pa.Table.from_arrays(arrays, schema=table.schema)
