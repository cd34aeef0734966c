"""Does a later release tell no more than the one before? Whoever stayed must be shown alike.

Releases hold no keys, so people are followed as an attacker would follow them, by their quasi
columns: those who are alone with their combination, in both releases. Whether somebody's value
changed meanwhile, only the table behind the earlier release can say. With it, and the key column,
everybody who kept their value is followed, also among people who look alike: as many values must
come back as people stayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, quoted, raw_table
from sfumato.audits.findings import Direction, Finding
from sfumato.columns import Value, value_text
from sfumato.engines.coding import SensitiveCoder
from sfumato.engines.staging import drop_missing
from sfumato.errors import DataError, UsageError
from sfumato.release import PerturbedRelease, Release
from sfumato.scratch import scratch_database
from sfumato.table import Table, reading_errors


@dataclass(frozen=True, eq=False)
class Before:
    """What is known of the time before: the earlier release, and its table where it is kept."""

    release: Release
    table: Table | None = None
    key: str | None = None

    @classmethod
    def of(cls, release: Release | str | Path, table: Any, key: str | None) -> Before:
        opened = release if isinstance(release, Release) else Release(release)
        if table is None:
            return cls(opened)
        if key is None:
            raise UsageError(
                "The table behind the previous release is matched with this one by the people's "
                "keys: name their column with --key."
            )
        return cls(opened, raw_table(table, opened), key)


def check_previous(case: AuditCase, before: Before) -> Iterator[Finding]:
    """Findings about the two releases together, beyond those about each by itself."""
    now, then = case.release, before.release
    if not all(isinstance(release, PerturbedRelease) for release in (now, then)):
        yield Finding.plain(
            catalogue.HISTORY,
            False,
            value=f"{then.kind}, then {now.kind}",
            witness="such a release draws afresh for everybody, and tells more each time",
        )
        return
    sources = (then.manifest.randomness, now.manifest.randomness)
    yield Finding.limited(
        catalogue.PERSONAL_DRAWS,
        " and ".join(sources),
        Direction.EXACTLY,
        "key-file and key-file",
        witness=None if set(sources) == {"key-file"} else "only a key file repeats a person's draw",
    )
    sensitive = [name for name in case.table.sensitive if _role(then, name) == "sensitive"]
    for column in sensitive:
        difference = _difference(then, now, column)
        yield Finding.plain(
            catalogue.SAME_OPERATOR, difference is None, column=column, witness=difference
        )
        if difference is None:
            yield _alike(case, before, column)
    if not sensitive:
        told = "no sensitive column was published before"
        yield Finding.plain(catalogue.HISTORY, True, witness=told)


def _role(release: Release, name: str) -> str | None:
    return next((column.role for column in release.columns if column.name == name), None)


def _difference(then: Release, now: Release, column: str) -> str | None:
    """Why the two releases cannot have drawn a person's value alike; None where they can."""
    domains = [release.domain(column).to_pylist() for release in (then, now)]
    if domains[0] != domains[1]:
        strange = [value_text(v) for v in domains[1] if v not in domains[0]]
        gone = [value_text(v) for v in domains[0] if v not in domains[1]]
        told = [
            f"{word} {texts[0]}" for word, texts in (("new:", strange), ("gone:", gone)) if texts
        ]
        return (
            f"the domain is another ({'; '.join(told) or 'another order'}), so everybody was drawn "
            "again; state the domain, or publish with --previous"
        )
    if then.operators[column] != now.operators[column]:
        return "the operator is another, so everybody was drawn again; publish with --previous"
    return None


