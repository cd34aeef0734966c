"""Executors write the records of a release to a store that they all reach: a task for each part.

Rows are sorted as on one machine, by all their columns, and numbered through, so a part has the
rows, and with them the bytes, that the local engine gives it. Every attempt of a task writes the
same, and in the store a file appears whole or not at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.draws import IntArray
from sfumato.engines import spelling
from sfumato.engines.shown import ShownRows
from sfumato.engines.spark.sealing import Sealed
from sfumato.engines.spark.session import gathered, made_on_disk, partition
from sfumato.engines.spark.worker import Batches, Work, published_rows
from sfumato.errors import DataError
from sfumato.release.records import part_name
from sfumato.storage import Stored

_ROW = "row"  # the column that numbers rows


class StoredRows:
    """Published rows, on the executors' disks until they are in the store."""

    def __init__(self, frame: Any, work: Sealed[Work], store: Stored) -> None:
        self._frame, self._store = frame, store
        self.rows, self._schema = ShownRows.of(work.open().table), pa.schema([])

        def note(batches: Batches) -> tuple[int, list[pa.Array], pa.Schema | None]:
            rows, schema = ShownRows.of(work.open().table), None
            for batch in published_rows(batches):
                rows.add(batch)
                schema = batch.schema
            return rows.number, [column.noted for column in rows.columns], schema

        for number, columns, schema in gathered(frame, note):
            self.rows.number, self._schema = self.rows.number + number, schema or self._schema
            for column, noted in zip(self.rows.columns, columns, strict=True):
                column.add(noted)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for row in self._frame.toLocalIterator():
            yield from pa.ipc.open_stream(row.rows)

    def spell(
        self,
        folder: Path,
        columns: Sequence[spelling.Spelled],
        records: spelling.Batches,
        lists: spelling.Batches | None = None,
        first: Sequence[int] = (0,),
        *,
        many: bool = False,
    ) -> None:
        """`engines.spelling.spell` of these rows; what is in the store comes to the folder, too."""
        session, number = self._frame.sparkSession, None
        with closing(Sealed(self.rows, session)) as sealed:
            if lists is not None:
                number = spelling.bucket_order(self._bucket_words(sealed, lists), first)
                spelling.write_lists(folder, columns, lists, number)
        with closing(Sealed((self.rows, number), session)) as numbered:
            names = self._put(numbered)
        (folder / names[0]).parent.mkdir()
        for name in names:
            self._store.fetch(name, folder / name)

    def _bucket_words(self, rows: Sealed[ShownRows], lists: spelling.Batches) -> spelling.Words:
        many = spelling.bucket_count(lists)

        def add(batches: Batches) -> spelling.Words:
            return spelling.bucket_words(map(rows.open().ordered, published_rows(batches)), many, 0)

        return sum(gathered(self._frame, add), spelling.bucket_words(lists(), many, 1))

    def _put(self, shown: Sealed[tuple[ShownRows, IntArray | None]]) -> list[str]:
        """Write the parts; their names."""
        from pyspark.sql import functions
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = self.rows.ordered(pa.RecordBatch.from_pylist([], self._schema)).schema
        plain = pa.schema([(f"c{i}", _sortable(kind)) for i, kind in enumerate(schema.types)])
        numbered = plain.append(pa.field(_ROW, pa.int64()))
        group, address = spelling.ROW_GROUP, self._store.address
        size = group * spelling.GROUPS

        def restore(batches: Batches) -> Batches:
            rows, number = shown.open()

            def ordered() -> Batches:
                return map(rows.ordered, published_rows(batches))

            for batch in (ordered if number is None else spelling.renumbered(ordered, number))():
                arrays = [a.cast(t) for a, t in zip(batch.columns, plain.types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=plain)

        def count(batches: Batches) -> tuple[int, int]:
            return partition(), sum(batch.num_rows for batch in batches)

        def enumerate_rows(batches: Batches) -> Batches:
            row = starts[partition()]
            for batch in batches:
                places = pa.array(np.arange(row, row + batch.num_rows))
                row += batch.num_rows
                yield pa.RecordBatch.from_arrays([*batch.columns, places], schema=numbered)

        def write(batches: Batches) -> None:
            for part, pieces in groupby(_pieces(batches, size), key=lambda piece: piece[0]):
                spelled = [column.spelled() for column in shown.open()[0].columns]
                with tempfile.TemporaryDirectory() as temporary:
                    file, rows = Path(temporary) / "part", (rows for _, rows in pieces)
                    tables = spelling.row_groups(spelled, schema, rows, group)
                    spelling.write_file(file, tables)
                    try:
                        Stored.at(address).put(part_name(part), file)
                    except DataError as error:
                        raise DataError(f"{error} Spark's executors write there.") from None

        typed = self._frame.mapInArrow(restore, from_arrow_schema(plain))
        keys = [functions.col(name).asc_nulls_last() for name in plain.names]
        with made_on_disk(typed.sort(*keys)) as ordered:
            starts, rows = {}, 0
            for number, counted in sorted(gathered(ordered, count)):
                starts[number], rows = rows, rows + counted
            names = [part_name(part) for part in range(-(-rows // size))]
            self._store.begun.extend(names)
            placed = ordered.mapInArrow(enumerate_rows, from_arrow_schema(numbered))
            parts = placed.repartition(len(names), functions.expr(f"{_ROW} div {size}"))
            for _ in gathered(parts.sortWithinPartitions(_ROW), write):
                pass
        return names


def _sortable(kind: pa.DataType) -> pa.DataType:
    """A type that Spark sorts as DuckDB sorts this one: its codes and times are whole numbers."""
    if pa.types.is_temporal(kind) or pa.types.is_unsigned_integer(kind):
        return pa.int32() if kind.bit_width == 32 and pa.types.is_temporal(kind) else pa.int64()
    return kind


def _pieces(batches: Batches, size: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows in order, with the part that they belong to."""
    for batch in batches:
        while batch.num_rows:
            row = batch.column(_ROW)[0].as_py()
            rows = batch.slice(0, size - row % size)
            batch = batch.slice(rows.num_rows)
            yield row // size, rows.drop_columns([_ROW])
