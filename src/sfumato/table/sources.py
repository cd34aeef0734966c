"""Where records come from: files, frames and servers, read again and again, in order."""

from __future__ import annotations

import glob
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sfumato.columns import list_some
from sfumato.errors import DataError
from sfumato.limits import current_limits, limit_behind
from sfumato.storage import Copies, address_of, on_this_machine
from sfumato.table.csv_preview import PACKED
from sfumato.table.plain import normalize, plain_type
from sfumato.table.reading import Reading

Batches = Iterator[pa.RecordBatch]
Change = Callable[[Batches], Batches]

TEXTS = (".csv", ".tsv", ".txt", ".data", ".dat")
_DICTIONARY_BYTES_PER_VALUE = 4  # a string column chunk below this is coded with few values


class Source(ABC):
    """Records that can be streamed any number of times, always in the same order."""

    label: str  # how messages name it
    engine: str = "local"  # where it is published unless told otherwise
    schema: pa.Schema
    foreign: Mapping[str, str] = {}  # columns that cannot be read, and what they are there
    dropped: int = 0  # rows that were left out before: they have no sensitive value
    held: object = None  # what lives as long as the source, such as copies of its files

    @property
    def origin(self) -> Source:
        """Where rows that were staged come from, with columns that have no role."""
        return self

    @abstractmethod
    def batches(self, columns: Sequence[str], rows: int, threads: bool = True) -> Batches:
        """The named columns in order, in batches of about `rows` records."""

    def derived(self, schema: pa.Schema, change: Change, of: Sequence[str] = ()) -> Source:
        """What `change` makes of the batches of this source; it always sees the columns `of`."""
        return DerivedSource(self, schema, change, of)

    def mapped(self, maps: Mapping[str, ColumnMap]) -> Source:
        """This source with another form of some columns."""
        kinds = {
            f.name: maps[f.name].type(f.type) if f.name in maps else f.type for f in self.schema
        }

        def changed(batches: Batches) -> Batches:
            return (_mapped(batch, maps) for batch in batches)

        return self.derived(pa.schema(list(kinds.items())), changed)


class ColumnMap(Protocol):
    """What becomes of a column on its way in: a function of each value by itself."""

    def type(self, kind: pa.DataType) -> pa.DataType:
        """The type of what `apply` makes of values of this one."""

    def apply(self, array: pa.Array) -> pa.Array:
        """The new values; text may be coded, before and after."""


def _mapped(batch: pa.RecordBatch, maps: Mapping[str, ColumnMap]) -> pa.RecordBatch:
    arrays = {name: batch.column(name) for name in batch.schema.names}
    for name in arrays.keys() & maps.keys():
        try:
            arrays[name] = maps[name].apply(arrays[name])
        except DataError as error:  # a map does not know which column it is given
            raise DataError(f"Column {name!r} {error}") from None
    return pa.RecordBatch.from_pydict(arrays)


class DerivedSource(Source):
    """Another source, of which some columns were made anew on the way."""

    def __init__(
        self, source: Source, schema: pa.Schema, change: Change, of: Sequence[str]
    ) -> None:
        self._source, self._change, self._of = source, change, of
        self.label, self.engine, self.foreign = source.label, source.engine, source.foreign
        self.dropped, self.schema = source.dropped, schema

    @property
    def origin(self) -> Source:
        return self if self._source.origin is self._source else self._source.origin

    def batches(self, columns: Sequence[str], rows: int, threads: bool = True) -> Batches:
        there = [name for name in columns if name in self._source.schema.names]
        needed = list(dict.fromkeys((*self._of, *there)))
        for batch in self._change(self._source.batches(needed, rows, threads)):
            yield normalize(batch, columns)


class ParquetSource(Source):
    """One or many Parquet files with the same columns, read one after the other."""

    def __init__(self, paths: Sequence[Path]) -> None:
        import pyarrow.parquet as pq

        self.paths = list(paths)
        self.label = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
        schemas = []
        for path in paths:
            with file_errors(path, "Parquet"):
                fields = [(f.name, plain_type(f.type)) for f in pq.read_schema(path)]
                schemas.append(pa.schema(fields))
        self.schema = schemas[0]
        require_alike(paths, [[f"{f.name} {f.type}" for f in schema] for schema in schemas])

    def batches(self, columns: Sequence[str], rows: int, threads: bool = True) -> Batches:
        import pyarrow.parquet as pq

        for path in self.paths:
            with file_errors(path, "Parquet"):
                coded = _dictionary_columns(pq.ParquetFile(path), columns)
                file = pq.ParquetFile(path, read_dictionary=coded, pre_buffer=False)
                for batch in file.iter_batches(rows, columns=list(columns), use_threads=threads):
                    yield normalize(batch, columns)