def _alike(case: AuditCase, before: Before, column: str) -> Finding:
    """How many people who stayed are shown with another value."""
    quasi = [n for n in case.table.quasi if _role(before.release, n) == "quasi"]
    with scratch_database() as database:
        for name, release in (("then", before.release), ("now", case.release)):
            files = ", ".join("'" + str(p).replace("'", "''") + "'" for p in release.records)
            shown = [f"{quoted(q)} AS q{i}" for i, q in enumerate(quasi)]
            database.execute(
                f"CREATE TABLE shown_{name} AS SELECT {', '.join(['0 AS q', *shown])}, "
                f"{quoted(column)} AS s FROM read_parquet([{files}])"
            )
        count = len(quasi)
        if before.table is None:
            return _alone(database, column, count, quasi)
        _load_people(database, case, before, column, quasi)
        return _known(database, column, count, quasi)


def _alone(database: Any, column: str, count: int, quasi: list[str]) -> Finding:
    """Without the earlier table: people alone with their combination in both releases."""
    names = _names(count)
    for side in ("then", "now"):
        database.execute(
            f"CREATE TABLE alone_{side} AS SELECT {names}, any_value(s) AS s, count(s) AS has "
            f"FROM shown_{side} GROUP BY {names} HAVING count(*) = 1"
        )
    database.execute(
        f"CREATE TABLE pairs AS SELECT {_names(count, 'a')}, a.s AS old, b.s AS new "
        f"FROM alone_then AS a JOIN alone_now AS b ON {_same(count)}"
    )
    return _finding(database, column, quasi, 0, 0, known=False)


def _known(database: Any, column: str, count: int, quasi: list[str]) -> Finding:
    """With the earlier table: everybody who kept their value, alone or among others."""
    names, keys = _names(count), "a.key = b.key AND a.code = b.code AND a.code >= 0"
    for side in ("then", "now"):
        database.execute(
            f"CREATE TABLE size_{side} AS SELECT {names}, count(*) AS n FROM people_{side} "
            f"GROUP BY {names}"
        )
    database.execute(
        f"CREATE TABLE stayed AS SELECT {_names(count, 'a', 'old_')}, {_names(count, 'b')} "
        f"FROM people_then AS a JOIN people_now AS b ON {keys}"
    )
    database.execute(
        f"CREATE TABLE pairs AS SELECT {_names(count, 'p')}, t.s AS old, n.s AS new "
        f"FROM stayed AS p JOIN size_then AS a ON {_same(count, 'p', 'a', 'old_')} AND a.n = 1 "
        f"JOIN size_now AS b ON {_same(count, 'p', 'b')} AND b.n = 1 "
        f"JOIN shown_then AS t ON {_same(count, 't', 'a')} "
        f"JOIN shown_now AS n ON {_same(count, 'n', 'b')}"
    )
    for side in ("then", "now"):
        database.execute(
            f"CREATE TABLE cells_{side} AS SELECT {names}, s, count(*) AS n FROM shown_{side} "
            f"GROUP BY {names}, s"
        )
    followed, lost = database.execute(
        f"""
        WITH together AS (
            SELECT {_names(count, "p")}, count(*) AS people FROM stayed AS p
            JOIN size_then AS a ON {_same(count, "p", "a")} JOIN size_now AS b
            ON {_same(count, "p", "b")} WHERE {_same(count, "p", "p", "old_")}
            AND NOT (a.n = 1 AND b.n = 1) GROUP BY {_names(count, "p")}),
        returned AS (
            SELECT {_names(count, "a")}, sum(least(a.n, b.n)) AS n FROM cells_then AS a
            JOIN cells_now AS b ON {_same(count)} AND a.s IS NOT DISTINCT FROM b.s
            GROUP BY {_names(count, "a")})
        SELECT coalesce(sum(a.people), 0),
               coalesce(sum(greatest(a.people - coalesce(b.n, 0), 0)), 0)
        FROM together AS a LEFT JOIN returned AS b ON {_same(count)}
        """
    ).fetchall()[0]
    return _finding(database, column, quasi, int(followed), int(lost), known=True)


