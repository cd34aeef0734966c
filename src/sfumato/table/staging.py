"""The table as it is published: the rows that count, looked at once, in columns of small numbers.

Whatever a source is, one pass over it leaves texts as codes, sensitive values too, and drops rows
without a sensitive value where that is the rule. When it ends, codes are final: places in the
domain of their column. Every count is one SQL text over `people`, whose columns are q0, q1 … for
the quasi-identifiers, s0 … for the sensitive columns, and the names of the key and the person.
Numbers and times stay what they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Range, Value, Values
from sfumato.errors import DataError
from sfumato.pace import Progress
from sfumato.scratch import scratch_database
from sfumato.table.sources import Source, reading_errors
from sfumato.table.spool import Spool

if TYPE_CHECKING:
    from sfumato.table import Table

MOST_VALUES = 100_000  # a sensitive column with more different values needs bins
LARGE = 1 << 20  # rows from which on a database is not kept for its next user
_BATCH = 1 << 17

Batches = Iterator[pa.RecordBatch]
Step = Callable[[pa.RecordBatch], pa.RecordBatch]


def no_progress(stage: str, done: int, total: int) -> None:
    """Progress for nobody."""


class CodedPeople(ABC):
    """Records in columns of numbers, and what can be asked of them."""

    @abstractmethod
    def sql(self, query: str, *columns: str) -> Batches:
        """What a query over these columns of `people` finds.

        The SQL is small, so that every engine runs it: count, sum, min and max, GROUP BY, and
        row_number over a total order.
        """

    def count(self, *columns: str) -> pa.Table:
        """The different rows of these columns, and as `n` how often each occurs."""
        return pa.Table.from_batches(self.counted(*columns))

    def counted(self, *columns: str) -> Batches:
        named = ", ".join(columns)
        return self.sql(f"SELECT {named}, count(*) AS n FROM people GROUP BY ALL", *columns)


class LocalPeople(CodedPeople):
    """Records that DuckDB counts and sorts; it spills where it must."""

    def __init__(
        self, schema: pa.Schema, batches: Callable[[Sequence[str]], Batches], rows: int
    ) -> None:
        self._schema, self._batches, self._rows = schema, batches, rows

    def sql(self, query: str, *columns: str) -> Batches:
        schema = pa.schema([self._schema.field(name) for name in columns])
        connection = scratch_database(counting=self._rows > LARGE)
        try:
            with reading_errors() as watched:
                batches = watched(self._batches(columns))
                connection.register("people", pa.RecordBatchReader.from_batches(schema, batches))
                yield from connection.sql(query).to_arrow_reader(_BATCH)
        finally:  # a connection that is left to the collector can crash the process at its end
            connection.close()


class Staged(Source):
    """A source whose rows have been looked at.

    `domains` are the values that codes stand for, in their final order: a stated domain as it was
    stated, otherwise the values that occur in any row in their own order; a missing value, where
    there is one, is the last. `columns` are the names in SQL.
    """

    columns: Mapping[str, str]
    domains: Mapping[str, pa.Array]
    number: int

    def type(self, column: str) -> pa.DataType:
        return self.schema.field(column).type

    @property
    @abstractmethod
    def people(self) -> CodedPeople:
        """The rows as numbers."""

    @abstractmethod
    def map(self, columns: Sequence[str], step: Step, schema: pa.Schema) -> CodedPeople:
        """What a function makes of these columns, codes beside their domains, batch by batch."""

    def restored(self, column: str, found: pa.Array) -> pa.Array:
        """The values behind what SQL tells of a column."""
        domain = self.domains.get(column)
        return found if domain is None else domain.take(found)

    def with_domains(self, columns: Sequence[str], arrays: Sequence[pa.Array]) -> pa.RecordBatch:
        """The columns of a batch of numbers, codes beside the values that they stand for."""
        coded = [
            pa.DictionaryArray.from_arrays(array, self.domains[name], safe=False)
            if name in self.domains
            else array
            for name, array in zip(columns, arrays, strict=True)
        ]
        return pa.RecordBatch.from_arrays(coded, names=list(columns))


class Dictionary:
    """The values of a column in the order in which they come first, and codes into them; the first
    stands for a missing value."""

    def __init__(self, kind: pa.DataType) -> None:
        self.values = pa.nulls(1, kind)
        self.missing = 0  # records without a value
        self._seen: pa.Array | None = None  # the dictionary that `_codes` is for
        self._codes: pa.Array | None = None

    def add(self, array: pa.Array) -> pa.Array:
        """The codes of the next records."""
        self.missing += array.null_count
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        if self._seen is None or not self._seen.equals(array.dictionary):
            self._seen = array.dictionary
            self._codes = self._known()
        assert self._codes is not None
        if self._codes.null_count and self._admit(array.indices):
            self._codes = self._known()
        codes = pc.take(self._codes, array.indices, boundscheck=False)
        return codes.fill_null(0) if array.null_count else codes

    def _known(self) -> pa.Array:
        codes = pc.index_in(self._seen, value_set=self.values, skip_nulls=True)
        return codes.cast(code_type(len(self.values)))

    def _admit(self, indices: pa.Array) -> bool:
        """Add the values that these records use and nobody before, in order of first use."""
        assert self._seen is not None
        assert self._codes is not None
        used = pc.unique(indices.drop_null())  # unique keeps the order of first occurrence
        fresh = used.filter(pc.take(self._codes, used).is_null())
        values = self._seen.take(fresh).drop_null().unique()  # foreign dictionaries may repeat
        self.values = pa.concat_arrays([self.values, values])
        return len(values) > 0


def ordered_domain(values: pa.Array, stated: Sequence[object] = ()) -> pa.Array:
    """Different values as codes number them: stated ones first, others in their order, null last.

    >>> ordered_domain(pa.array([None, "c", "a", "b"]), ("z", "b")).to_pylist()
    ['z', 'b', 'a', 'c', None]
    """
    first = pa.array([value for value in stated if value is not None], values.type)
    others = values.filter(pc.invert(pc.is_in(values, value_set=first)))
    others = others.take(pc.sort_indices(others))  # a null comes last
    if None in stated and not others.null_count:
        others = pa.concat_arrays([others, pa.nulls(1, values.type)])
    return pa.concat_arrays([first, others])


class LocalStaged(Staged):
    """Rows in a spool, which goes away with it; `kept` says which of them are published."""

    def __init__(
        self,
        look: FirstPass,
        spool: Spool,
        stated: Mapping[str, Values | Range],
        kept: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        source = look.table.source
        self.source, self.label, self.foreign = source, source.label, source.foreign
        self.columns = sql_columns(look.table)
        self.schema = pa.schema([field for field in source.schema if field.name in self.columns])
        self.dropped = source.dropped + look.read - look.number
        self.number = look.number if kept is None else int(kept.sum())
        self._look, self._spool, self._stated, self._kept = look, spool, stated, kept
        self.domains = look.domains(stated)
        self._codes = {}  # by column in SQL: the final code of every one in the spool
        for name, domain in self.domains.items():
            codes = pc.index_in(look.dictionaries[name].values, value_set=domain).fill_null(0)
            self._codes[self.columns[name]] = codes.cast(code_type(len(domain)))

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # whoever gets a copy of the table looks at its source again

    @property
    def origin(self) -> Source:
        return self.source.origin

    @property
    def people(self) -> CodedPeople:
        kinds = [
            (column, self._codes[column].type if column in self._codes else self.type(name))
            for name, column in self.columns.items()
        ]
        return LocalPeople(pa.schema(kinds), self._numbers, self.number)

    def under(self, stated: Mapping[str, Values | Range]) -> LocalStaged:
        """These rows where such domains are stated."""
        same = stated == self._stated
        return self if same else LocalStaged(self._look, self._spool, stated, self._kept)

    def chosen(self, kept: npt.NDArray[np.bool_]) -> LocalStaged:
        """These rows alone."""
        return LocalStaged(self._look, self._spool, self._stated, kept)

    def _numbers(self, columns: Sequence[str]) -> Batches:
        start = 0
        for batch in self._spool:
            arrays = [
                pc.take(self._codes[column], batch.column(column), boundscheck=False)
                if column in self._codes
                else batch.column(column)
                for column in columns
            ]
            numbers = pa.RecordBatch.from_arrays(arrays, names=list(columns))
            if self._kept is not None:
                start, first = start + batch.num_rows, start
                numbers = numbers.filter(pa.array(self._kept[first:start]))
            yield numbers

    def batches(self, columns: Sequence[str], rows: int, threads: bool = True) -> Batches:
        for batch in self._numbers([self.columns[name] for name in columns]):
            whole = self.with_domains(columns, batch.columns)
            for start in range(0, batch.num_rows, rows):
                yield whole.slice(start, rows)

    def map(self, columns: Sequence[str], step: Step, schema: pa.Schema) -> CodedPeople:
        def made(asked: Sequence[str]) -> Batches:
            return (step(batch).select(list(asked)) for batch in self.batches(columns, _BATCH))

        return LocalPeople(schema, made, self.number)


class FirstPass:
    """What a pass over a table learns: the values of every column that becomes codes, how many rows
    there are, and how many sensitive values are missing."""

    def __init__(self, table: Table) -> None:
        texts = [name for name in table.quasi if is_coded(table.type_of(name))]
        coded = (*table.sensitive, *texts)
        self.dictionaries = {name: Dictionary(table.type_of(name)) for name in coded}
        self.table, self.read, self.number = table, 0, 0

    def domains(self, stated: Mapping[str, Values | Range]) -> dict[str, pa.Array]:
        """The values that codes stand for in the end, where these are stated."""
        domains = {}
        for name, dictionary in self.dictionaries.items():
            values = dictionary.values.slice(0 if dictionary.missing else 1)
            domains[name] = ordered_domain(values, stated_values(name, stated.get(name)))
        return domains

    def add(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns of the next batch, with codes where there are some."""
        self.read += batch.num_rows
        batch = drop_missing(self.table, batch)
        self.number += batch.num_rows
        arrays = []
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if name in self.dictionaries:
                array = self.code(name, array)
            elif pa.types.is_dictionary(array.type):
                array = array.dictionary_decode()
            arrays.append(array)
        return arrays

    def code(self, name: str, array: pa.Array) -> pa.Array:
        """Codes of a column, which learns what is new."""
        codes = self.dictionaries[name].add(without_nan(array))
        if name in self.table.sensitive and len(self.dictionaries[name].values) - 1 > MOST_VALUES:
            raise DataError(
                f"Column {name!r} of {self.table.label} has more than {MOST_VALUES:,} different "
                "values. Give it bins (--bins COLUMN=0,100,1000), or coarsen it first."
            )
        return codes

    def join(self, other: FirstPass) -> None:
        """Add what another pass learned, over other rows."""
        self.read, self.number = self.read + other.read, self.number + other.number
        for name, dictionary in other.dictionaries.items():
            self.code(name, dictionary.values.slice(1))
            self.dictionaries[name].missing += dictionary.missing

    def check(self) -> None:
        """Refuse a table without rows that count, or with rows that lack what is protected."""
        label, missing = self.table.label, self.table.missing
        absent = {name: self.dictionaries[name].missing for name in self.table.sensitive}
        if self.read == 0:
            raise DataError(f"{label} has no rows.")
        if self.number == 0:
            raise DataError(f"No row of {label} has every sensitive value.")
        if any(absent.values()) and missing == "refuse":
            parts = " and ".join(
                f"column {name!r} of {label} has {rows:,} rows without a sensitive value"
                for name, rows in absent.items()
                if rows
            )
            raise DataError(
                f"{parts[0].upper()}{parts[1:]}. Choose --missing value (missing counts as a value "
                "of its own) or --missing drop."
            ).repaired_by(missing="value")


