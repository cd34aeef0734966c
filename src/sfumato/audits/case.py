"""What an audit looks at: the raw table and the release, brought to the same terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.audits.findings import Finding
from sfumato.columns import in_json
from sfumato.engines.coding import SensitiveCoder
from sfumato.engines.counting import take_profile
from sfumato.engines.staging import drop_missing
from sfumato.errors import DataError, SfumatoError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms import Mechanism, parse_mechanism
from sfumato.profile import Profile
from sfumato.release import Release, scan
from sfumato.scratch import scratch_database
from sfumato.table import Bins, Missing, Table, read
from sfumato.table.quasi_k import QuasiMerge
from sfumato.table.sources import find_source

if TYPE_CHECKING:
    from sfumato.audits.replay import Matches


@dataclass(eq=False)
class AuditCase:
    """A table and a release of it. Counts are taken once, on demand.

    `declared` says that the table came with its own roles and domains, not the manifest's;
    `repeated` that a receipt has repeated the run, `matches` who then stands behind ranges. `key`
    says whose rows they are, `before` is an earlier release of the people, with its table where it
    is kept.
    """

    table: Table
    release: Release
    declared: bool = False
    key: str | None = None
    before: Release | None = None
    before_table: Table | None = None
    repeated: bool = False
    matches: Matches | None = None

    @cached_property
    def guarantee(self) -> Guarantee:
        return parse_guarantee(self.release.manifest.guarantee)

    @cached_property
    def mechanism(self) -> Mechanism | None:
        """The mechanism that the manifest names; None for one that nobody here knows.

        A release that another program made is judged by its files all the same.
        """
        try:
            return parse_mechanism(self.release.manifest.mechanism)
        except SfumatoError:
            return None

    @cached_property
    def profile(self) -> Profile:
        """The raw table's histograms, over the release's domains."""
        return take_profile(self.table)

    def raw_batches(self, person: str | None = None) -> Iterator[pa.RecordBatch]:
        """The raw quasi-identifiers, perhaps that column as `__person`, and as `__code_0` … the
        codes of the sensitive columns."""
        table, schema = self.table, self._schema(person)
        coders = {n: SensitiveCoder(table, n, h.values) for n, h in self.profile.histograms.items()}
        shown = [*table.quasi, *([] if person is None else [person])]
        # whoever names a published column as the key has it twice
        for batch in table.batches(tuple(dict.fromkeys([*shown, *coders]))):
            kept = drop_missing(table, batch)
            arrays = [_decoded(kept.column(name)) for name in shown]
            arrays += [pa.array(coder(kept.column(name))) for name, coder in coders.items()]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _schema(self, person: str | None) -> pa.Schema:
        fields = [pa.field(name, self.table.type_of(name)) for name in self.table.quasi]
        if person is not None:
            fields.append(pa.field("__person", self.table.type_of(person)))
        codes = range(len(self.profile.histograms))
        return pa.schema([*fields, *(pa.field(f"__code_{k}", pa.int64()) for k in codes)])

    def raw_reader(self, person: str | None = None) -> pa.RecordBatchReader:
        """`raw_batches` as a stream that DuckDB scans once."""
        return pa.RecordBatchReader.from_batches(self._schema(person), self.raw_batches(person))

    @property
    def rows_per_person(self) -> int:
        """How many rows of a person are published at most."""
        rule = self.release.manifest.person
        return 1 if rule is None else rule.rows

    @property
    def rows_of_people_withheld(self) -> int:
        """How many rows stayed out because their person has too many: which ones, nobody says."""
        rule = self.release.manifest.person
        return 0 if rule is None else rule.suppressed

    @property
    def withheld_by_plan(self) -> int:
        """How many records the mechanism itself left out."""
        return self.release.manifest.suppressed - self.rows_of_people_withheld

    def connect(self, *, complete: bool = False) -> Any:
        """A DuckDB connection with the raw stream as `raw` and the records as `published`.

        With `complete`, only those classes of equal quasi columns of which no row of a person was
        withheld: there, and nowhere else, raw rows and records are the same people's. Which classes
        these are depends on the rows that were chosen and not on what was drawn for them.

        Hold it as long as results are read from it: it spills into a folder of its own.
        """
        connection = scratch_database()
        connection.register("raw", self.raw_reader())
        connection.execute(f"CREATE VIEW published AS SELECT * FROM {scan(self.release.records)}")
        if complete and self.rows_of_people_withheld:
            names = ", ".join(["0", *(quoted(name) for name in self.table.quasi)])
            number = "count(*) OVER (PARTITION BY {}) AS __n"
            for side in ("raw", "published"):
                connection.execute(
                    f"CREATE TABLE all_{side} AS SELECT *, {number.format(names)} FROM {side}"
                )
                connection.execute(f"DROP VIEW {side}")
            alike = same("a", "b", ["__n", *(quoted(name) for name in self.table.quasi)])
            for side, other in (("raw", "published"), ("published", "raw")):
                connection.execute(
                    f"CREATE TABLE {side} AS SELECT a.* EXCLUDE (__n) FROM all_{side} AS a SEMI "
                    f"JOIN all_{other} AS b ON {alike}"
                )
        return connection


Look = Callable[[AuditCase], Iterator[Finding]]
CHECKS: dict[type[Release] | type[Guarantee], list[Look]] = {}


def concerns(*kinds: type[Release] | type[Guarantee]) -> Callable[[Look], Look]:
    """The check is made of releases of these kinds, and of those with these promises; one that
    does not concern a release in particular finds nothing."""

    def register(look: Look) -> Look:
        for kind in kinds:
            CHECKS.setdefault(kind, []).append(look)
        return look

    return register


def raw_table(origin: Any, release: Release) -> Table:
    """The raw table behind a release, with the roles that the manifest states.

    Further columns of the origin are not looked at.
    """
    if isinstance(origin, Table):
        return origin
    source = find_source(origin)
    manifest = release.manifest
    merged = None if manifest.quasi_k is None else QuasiMerge.options(in_json(manifest.quasi_k))
    sensitive = [column for column in release.columns if column.role == "sensitive"]
    columns = sensitive if merged else release.columns  # the columns that the table has as well
    quasi = merged["quasi"] if merged else [c.name for c in release.columns if c.role == "quasi"]
    names = [*quasi, *(column.name for column in sensitive)]
    counted = "" if manifest.person is None else manifest.person.counted
    for name in names:
        if name not in source.schema.names and name != counted:
            raise DataError(
                f"{source.label} has no column {name!r}, which the release publishes. Is it "
                f"the table behind {str(release.path)!r}?"
            )
    rule = manifest.person
    if rule is not None and rule.column not in source.schema.names:
        raise DataError(
            f"{source.label} has no column {rule.column!r}, which says whose rows they are: the "
            "promise of the release is about people. Give the table with that column."
        )
    apart = names if rule is None else [*names, rule.column]
    missing: Missing = manifest.missing
    shown = {column.name for column in release.columns}
    recode = {c.name: c.recode or str(Bins(c.bins or ())) for c in columns if c.recode or c.bins}
    return read(
        source,
        **{
            **(merged or {"quasi": [name for name in quasi if name != counted]}),
            "recode": recode | (merged["recode"] if merged else {}),
        },
        sensitive=[column.name for column in sensitive],
        person=None if rule is None else rule.column,
        rows_per_person=None if rule is None else rule.rows,
        count_rows=counted or None,
        drop=[name for name in source.schema.names if name not in apart],
        numeric=[c.name for c in columns if c.kind == "numeric"],
        categorical=[
            *(c.name for c in columns if c.kind == "categorical"),
            *(name for name in quasi if merged and name in shown),  # the others became ranges
        ],
        domain={
            column.name: [v for v in release.domain(column.name).to_pylist() if v is not None]
            for column in sensitive
            if column.bins is None
        },
        missing=missing,
    )


def same(one: str, other: str, names: Iterable[str]) -> str:
    """SQL for rows that agree in these columns, quoted already; a missing value is a value."""
    return " AND ".join(f"{one}.{name} IS NOT DISTINCT FROM {other}.{name}" for name in names)


def quoted(name: str) -> str:
    """A column name inside SQL."""
    return '"' + name.replace('"', '""') + '"'


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
