"""The order in which rows leave: shuffled without a trace of the input, or as they came.

Rows reach these classes as compact columns (codes and plain arrays) and leave as row groups of a
fixed size, so that the file does not depend on how the stream was cut.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato.draws import Draws, Positions

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
            self._sink(pa.concat_tables(self._parts).combine_chunks())
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
        self._writers: list[pa.ipc.RecordBatchStreamWriter] = []
        self._files: list[pa.NativeFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._scatter.add(pa.Table.from_batches([batch]))

    def _deal(self, table: pa.Table) -> None:
        if self._piles == 1:
            self._memory.append(table)
            return
        if not self._writers:
            self._folder.mkdir()
            self._files = [pa.OSFile(str(self._pile(i)), "wb") for i in range(self._piles)]
            self._writers = [pa.ipc.new_stream(file, table.schema) for file in self._files]
        address = Positions(self._dealt, table.num_rows)
        self._dealt += table.num_rows
        pile = self._draws.below("shuffle pile", address, self._piles).astype(np.uint16)
        dealt = take(table, np.argsort(pile, kind="stable"))
        ends = np.cumsum(np.bincount(pile, minlength=self._piles)).tolist()
        start = 0
        for writer, end in zip(self._writers, ends, strict=True):
            if end > start:
                writer.write_table(dealt.slice(start, end - start))
            start = end

    def finish(self) -> None:
        self._scatter.finish()
        spilled = bool(self._writers)
        while self._writers:
            self._writers.pop().close()
        while self._files:
            self._files.pop().close()
        if self._memory:
            self._release(0, pa.concat_tables(self._memory).combine_chunks())
        for number in range(self._piles if spilled else 0):
            with pa.memory_map(str(self._pile(number))) as file:
                self._release(number, pa.ipc.open_stream(file).read_all().combine_chunks())
            self._pile(number).unlink()
        if spilled:
            self._folder.rmdir()
        self._groups.finish()

    def _release(self, number: int, pile: pa.Table) -> None:
        order = self._draws.order(f"shuffle inside {number}", pile.num_rows)
        self._groups.add(take(pile, order))

    def close(self) -> None:
        for opened in (*self._writers, *self._files):
            with contextlib.suppress(OSError, pa.ArrowException):
                opened.close()

    def _pile(self, number: int) -> Path:
        return self._folder / f"{number}.arrow"


def pile_count(rows: int) -> int:
    """How many piles so many rows are dealt to, such that each fits into memory."""
    return max(1, -(-rows // _PILE))


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
            arrays.append(pa.array(chunk.to_numpy()[order]))
        else:
            arrays.append(chunk.take(indices))
    return pa.Table.from_arrays(arrays, schema=table.schema)