def stated_values(column: str, stated: Values | Range | None) -> tuple[Value, ...]:
    """The values of a domain that was stated for a column with codes."""
    if stated is None or isinstance(stated, Values):
        return () if stated is None else stated.values
    low, high = stated.low, stated.high
    if not isinstance(low, int) or not isinstance(high, int) or high - low >= MOST_VALUES:
        raise DataError(
            f"The domain stated for the sensitive column {column!r} must be a list of values or a "
            f"range of at most {MOST_VALUES:,} integers. For other numbers give bins."
        )
    return tuple(range(low, high + 1))


def stage(table: Table, *, threads: bool = True, progress: Progress = no_progress) -> Table:
    """The table with its rows looked at; one that is staged stays as it is.

    >>> from sfumato.table import read
    >>> people = stage(read(pa.table({"age": [30, 41], "ill": ["no", "yes"]}), quasi="age",
    ...                     sensitive="ill"))
    >>> staged(people).people.count("s0").to_pydict() == {"s0": [0, 1], "n": [1, 1]}
    True
    """
    if isinstance(table.source, Staged):
        return table
    if table.rows is not None and table.rows.source is table.source:
        return replace(table, source=table.rows.under(table.domains))
    columns, look, spool = sql_columns(table), FirstPass(table), Spool()
    for batch in table.batches(list(columns), _BATCH, threads):
        spool.add(pa.RecordBatch.from_arrays(look.add(batch), names=list(columns.values())))
        progress("counting", look.read, 0)
    look.check()
    return replace(table, source=LocalStaged(look, spool, table.domains))