def require_alike(paths: Sequence[Path], columns: Sequence[list[str]]) -> None:
    """Files that are one table have the same columns."""
    for path, there in zip(paths, columns, strict=True):
        if there != columns[0]:
            raise DataError(
                f"The files do not have the same columns: {paths[0]} has {list_some(columns[0])}; "
                f"{path} has {list_some(there)}."
            )


class StreamSource(Source):
    """Anything with `__arrow_c_stream__` that starts anew each time it is asked."""

    def __init__(self, label: str, opener: Callable[[], pa.RecordBatchReader]) -> None:
        self.label = label
        self._open = opener
        with file_errors(label, "an Arrow stream"):
            schema = opener().schema
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        hidden = {name for name in index if isinstance(name, str)}  # a frame's index is not data
        self.schema = pa.schema(
            [pa.field(f.name, plain_type(f.type)) for f in schema if f.name not in hidden]
        )

    def batches(self, columns: Sequence[str], rows: int, threads: bool = True) -> Batches:
        with file_errors(self.label, "an Arrow stream"):
            for batch in self._open():
                for start in range(0, batch.num_rows, rows):
                    yield normalize(batch.slice(start, rows), columns)


def find_source(origin: Any, reading: Reading | None = None) -> Source:
    """The source behind a path, a glob, the address of a database table, or a frame.

    `reading` is what was said of how it is written.
    """
    said = reading or Reading()
    if isinstance(origin, (str, Path)):
        source = _named_source(str(origin), said)
    else:
        source = origin if isinstance(origin, Source) else _frame_source(origin)
        said.refuse(source.label, "not a file")
    if not said.missing_markers:
        return source
    texts = [field.name for field in source.schema if pa.types.is_string(field.type)]
    return source.mapped(dict.fromkeys(texts, said))


def _frame_source(origin: Any) -> Source:
    if isinstance(origin, pa.RecordBatchReader):  # can be read only once, so it is kept
        origin = origin.read_all()
    if isinstance(origin, pa.RecordBatch):
        origin = pa.Table.from_batches([origin])
    if is_spark_frame(origin):
        from sfumato.table.spark import SparkSource

        return SparkSource(origin)
    if hasattr(origin, "__arrow_c_stream__"):
        frame = origin
        return StreamSource(
            f"the given {type(origin).__name__}", lambda: pa.RecordBatchReader.from_stream(frame)
        )
    raise DataError(
        f"Cannot read a table from a {type(origin).__name__}. Give a path (Parquet, CSV, Arrow "
        "IPC), a postgresql:// address, or a pandas, Polars, pyarrow, DuckDB or Spark table."
    )


def is_spark_frame(origin: Any) -> bool:
    """Whether this is a DataFrame of Spark, asked without importing Spark."""
    return any(
        cls.__name__ == "DataFrame" and cls.__module__.startswith("pyspark.sql")
        for cls in type(origin).__mro__
    )


@contextmanager
def reading_errors() -> Iterator[Callable[[Batches], Batches]]:
    """Where DuckDB scans a stream: why it broke off, a limit or somebody who interrupts, which
    DuckDB wraps into an error of its own, with the whole traceback; and what went wrong in batches
    that are watched."""
    import duckdb

    failures: list[Exception] = []

    def watched(batches: Batches) -> Batches:
        try:
            yield from batches
        except Exception as error:
            failures.append(error)
            raise

    try:
        yield watched
    except (duckdb.Error, RuntimeError) as error:
        if failures:
            raise failures[0] from None
        current_limits().check()
        if re.search("Query interrupted|KeyboardInterrupt", str(error)):
            raise KeyboardInterrupt from None
        reached = limit_behind(error)
        if reached is not None:
            raise reached from None
        raise


def _named_source(text: str, reading: Reading) -> Source:
    if re.match(r"\s*postgres\w*(\+\w+)?\s*:", text, re.IGNORECASE):  # mistyped ones, too
        from sfumato.table.postgres import Address, PostgresSource

        reading.refuse("A PostgreSQL table", "no file")
        return PostgresSource(Address.of(text))
    address = address_of(text)
    if address is not None:
        return _copied_source(address, reading)
    text = on_this_machine(text)
    scheme = re.match(r"\s*([A-Za-z][A-Za-z0-9+.-]*)://", text)
    if scheme is not None:  # not quoted any further: a password may stand there
        raise DataError(
            f"Cannot read from a {scheme[1]}:// address. Give a path (Parquet, CSV, Arrow IPC), "
            "s3://bucket/path, or postgresql://host/database?table=NAME."
        )
    return _file_source(text, reading)


def _copied_source(address: str, reading: Reading) -> Source:
    """Files that were copied into a private folder, which goes away with the source."""
    copies = Copies(address)
    try:
        source = _file_source(copies.pattern, reading)
    except DataError as error:
        raise copies.explained(error) from None
    source.label, source.held = address, copies
    return source


