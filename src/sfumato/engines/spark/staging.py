"""A DataFrame as it is published: coded where it lies, and counted there by the same SQL.

Two passes: every partition tells which values it has, then they become codes. The coded rows stay
on the executors' disks until the run ends, each with the number of its partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.spark.sealing import Sealed
from sfumato.engines.spark.session import gathered, made_on_disk, partition
from sfumato.engines.stream import changed
from sfumato.table import Table
from sfumato.table.plain import normalize
from sfumato.table.spark import SchemaSource, named, numbered
from sfumato.table.staging import (
    Batches,
    CodedPeople,
    Look,
    Staged,
    Step,
    drop_missing,
    sql_columns,
    without_nan,
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
    """Rows on the executors' disks, as `stage_frame` has coded them."""

    engine = "spark"

    def __init__(
        self,
        table: Table,
        frame: Any,
        domains: Sealed[Mapping[str, pa.Array]],
        number: int,
        dropped: int,
    ) -> None:
        self.label, self.schema = table.label, table.source.schema
        self.columns, self.domains = sql_columns(table), domains.open()
        self.frame, self.number, self.dropped, self._sealed = frame, number, dropped, domains

    @property
    def people(self) -> CodedPeople:
        return FramePeople(self.frame)

    def batches(self, columns: Sequence[str], rows: int, threads: bool = True) -> Batches:
        raise TypeError(f"{self.label} is not read here")

    def map(self, columns: Sequence[str], step: Step, schema: pa.Schema) -> CodedPeople:
        """What becomes of the rows has the number of their partition, too."""
        from pyspark.sql.pandas.types import from_arrow_schema

        coded_names = {name: self.columns[name] for name in columns}
        sealed, schema = self._sealed, schema.append(pa.field(PART, pa.int32()))

        def changed(batches: Batches) -> Batches:
            domains = sealed.open()
            for batch in batches:
                coded = named(batch, [*coded_names.values(), PART])
                changed_batch = step(restored_batch(coded, coded_names, domains))
                yield pa.RecordBatch.from_arrays(
                    [*changed_batch.columns, coded.column(PART)], schema=schema
                )

        chosen = numbered(self.frame, [*coded_names.values(), PART])
        return FramePeople(chosen.mapInArrow(changed, from_arrow_schema(schema)))


def restored_batch(
    coded: pa.RecordBatch, columns: Mapping[str, str], domains: Mapping[str, pa.Array]
) -> pa.RecordBatch:
    """The values of coded rows."""
    plain = normalize(coded, list(columns.values()))
    arrays = [
        pa.DictionaryArray.from_arrays(array, domains[name], safe=False)
        if name in domains
        else array
        for name, array in zip(columns, plain.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def stage_frame(table: Table, frame: Any, held: ExitStack) -> Table:
    """The table with its rows coded on the executors, until `held` ends."""
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = sql_columns(table)
    names = list(columns)
    described = replace(table, source=SchemaSource(table.label, table.source.schema))

    def tell(batches: Batches) -> tuple[Mapping[str, pa.Array], int, int, Mapping[str, int]]:
        look = Look(described)
        for batch in batches:
            look.add(normalize(named(batch, names), names))
        return look.domains, look.read, look.number, look.missing

    whole = Look(table)
    chosen = numbered(frame, names)
    for seen, read, number, missing in gathered(chosen, tell):
        whole.read, whole.number = whole.read + read, whole.number + number
        for name, values in seen.items():
            whole.code(name, values)
        for name, absent in missing.items():
            whole.missing[name] += absent
    whole.check()
    domains = whole.domains
    sealed = Sealed[Mapping[str, pa.Array]](domains, frame.sparkSession)
    held.enter_context(closing(sealed))
    kinds = [
        (column, pa.int32() if name in domains else table.type_of(name))
        for name, column in columns.items()
    ]
    schema = pa.schema([*kinds, (PART, pa.int32())])

    def code(batches: Batches) -> Batches:
        values, number = sealed.open(), partition()
        for batch in batches:
            plain = drop_missing(described, normalize(named(batch, names), names))
            arrays = [
                _codes(described, array, values[name]) if name in values else array
                for name, array in zip(names, plain.columns, strict=True)
            ]
            part = pa.repeat(pa.scalar(number, pa.int32()), plain.num_rows)
            yield pa.RecordBatch.from_arrays([*arrays, part], schema=schema)

    coded = chosen.mapInArrow(code, from_arrow_schema(schema))
    kept = held.enter_context(made_on_disk(coded))  # now: what it is made from goes
    dropped = whole.read - whole.number
    return replace(table, source=FrameStaged(table, kept, sealed, whole.number, dropped))


def _codes(table: Table, array: pa.Array, domain: pa.Array) -> pa.Array:
    """Where values stand in a domain: one that was not there a moment ago is not missing."""
    given = without_nan(array)
    codes = pc.index_in(given, value_set=domain, skip_nulls=True)
    if codes.null_count != given.null_count:
        raise changed(table, "it shows other values than a moment ago")
    return codes
