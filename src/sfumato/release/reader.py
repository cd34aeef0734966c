"""Opening a release folder that nobody vouches for.

`Release(path)` is an instance of the class of its kind, `PerturbedRelease` and so on: each says
what its files and its plan must look like, and what others may want to know of it. Whoever treats
kinds differently dispatches on these classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from sfumato.columns import Column, Values, list_some
from sfumato.draws import IntArray
from sfumato.errors import BundleError, WeakPromiseWarning
from sfumato.limits import limit_behind
from sfumato.operators import Operator
from sfumato.release.files import check_files, opened_parquet, read_schema
from sfumato.release.manifest import UNFINISHED, Manifest, Merged
from sfumato.release.reading import read_manifest, what_was_false
from sfumato.release.records import record_names, scan
from sfumato.release.values import codes_of, count_strangers, typed_values
from sfumato.results import html_table
from sfumato.scratch import scratch_database
from sfumato.storage import address_of, release_folder

KINDS: dict[str, type[Release]] = {}  # by the name that stands in the manifest
_JOINED: dict[tuple[type[Release], type[Release]], type[Release]] = {}
# a file may lie about its least and greatest values: nothing is concluded from these
_CONCLUDING = ("statistics_propagation", "filter_pushdown")


class Release:
    """A release on disk, validated: manifest, files, hashes, schemas, domains, plan."""

    kind: ClassVar[str]
    manifest: Manifest
    path: Path  # of an address, where its copy lies
    where: str  # how messages name the folder

    # What differs by kind, as it is for most.
    side_files: ClassVar[tuple[str, ...]] = ()  # what there is beside the records
    shows_values: ClassVar[bool] = True  # all sensitive values, as people have them
    operators: Mapping[str, Operator] = {}  # what the values of a sensitive column went through
    # by part: how many records, at most, stand for one that was drawn; None where all do
    scales: tuple[float, ...] | None = None
    # for the quasi columns whose values were merged: what each published text stands for
    merges: Mapping[str, tuple[Merged, ...]] = {}
    shows_quasi_exactly = True  # in every record, not ranges, sets or merged values
    counts_quasi_exactly = True  # under conditions: the records that meet them are the people's
    discloses_histogram = False  # whether it shows how many people have each sensitive value
    fakes = 0  # how many of the values that a bucket lists nobody has

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls

    def __new__(cls, path: str | Path, *, named: Path | None = None, **settings: Any) -> Self:
        """An instance of the class of the folder's kind, as `pathlib.Path` gives a `PosixPath`."""
        folder, where = release_folder(path), repr(address_of(path) or str(named or path))
        if not folder.is_dir():
            raise BundleError(f"There is no release folder {where}.")
        if named is None and folder.resolve().name.endswith(UNFINISHED):
            raise BundleError(f"{where} was left by a run that did not finish.")
        manifest = read_manifest(folder, where)
        chosen = _of_kind(cls, KINDS[manifest.kind])
        if chosen is None:
            raise BundleError(f"{where} is a {manifest.kind} release, not {cls.kind}.")
        release: Self = super().__new__(chosen)  # type: ignore[assignment]
        release.manifest, release.where, release.path = manifest, where, folder
        return release

    def __init__(self, path: str | Path, *, verify: bool = True, named: Path | None = None) -> None:
        """`verify` False skips hashes and values, for a folder just checked.

        `named` is for who writes a release: the place where the folder `path` is going to be.
        """
        check_files(self.path, self.manifest, self.where, hashes=verify)
        self._read_schemas()
        self._check_schemas()
        if verify:
            self._in_database(self._compare_domains)
        self._read_plan()
        if verify:
            self._compare_with_plan()
            if (false := what_was_false(self.manifest)) is not None:
                warnings.warn(f"{self.where}: {false}", WeakPromiseWarning, stacklevel=2)

    def __repr__(self) -> str:
        named = {"quasi": self.quasi, "sensitive": self.sensitive}
        roles = [
            f"{role} {list_some([c.name for c in columns])}" for role, columns in named.items()
        ]
        return (
            f"<{type(self).__name__} {self.where}: {_short(self.manifest.guarantee)} by "
            f"{_short(self.manifest.mechanism)}, {self.rows:,} rows; {'; '.join(roles)}>"
        )

    def _repr_html_(self) -> str:
        manifest = self.manifest
        rows = [
            ("kind", self.kind),
            ("guarantee", _short(manifest.guarantee)),
            ("mechanism", _short(manifest.mechanism)),
            ("rows", f"{self.rows:,}"),
            *((f"{c.role} column", f"{c.name} ({c.kind}, {c.type})") for c in self.columns),
        ]
        return html_table(("property", "value"), rows, title=self.where)

    @property
    def rows(self) -> int:
        return self.manifest.rows

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.manifest.columns

    @property
    def quasi(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.role == "quasi")

    @property
    def sensitive(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.role == "sensitive")

    @property
    def plan(self) -> Any:
        """The public part of the plan, of the type that the kind has in `release.manifest`."""
        return self.manifest.plan

    @property
    def records(self) -> list[Path]:
        """The Parquet files that hold the records: one, or one for each part."""
        return [self.path / name for name in record_names(self.manifest.files)]

    def part_column(self, column: str) -> str | None:
        """The column of the records that numbers the parts of a sensitive column's operator."""
        return None

    def shown_as(self, column: Column) -> tuple[str, ...]:
        """The columns of the records that stand for a column of the table."""
        return (column.name,)

    def means(self, column: Column) -> str:
        """What the records show in the place of a sensitive column, in words."""
        return "sensitive value, as it is"

    def list_of(self, column: str) -> Path | None:
        """The file that lists by bucket the values of a sensitive column, where one does."""
        return None

    def shown_codes(self, records: pa.Table | pa.RecordBatch, name: str) -> IntArray:
        """What records show of a sensitive column: codes in its domain, or its operator's symbols;
        −1 for a value outside it.

        `records` has the columns of `shown_as`, as they stand in the files.
        """
        return codes_of(records.column(name), self.domain(name))

    def file(self, stem: str) -> Path:
        """A side file, such as `sensitive` of a bucketed release."""
        if f"{stem}.parquet" not in self.manifest.files:
            raise BundleError(f"{self.where} has no file {stem}.parquet.")
        return self.path / f"{stem}.parquet"

    def column(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise BundleError(f"{self.where} has no column {name!r}.")

    def domain(self, name: str) -> pa.Array:
        """The listed values of a column, in domain order, in the type of the files."""
        domain = self.column(name).domain
        if not isinstance(domain, Values):
            raise BundleError(f"Column {name!r} of {self.where} has no listed domain.")
        return typed_values(domain.values, self._field_type(name))

    def _field_type(self, name: str) -> pa.DataType:
        (kind, *_) = (s.field(name).type for s in self._schemas.values() if name in s.names)
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def _tables(self) -> dict[str, list[str]]:
        """The tables of the release, `records` and its side tables, with the files of each."""
        records = record_names(self.manifest.files)
        sides = sorted(set(self.manifest.files) - set(records))
        return {"records": records, **{name.removesuffix(".parquet"): [name] for name in sides}}

    def _read_schemas(self) -> None:
        sides = set(self.manifest.files) - set(record_names(self.manifest.files))
        if sides != set(self.side_files):
            raise BundleError(
                f"{self.where} is {self.kind}, so beside its records it has "
                f"{' and '.join(self.side_files) or 'no file'}; the manifest names "
                f"{list_some(sorted(sides)) or 'none'}."
            )
        self._schemas: dict[str, pa.Schema] = {}
        for table, names in self._tables().items():
            self._schemas[table], rows = read_schema(self.path, names, self.where)
            if table == "records" and rows != self.rows:
                raise BundleError(
                    f"The records of {self.where} have {rows:,} rows; the manifest says "
                    f"{self.rows:,}."
                )

    def _check_schemas(self) -> None:
        """Every column is there, with its type and a domain that fits it, and nothing else is."""
        if not self.sensitive:
            raise BundleError(f"{self.where} has no sensitive column.")
        for table, schema in self._schemas.items():
            names, known = set(schema.names), self._known_names(table)
            if lacking := sorted(known - names):
                raise BundleError(f"Table {table!r} of {self.where} lacks {list_some(lacking)}.")
            if strangers := sorted(names - known - self._possible_names()):
                raise BundleError(
                    f"Table {table!r} of {self.where} has columns that the manifest does not name: "
                    f"{list_some(strangers)}."
                )
        for column in self.columns:
            for name in self._columns_of_values(column):
                if str(type_ := self._field_type(name)) != column.type:
                    raise BundleError(
                        f"Column {name!r} of {self.where} has type {type_}; the manifest says "
                        f"{column.type}."
                    )
                self._check_domain(column, type_)

    def _check_domain(self, column: Column, kind: pa.DataType) -> None:
        try:
            if isinstance(column.domain, Values):
                typed_values(column.domain.values, kind)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            raise BundleError(
                f"The domain of column {column.name!r} in the manifest of {self.where} does not "
                f"fit its type {column.type}."
            ) from None

    def _in_the_open(self) -> tuple[Column, ...]:
        """The columns whose values stand in the files one by one."""
        return self.columns

    def _known_names(self, table: str) -> set[str]:
        """The columns that a table of this kind has."""
        return {column.name for column in self.columns}

    def _possible_names(self) -> set[str]:
        """The columns that it may have besides."""
        return set()

    def _columns_of_values(self, column: Column) -> tuple[str, ...]:
        """The columns of the files that hold values of a column of the table."""
        return (column.name,)

    def require_whole_numbers(self, table: str, name: str) -> None:
        """Refuse a column of numbers, such as buckets, that holds something else."""
        if not pa.types.is_integer(self._schemas[table].field(name).type):
            raise BundleError(
                f"Column {name!r} in table {table!r} of {self.where} does not hold whole numbers."
            )

    def batches(
        self, names: Sequence[str], rows: int = 1 << 16
    ) -> Iterator[tuple[Path, pa.RecordBatch]]:
        """Some columns of the records, and the file that each piece stands in."""
        for path in self.records:
            with opened_parquet(path) as file:
                for batch in file.iter_batches(rows, columns=list(names)):
                    yield path, batch

    def table(self, names: Sequence[str] | None = None) -> pa.Table:
        """The records whole, or some of their columns."""
        pieces = []
        for path in self.records:
            with opened_parquet(path) as file:
                pieces.append(file.read(None if names is None else list(names)))
        return pa.concat_tables(pieces)

    def side_table(self, stem: str) -> pa.Table:
        """A side file, such as `sensitive` of a bucketed release, whole."""
        with opened_parquet(self.file(stem)) as file:
            return file.read()

    def _in_database(self, compare: Callable[[Any], None]) -> None:
        """Look at the files with a DuckDB; what it cannot read is a `BundleError` too."""
        import duckdb

        try:
            with scratch_database(columns=len(self.columns), without=_CONCLUDING) as connection:
                compare(connection)
        except duckdb.Error as error:
            reached = limit_behind(error)
            if reached is not None:
                raise reached from None
            reason = _short(str(error).splitlines()[0].rstrip("."), 200)
            raise BundleError(f"Cannot read the files of {self.where}: {reason}.") from None

    def _compare_domains(self, connection: Any) -> None:
        for table, names in self._tables().items():
            schema = self._schemas[table]
            # by position: DuckDB does not tell `age` from `Age`
            places = {column: f"c{index}" for index, column in enumerate(schema.names)}
            files = [self.path / name for name in names]
            source = f"{scan(files)} AS t({', '.join(places.values())})"
            for column in self._in_the_open():
                if column.name not in schema.names:
                    continue
                strangers = count_strangers(connection, source, places[column.name], column.domain)
                if strangers:
                    raise BundleError(
                        f"Column {column.name!r} in table {table!r} of {self.where} has "
                        f"{strangers:,} values outside the domain that the manifest states."
                    )

    def _compare_with_plan(self) -> None:
        """Hold the values of the files against the plan."""

    def _read_plan(self) -> None:
        """Read the public part of the plan, once; `BundleError` where it is not what it must be."""


def _short(text: str, most: int = 80) -> str:
    """The beginning of a text that may be long: limits from a file are written out, for example.

    >>> _short("l-diversity(5)"), len(_short("f-privacy(" + "1/2, " * 1000))
    ('l-diversity(5)', 80)
    """
    return text if len(text) <= most else f"{text[: most - 2]} …"


def _of_kind(asked: type[Release], own: type[Release]) -> type[Release] | None:
    """The class of a release of the kind `own` that is `asked` for; None where it is another kind.

    A class without a kind, such as one that adds answers to questions, is joined with the kind's.
    """
    if asked is Release:
        return own
    if issubclass(asked, own):
        return asked
    if hasattr(asked, "kind"):
        return None
    if (asked, own) not in _JOINED:
        said = {"__doc__": own.__doc__, "__module__": asked.__module__}
        _JOINED[asked, own] = type(own.__name__, (asked, own), said)
    return _JOINED[asked, own]
