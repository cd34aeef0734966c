"""What an audit looks at: the raw table and the release, brought to the same terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from sfumato.audits.findings import Finding
from sfumato.columns import in_json, quoted
from sfumato.draws import Draws, IntArray
from sfumato.engines.choosing import with_counts
from sfumato.engines.counting import take_profile
from sfumato.errors import DataError, SfumatoError
from sfumato.guarantees import Guarantee, jointly, parse_guarantee
from sfumato.mechanisms import Mechanism, Plan, parse_mechanism
from sfumato.profile import Profile
from sfumato.release import Release, scan
from sfumato.scratch import scratch_database
from sfumato.table import Missing, Table, read
from sfumato.table.quasi_k import QuasiMerge
from sfumato.table.sources import find_source
from sfumato.table.staging import codes_of, stage

if TYPE_CHECKING:
    from sfumato.audits.blocks import BlocksAgain
    from sfumato.audits.replay import Matches

SomePlan = TypeVar("SomePlan", bound=Plan)


@dataclass(eq=False)
class AuditCase:
    """A table and a release of it. Counts are taken once, on demand.

    `declared` says that the table came with its own roles and domains, not the manifest's;
    `repeated` that a receipt has repeated the run, `matches` who then stands behind ranges. `key`
    says whose rows they are.
    """

    table: Table
    release: Release
    declared: bool = False
    key: str | None = None
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
        return take_profile(self.looked_at)

    @cached_property
    def looked_at(self) -> Table:
        """The table with the rows that were read of it, those of a further key among them."""
        table = self.table
        if self.key in (None, table.key, *table.quasi, *table.sensitive):
            return stage(table)
        names = table.source.schema.names
        if self.key not in names:
            raise DataError(
                f"{table.label} has no column {self.key!r} to be the key. Columns: "
                f"{', '.join(names)}."
            )
        return stage(replace(table, key=self.key, rows=None))

    @property
    def persons(self) -> dict[str, str]:
        """The columns that say whose rows they are: as `__person` for a promise about people, as
        `__key` for whoever follows them."""
        rule = self.release.manifest.person
        named = {"__person": None if rule is None else rule.column, "__key": self.key}
        return {role: name for role, name in named.items() if name is not None}

    @cached_property
    def whole_guarantee(self) -> Guarantee:
        """What is promised of all columns, together where the release says so."""
        joint = self.release.manifest.joint
        return jointly(self.guarantee, self.profile.histograms) if joint else self.guarantee

    @cached_property
    def blocks_again(self) -> BlocksAgain | None:
        """The blocks of local buckets, cut again."""
        from sfumato.audits.blocks import blocks_again

        return blocks_again(self)

    @cached_property
    def plan(self) -> Plan | None:
        """What the mechanism plans for the table again, without a draw; None where it cannot."""
        if self.mechanism is None:
            return None
        try:
            profile = with_counts(self.profile, [self.mechanism], self.table)
            return self.mechanism.plan(profile, self.whole_guarantee, Draws.from_seed(0))
        except SfumatoError:
            return None

    def planned(self, kind: type[SomePlan]) -> SomePlan | None:
        """`plan` where it is of this kind, as the exact checks of some mechanisms need it."""
        made = self.plan
        return made if isinstance(made, kind) else None

    def raw_batches(self) -> Iterator[pa.RecordBatch]:
        """The raw quasi-identifiers, `persons`, and the codes of the sensitive columns as
        `__code_0` …"""
        table = self.looked_at
        assert self.profile.rows  # values outside a stated domain are refused there
        shown = [*table.quasi, *self.persons.values()]

        def coded(batch: pa.RecordBatch) -> pa.RecordBatch:
            arrays = [_decoded(batch.column(name)) for name in shown]
            arrays += map(pa.array, codes_of(batch, table.sensitive).values())
            return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

        # whoever names a published column as the key has it twice
        return map(coded, table.batches(tuple(dict.fromkeys([*shown, *table.sensitive]))))

    @cached_property
    def _schema(self) -> pa.Schema:
        named = {name: name for name in self.table.quasi} | self.persons
        fields = [pa.field(shown, self.table.type_of(name)) for shown, name in named.items()]
        codes = range(len(self.table.sensitive))
        return pa.schema([*fields, *(pa.field(f"__code_{k}", pa.int64()) for k in codes)])

    @property
    def rows_of_people_withheld(self) -> int:
        """How many rows stayed out, another of their person being drawn: which, nobody says."""
        rule = self.release.manifest.person
        return 0 if rule is None else rule.suppressed

    @property
    def withheld_by_plan(self) -> int:
        """How many records the mechanism itself left out."""
        return self.release.manifest.suppressed - self.rows_of_people_withheld

    @cached_property
    def database(self) -> Any:
        """DuckDB with `raw`, the table as `raw_batches` and its order as `__place`, and the
        records as `published`."""
        connection = scratch_database()
        stream = pa.RecordBatchReader.from_batches(self._schema, self.raw_batches())
        connection.register("stream", stream)
        connection.execute(
            "CREATE TABLE raw AS SELECT *, row_number() OVER () AS __place FROM stream"
        )
        connection.unregister("stream")
        connection.execute(f"CREATE VIEW published AS SELECT * FROM {scan(self.release.records)}")
        return connection

    def close(self) -> None:
        """A connection that is left to the collector can crash the process at its end."""
        if "database" in vars(self):
            self.database.close()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the database finds."""
        found: list[tuple[Any, ...]] = self.database.execute(query).fetchall()
        return found

    def columns(self, query: str) -> pa.Table:
        return self.database.sql(query).to_arrow_table()

    @property
    def quasi(self) -> list[str]:
        """The quasi-identifiers as SQL names them."""
        return [quoted(name) for name in self.table.quasi]

    @property
    def balance(self) -> str:
        """SQL for classes of equal quasi-identifiers, and as `n` how many more rows of each the
        table has than the release."""
        names = ", ".join(self.quasi) or "0 AS nothing"
        return (
            f"(SELECT * EXCLUDE (side), sum(side) AS n FROM (SELECT {names}, 1 AS side FROM raw "
            f"UNION ALL SELECT {names}, -1 AS side FROM published) GROUP BY ALL)"
        )

    def complete(self, side: str) -> str:
        """SQL for `raw` or `published`, of those classes alone of which no row of a person was
        withheld: there, and nowhere else, raw rows and records are the same people's. Which classes
        these are depends on the rows that were chosen and not on what was drawn for them."""
        if not self.rows_of_people_withheld:
            return side
        return (
            f"(SELECT a.* FROM {side} AS a SEMI JOIN (SELECT * FROM {self.balance} WHERE n = 0) "
            f"AS b ON {same('a', 'b', self.quasi)})"
        )


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
    recode = {c.name: c.recode for c in columns if c.recode}
    return read(
        source,
        **{
            **(merged or {}),
            "quasi": [name for name in quasi if name != counted],
            "recode": recode | (merged["recode"] if merged else {}),
        },
        bins={c.name: c.bins for c in columns if c.bins and not c.recode},
        sensitive=[column.name for column in sensitive],
        person=None if rule is None else rule.column,
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
    pairs = [f"{one}.{name} IS NOT DISTINCT FROM {other}.{name}" for name in names]
    return " AND ".join(pairs) or "TRUE"


def encoded(column: pa.ChunkedArray) -> tuple[pa.Array, IntArray]:
    """The different values of a column, missing ones among them, and which each row has."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode(null_encoding="encode")
    coded = column.combine_chunks()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    return coded.dictionary, np.asarray(coded.indices.to_numpy(), np.int64)


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