def _file_source(text: str, reading: Reading) -> Source:
    pattern = glob.has_magic(text) and not Path(text).exists()
    found = sorted(glob.glob(text)) if pattern else [text]  # noqa: PTH207
    paths = [Path(name) for name in found]
    if not paths:
        raise DataError(f"No file matches {text!r}.")
    for path in paths:
        if not path.exists():
            raise DataError(f"There is no file {str(path)!r}.")
        if path.is_dir():
            raise DataError(
                f"{str(path)!r} is a folder. Name files, for example '{path}/*.parquet'."
            )
        if path.stat().st_size == 0:
            raise DataError(f"The file {str(path)!r} is empty.")
    kinds = {path: file_kind(path) for path in paths}
    other = next((path for path in paths if kinds[path] != kinds[paths[0]]), None)
    if other is not None:
        raise DataError(
            f"{text!r} matches files of several kinds: {paths[0]} is {kinds[paths[0]]}, {other} is "
            f"{kinds[other]}. Name files of one kind."
        )
    kind = kinds[paths[0]]
    if kind == "CSV":
        from sfumato.table.csv_files import CsvSource

        return CsvSource(paths, reading)
    if kind in ("a workbook", "a statistics file"):
        from sfumato.table.workbooks import read_statistics, read_workbook

        reader = read_workbook if kind == "a workbook" else read_statistics
        return _held_source(paths, [reader(path, reading) for path in paths])
    reading.refuse(str(paths[0]), f"{kind} file")
    return ParquetSource(paths) if kind == "a Parquet" else _ipc_source(paths)


def file_kind(path: Path) -> str:
    """What a file is, by its ending."""
    from sfumato.table.workbooks import STATISTICS, WORKBOOKS

    ending = path.suffix.lower()
    if ending in PACKED:
        inside = Path(path.stem).suffix.lower()
        if inside in TEXTS:
            return "CSV"
        raise DataError(
            f"{str(path)!r} is packed, and only texts are read so (.csv{ending}). Unpack it first."
        )
    if ending in TEXTS:
        return "CSV"
    if ending in (".arrow", ".feather", ".ipc"):
        return "an Arrow"
    if ending in WORKBOOKS:
        return "a workbook"
    return "a statistics file" if ending in STATISTICS else "a Parquet"


def _held_source(paths: Sequence[Path], tables: Sequence[pa.Table]) -> Source:
    """Small files that were read whole."""
    require_alike(paths, [table.schema.names for table in tables])
    whole = pa.concat_tables(tables, promote_options="permissive")
    return StreamSource(str(paths[0]), whole.to_reader)


def _ipc_source(paths: list[Path]) -> Source:
    def opened() -> pa.RecordBatchReader:
        with pa.memory_map(str(paths[0])) as mapped:
            schema = _ipc_reader(mapped).schema
        return pa.RecordBatchReader.from_batches(schema, every())

    def every() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with pa.memory_map(str(path)) as mapped:
                reader = _ipc_reader(mapped)
                if isinstance(reader, pa.RecordBatchReader):
                    yield from reader
                else:
                    yield from map(reader.get_batch, range(reader.num_record_batches))

    return StreamSource(str(paths[0]), opened)


def _ipc_reader(mapped: pa.MemoryMappedFile) -> Any:
    """Files come with an index at their end, or as a stream."""
    try:
        return pa.ipc.open_file(mapped)
    except pa.ArrowInvalid:
        mapped.seek(0)
        return pa.ipc.open_stream(mapped)


def _dictionary_columns(file: Any, columns: Sequence[str]) -> list[str]:
    """The string columns of a Parquet file that are worth reading as dictionary codes."""
    metadata, coded = file.metadata, []
    leaves = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    most = _DICTIONARY_BYTES_PER_VALUE * max(metadata.num_rows, 1)
    for name in columns:
        kind = file.schema_arrow.field(name).type
        if plain_type(kind) == pa.string() and (
            pa.types.is_dictionary(kind)
            or sum(g.column(leaves[name]).total_uncompressed_size for g in groups) <= most
        ):
            coded.append(name)
    return coded


@contextmanager
def file_errors(path: object, format_name: str) -> Iterator[None]:
    """Whatever a reader throws becomes one clear sentence."""
    import duckdb

    try:
        yield
    except MemoryError:
        raise  # Arrow's is one of its own errors too, but nothing is wrong with the file
    except (pa.ArrowException, OSError, ValueError, duckdb.Error) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        told = f"Cannot read {str(path)!r} as {format_name}: {reason}."
        if format_name == "Parquet" and Path(str(path)).suffix.lower() not in (".parquet", ".pq"):
            told += f" Texts are read where their name ends in {', '.join(TEXTS)}."
        raise DataError(told) from None
