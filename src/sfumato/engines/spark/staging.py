"""A DataFrame as it is published: coded where it lies, and counted there by the same SQL.

Two passes: every partition tells which values it has, then they become codes. The coded rows stay
on the executors' disks until the run ends, each with the number of its partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.engines.spark.sealing import Sealed
from sfumato.engines.spark.session import gathered, made_on_disk, partition
from sfumato.engines.stream import changed
from sfumato.table import Table
from sfumato.table.plain import normalize
from sfumato.table.spark import named, numbered
from sfumato.table.staging import (
    Batches,
    CodedPeople,
    FirstPass,
    Staged,
    Step,
    codes_among,
    drop_missing,
    sql_columns,
)

PART = "part"  # the partition of a row


class FramePeople(CodedPeople):
    """Records that Spark counts."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def sql(self, query: str, *columns: str) -> Batches:
        import sqlglot

        (text,) = sqlglot.transpile(query, read="duckdb", write="spark")
        text = text.replace("FROM people", "FROM {people}")
        answer = self._frame.sparkSession.sql(text, people=self._frame).toArrow()
        for batch in answer.to_batches():
            yield normalize(batch, batch.schema.names)


class FrameStaged(Staged):
    """Rows on the executors' disks, as `stage_frame` has coded them; a copy that travels to the
    executors is without them."""

    engine = "spark"
    frame: Any = None
    sealed: Sealed[FrameStaged]

    def __init__(self, look: FirstPass) -> None:
        source = look.table.source
        self.label, self.schema, self.columns = source.label, source.schema, sql_columns(look.table)
        self.domains, self.number = look.domains(look.table.domains), look.number
        self.dropped = look.read - look.number

    def __getstate__(self) -> dict[str, Any]:
        return {name: held for name, held in vars(self).items() if name not in ("frame", "sealed")}

    @property
    def people(self) -> CodedPeople:
        return FramePeople(self.frame)

    def batches(self, columns: Sequence[str], rows: int, threads: bool = True) -> Batches:
        raise TypeError(f"{self.label} is not read here")

    def map(self, columns: Sequence[str], step: Step, schema: pa.Schema) -> CodedPeople:
        """What becomes of the rows has the number of their partition, too."""
        from pyspark.sql.pandas.types import from_arrow_schema

        sealed, schema = self.sealed, schema.append(pa.field(PART, pa.int32()))

        def changed(batches: Batches) -> Batches:
            rows = sealed.open()
            for batch in batches:
                *arrays, part = batch.columns
                made = step(rows.coded(columns, arrays))
                yield pa.RecordBatch.from_arrays([*made.columns, part], schema=schema)

        chosen = numbered(self.frame, [*(self.columns[name] for name in columns), PART])
        return FramePeople(chosen.mapInArrow(changed, from_arrow_schema(schema)))

    def coded(self, columns: Sequence[str], arrays: Sequence[pa.Array]) -> pa.RecordBatch:
        """The columns of a batch as Spark hands it over."""
        plain = normalize(pa.RecordBatch.from_arrays(arrays, names=list(columns)), columns)
        return self.with_domains(columns, plain.columns)


def stage_frame(table: Table, frame: Any, held: ExitStack) -> Table:
    """The table with its rows coded on the executors, until `held` ends."""
    from pyspark.sql.pandas.types import from_arrow_schema

    columns, whole = sql_columns(table), FirstPass(table)
    names = list(columns)
    chosen = numbered(frame, names)

    def tell(batches: Batches) -> FirstPass:
        look = FirstPass(table)
        for batch in batches:
            look.add(normalize(named(batch, names), names))
        return look

    for look in gathered(chosen, tell):
        whole.join(look)
    whole.check()
    rows = FrameStaged(whole)
    rows.sealed = sealed = held.enter_context(closing(Sealed(rows, frame.sparkSession)))
    kinds = [
        (column, pa.int32() if name in rows.domains else table.type_of(name))
        for name, column in columns.items()
    ]
    schema = pa.schema([*kinds, (PART, pa.int32())])

    def code(batches: Batches) -> Batches:
        domains, number = sealed.open().domains, partition()
        for batch in batches:
            plain = drop_missing(table, normalize(named(batch, names), names))
            arrays = [
                _codes(table, array, domains[name]) if name in domains else array
                for name, array in zip(names, plain.columns, strict=True)
            ]
            part = pa.repeat(pa.scalar(number, pa.int32()), plain.num_rows)
            yield pa.RecordBatch.from_arrays([*arrays, part], schema=schema)

    coded = chosen.mapInArrow(code, from_arrow_schema(schema))
    rows.frame = held.enter_context(made_on_disk(coded))  # now: what it is made from goes
    return replace(table, source=rows)


def _codes(table: Table, array: pa.Array, domain: pa.Array) -> pa.Array:
    """Where values stand in a domain: one that was not there a moment ago is not missing."""
    codes = codes_among(array, domain)
    if codes.min(initial=0) < 0:
        raise changed(table, "it shows other values than a moment ago")
    return pa.array(codes.astype(np.int32))