def sql_columns(table: Table) -> dict[str, str]:
    """The columns of a table that are looked at, and how SQL names them."""
    columns = {name: f"s{index}" for index, name in enumerate(table.sensitive)}
    columns |= {name: f"q{index}" for index, name in enumerate(table.quasi)}
    return columns | {name: role for role in ("key", "person") if (name := getattr(table, role))}


def staged(table: Table) -> Staged:
    """The rows of a table that was staged."""
    assert isinstance(table.source, Staged), table.source
    return table.source


def codes_of(batch: pa.RecordBatch, columns: Iterable[str]) -> dict[str, npt.NDArray[np.int64]]:
    """The codes of these columns in a batch of a staged table."""
    return {name: batch.column(name).indices.to_numpy().astype(np.int64) for name in columns}


def codes_among(array: pa.Array, domain: pa.Array) -> npt.NDArray[np.int64]:
    """The places of values of a sensitive column in a domain, −1 for those that it lacks.

    >>> codes_among(pa.array([2.0, float("nan"), 5.0]), pa.array([1.0, 2.0, None])).tolist()
    [1, 2, -1]
    """
    codes = pc.index_in(without_nan(array), value_set=domain).fill_null(-1)
    return np.asarray(codes.to_numpy(), np.int64)


def drop_missing(table: Table, batch: pa.RecordBatch) -> pa.RecordBatch:
    """With `missing="drop"`, the records that have every sensitive value."""
    return dense_rows(batch, table.sensitive if table.missing == "drop" else ())


def dense_rows(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """The records that have a value in each of these columns."""
    keep = np.ones(batch.num_rows, np.bool_)
    for column in columns:
        array = batch.column(column)
        absent = array.is_null(nan_is_null=pa.types.is_floating(array.type))
        keep &= ~absent.to_numpy(zero_copy_only=False)
    return batch if keep.all() else batch.filter(pa.array(keep))


def without_nan(array: pa.Array) -> pa.Array:
    """A sensitive NaN counts as missing, and minus zero as zero."""
    if pa.types.is_floating(array.type):
        array = pc.add(array, pa.scalar(0.0, array.type))
        return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
    return array


def is_coded(kind: pa.DataType) -> bool:
    """Whether values of this type become codes: numbers and times stay what they are."""
    types = pa.types
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return not number and not types.is_temporal(kind)


def code_type(values: int) -> pa.DataType:
    """The smallest type for codes of so many values.

    >>> code_type(3), code_type(70_000)
    (DataType(uint8), DataType(int32))
    """
    if values <= 1 << 8:
        return pa.uint8()
    return pa.uint16() if values <= 1 << 16 else pa.int32()