def _finding(
    database: Any, column: str, quasi: list[str], followed: int, lost: int, *, known: bool
) -> Finding:
    alone, differ = database.execute(
        "SELECT count(*), count(*) FILTER (old IS DISTINCT FROM new) FROM pairs"
    ).fetchall()[0]
    followed, redrawn = followed + alone, lost + differ
    if not followed and not known:
        return Finding.skipped(
            catalogue.AS_BEFORE,
            column=column,
            witness="nobody is alone with their quasi values in both releases, so nobody could be "
            "followed; give --previous-table and --key",
        )
    if not redrawn:
        told = f"{followed:,} people followed"
        return Finding.none(catalogue.AS_BEFORE, 0, column=column, witness=told)
    witness = f"of {followed:,} people followed"
    if differ:
        found = database.sql(
            "SELECT * FROM pairs WHERE old IS DISTINCT FROM new ORDER BY ALL LIMIT 1"
        )
        row = found.to_arrow_table().to_pylist()[0]
        who = ", ".join(f"{name} {value_text(row[f'q{i}'])}" for i, name in enumerate(quasi))
        witness += f"; {who or 'somebody'}: {value_text(row['old'])}, then {value_text(row['new'])}"
    if not known:
        witness += "; if their values changed, give --previous-table and --key to show it"
    return Finding.none(catalogue.AS_BEFORE, redrawn, column=column, witness=witness)


def _load_people(
    database: Any, case: AuditCase, before: Before, column: str, quasi: list[str]
) -> None:
    """`people_then` and `people_now`: key, quasi columns, and the code of the true value."""
    assert before.table is not None
    assert before.key is not None
    values = tuple(case.release.domain(column).to_pylist())
    for name, table in (("then", before.table), ("now", case.table)):
        if before.key not in table.source.schema.names:
            raise DataError(f"{table.label} has no column {before.key!r} (named as key).")
        stream = _people(table, before.key, column, quasi, values)
        fields = [pa.field(f"q{i}", table.type_of(q)) for i, q in enumerate(quasi)]
        schema = pa.schema([("key", pa.string()), *fields, ("code", pa.int64())])
        database.register("stream", pa.RecordBatchReader.from_batches(schema, stream))
        with reading_errors(table.source):
            database.execute(f"CREATE TABLE people_{name} AS SELECT 0 AS q, * FROM stream")
        database.unregister("stream")
        repeated = database.execute(
            f"SELECT count(*) - count(DISTINCT key) FROM people_{name}"
        ).fetchall()[0][0]
        if repeated:
            raise DataError(
                f"The key column {before.key!r} of {table.label} repeats or lacks {repeated:,} "
                "keys, so people cannot be followed by it."
            )


def _people(
    table: Table, key: str, column: str, quasi: list[str], values: tuple[Value, ...]
) -> Iterator[pa.RecordBatch]:
    coder = SensitiveCoder(table, column, values)
    for batch in table.batches(list(dict.fromkeys([key, *quasi, *table.sensitive]))):
        batch = drop_missing(table, batch)
        arrays = [
            array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
            for array in (batch.column(name) for name in (key, *quasi))
        ]
        codes = pa.array(coder(batch.column(column)))
        names = ["key", *(f"q{i}" for i in range(len(quasi))), "code"]
        yield pa.RecordBatch.from_arrays([arrays[0].cast(pa.string()), *arrays[1:], codes], names)


def _names(count: int, alias: str = "", prefix: str = "") -> str:
    """The quasi columns in SQL; `q`, always 0, keeps the list from being empty."""
    dot = f"{alias}." if alias else ""
    named = [f"q{i}" for i in ("", *range(count))]
    return ", ".join(f"{dot}{name} AS {prefix}{name}" if prefix else dot + name for name in named)


def _same(count: int, one: str = "a", two: str = "b", prefix: str = "") -> str:
    """That two rows have the same quasi values; a missing value is a value."""
    named = [f"q{i}" for i in ("", *range(count))]
    return " AND ".join(f"{one}.{prefix}{n} IS NOT DISTINCT FROM {two}.{n}" for n in named)
