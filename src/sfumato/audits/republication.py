"""Several releases of the same people: whoever stayed must be shown alike, and two bucketed
releases keep the promise of one together.

Releases hold no keys, so people are followed as an attacker would follow them, by their
quasi-identifiers: those who are alone with their combination, in both releases. Whether somebody's
value changed meanwhile, only the table behind the earlier release can say. With it, and the key
column, everybody who kept their value is followed, also among people who look alike: as many values
must come back as people stayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, Before, concerns, quoted, same
from sfumato.audits.findings import Direction, Finding
from sfumato.columns import value_text
from sfumato.draws import IntArray
from sfumato.engines.coding import SensitiveCoder
from sfumato.engines.staging import drop_missing
from sfumato.errors import DataError, UsageError
from sfumato.release import BucketedRelease, PerturbedRelease, Release, scan
from sfumato.scratch import scratch_database
from sfumato.table import Table, reading_errors

_AT_ONCE = 1 << 22  # chances that are held at the same time


@concerns(Release)
def check_previous(case: AuditCase) -> Iterator[Finding]:
    """Findings about this release and the one before together."""
    if case.before is None:
        return
    now, then = case.release, case.before.release
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
    sensitive = [column.name for column in now.sensitive if _has(then.sensitive, column.name)]
    for column in sensitive:
        witness = _difference(then, now, column)
        yield Finding.plain(
            catalogue.SAME_OPERATOR, witness is None, column=column, witness=witness
        )
        if witness is None:
            yield _alike(case, case.before, column)
    if not sensitive:
        witness = "no sensitive column was published before"
        yield Finding.plain(catalogue.HISTORY, True, witness=witness)


def _has(columns: Sequence[Any], name: str) -> bool:
    return name in {column.name for column in columns}


def _difference(then: Release, now: Release, column: str) -> str | None:
    """Why the two releases cannot have drawn a person's value alike; None where they can."""
    old, new = (release.domain(column).to_pylist() for release in (then, now))
    if old != new:
        sides = (("new:", new, old), ("gone:", old, new))
        changes = [f"{word} {value_text(v)}" for word, values, others in sides
                for v in [v for v in values if v not in others][:1]]  # fmt: skip
        return (
            f"the domain is another ({'; '.join(changes) or 'another order'}), so everybody was "
            "drawn again; state the domain, or publish with --previous"
        )
    if then.operators[column] != now.operators[column]:
        return "the operator is another, so everybody was drawn again; publish with --previous"
    return None


def _alike(case: AuditCase, before: Before, column: str) -> Finding:
    """How many people who stayed are shown with another value."""
    quasi = [name for name in case.table.quasi if _has(before.release.quasi, name)]
    names = ["q", *(f"q{index}" for index in range(len(quasi)))]  # `q`, always 0: never no column
    with scratch_database() as database:
        for side, release in (("then", before.release), ("now", case.release)):
            shown = [f"{quoted(name)} AS q{index}" for index, name in enumerate(quasi)]
            database.execute(
                f"CREATE TABLE shown_{side} AS SELECT {', '.join(['0 AS q', *shown])}, "
                f"{quoted(column)} AS s FROM {scan(release.records)}"
            )
        lost = followed = 0
        if before.table is None:
            _alone(database, names)
        else:
            _load_people(database, case, before, column, quasi)
            followed, lost = _known(database, names)
        alone, differ = database.execute(
            "SELECT count(*), count(*) FILTER (old IS DISTINCT FROM new) FROM pairs"
        ).fetchall()[0]
        changed = database.sql(
            "SELECT * FROM pairs WHERE old IS DISTINCT FROM new ORDER BY ALL LIMIT 1"
        ).to_arrow_table()
    followed, lost = followed + alone, lost + differ
    if not followed and before.table is None:
        return Finding.skipped(
            catalogue.AS_BEFORE,
            column=column,
            witness="nobody is alone with their quasi values in both releases, so nobody could be "
            "followed; give --previous-table and --key",
        )
    witness = f"of {followed:,} people followed" if lost else f"{followed:,} people followed"
    for row in changed.to_pylist():
        who = ", ".join(f"{name} {value_text(row[f'q{k}'])}" for k, name in enumerate(quasi))
        witness += f"; {who or 'somebody'}: {value_text(row['old'])}, then {value_text(row['new'])}"
    if lost and before.table is None:
        witness += "; if their values changed, give --previous-table and --key to show it"
    return Finding.none(catalogue.AS_BEFORE, lost, column=column, witness=witness)


def _alone(database: Any, names: list[str]) -> None:
    """Without the earlier table: people alone with their combination in both releases."""
    listed = ", ".join(names)
    for side in ("then", "now"):
        database.execute(
            f"CREATE TABLE alone_{side} AS SELECT {listed}, any_value(s) AS s "
            f"FROM shown_{side} GROUP BY {listed} HAVING count(*) = 1"
        )
    database.execute(
        f"CREATE TABLE pairs AS SELECT a.* EXCLUDE (s), a.s AS old, b.s AS new "
        f"FROM alone_then AS a JOIN alone_now AS b ON {same('a', 'b', names)}"
    )


def _known(database: Any, names: list[str]) -> tuple[int, int]:
    """With the earlier table: `pairs` of people alone then and now; how many others kept their
    combination, and how many of their values did not come back."""
    listed, olds = ", ".join(names), [f"old_{name}" for name in names]
    for side in ("then", "now"):
        database.execute(
            f"CREATE TABLE size_{side} AS SELECT {listed}, count(*) AS n FROM people_{side} "
            f"GROUP BY {listed}"
        )
        database.execute(
            f"CREATE TABLE cells_{side} AS SELECT {listed}, s, count(*) AS n FROM shown_{side} "
            f"GROUP BY {listed}, s"
        )
    renamed = ", ".join(f"{name} AS {old}" for name, old in zip(names, olds, strict=True))
    before = f"SELECT {renamed}, n AS old_n FROM size_then"
    database.execute(
        f"""
        CREATE TABLE stayed AS SELECT b.* EXCLUDE (key, code), a.* EXCLUDE (key, code), t.old_n,
               n.n AS new_n
        FROM (SELECT key, code, {renamed} FROM people_then) AS a
        JOIN people_now AS b ON a.key = b.key AND a.code = b.code AND a.code >= 0
        JOIN ({before}) AS t ON {same("a", "t", olds)}
        JOIN size_now AS n ON {same("b", "n", names)}
        """
    )
    database.execute(
        f"CREATE TABLE pairs AS SELECT {', '.join(f'p.{name}' for name in names)}, t.s AS old, "
        f"n.s AS new FROM (SELECT * FROM stayed WHERE old_n = 1 AND new_n = 1) AS p "
        f"JOIN (SELECT s, {renamed} FROM shown_then) AS t ON {same('p', 't', olds)} "
        f"JOIN shown_now AS n ON {same('p', 'n', names)}"
    )
    kept = " AND ".join(f"{name} IS NOT DISTINCT FROM old_{name}" for name in names)
    followed, lost = database.execute(
        f"""
        WITH crowd AS (SELECT {listed}, count(*) AS people FROM stayed
                       WHERE NOT (old_n = 1 AND new_n = 1) AND {kept} GROUP BY {listed}),
             returned AS (
                 SELECT a.* EXCLUDE (s, n), sum(least(a.n, b.n)) AS n FROM cells_then AS a
                 JOIN cells_now AS b ON {same("a", "b", [*names, "s"])} GROUP BY ALL)
        SELECT coalesce(sum(a.people), 0),
               coalesce(sum(greatest(a.people - coalesce(b.n, 0), 0)), 0)
        FROM crowd AS a LEFT JOIN returned AS b ON {same("a", "b", names)}
        """
    ).fetchall()[0]
    return int(followed), int(lost)


def _load_people(
    database: Any, case: AuditCase, before: Before, column: str, quasi: list[str]
) -> None:
    """`people_then` and `people_now`: key, quasi-identifiers, and the code of the true value."""
    assert before.table is not None
    assert before.key is not None
    for name, table in (("then", before.table), ("now", case.table)):
        if before.key not in table.source.schema.names:
            raise DataError(f"{table.label} has no column {before.key!r} (named as key).")
        fields = [pa.field(f"q{k}", table.type_of(q)) for k, q in enumerate(quasi)]
        schema = pa.schema([("key", pa.string()), *fields, ("code", pa.int64())])
        coder = SensitiveCoder(table, column, tuple(case.release.domain(column).to_pylist()))
        people = _people(table, before.key, quasi, column, coder, schema)
        database.register("stream", pa.RecordBatchReader.from_batches(schema, people))
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
    table: Table, key: str, quasi: list[str], column: str, coder: SensitiveCoder, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in table.batches(list(dict.fromkeys([key, *quasi, *table.sensitive]))):
        batch = drop_missing(table, batch)
        arrays = [
            array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
            for array in (batch.column(name) for name in (key, *quasi))
        ]
        codes = pa.array(coder(batch.column(column)))
        arrays = [arrays[0].cast(pa.string()), *arrays[1:], codes]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


# -- two bucketed releases -------------------------------------------------------------------------


@concerns(Release)
def check_intersection(case: AuditCase) -> Iterator[Finding]:
    """For every sensitive column, the people whom both releases together tell too much of.

    Whom their quasi-identifiers single out are in a known bucket of each; the draws of the two are
    independent, so the chance of x after both is ∝ f_x · c_x(g)/(|g| f_x) · c_x(h)/(|h| f_x), which
    is held to the promise's ceiling.
    """
    one, other = case.release, case.other
    if other is None:
        return
    for release in (one, other):
        if not isinstance(release, BucketedRelease):
            raise UsageError(
                "Two releases are audited together where both list values by bucket, with one row "
                f"of a person: {release.where} does not. Keep a --ledger for others."
            )
    columns = [column.name for column in one.sensitive if _has(other.sensitive, column.name)]
    if not all(_has(other.quasi, name) for name in case.table.quasi) or not columns:
        raise UsageError(
            "Two releases are audited together where they share their quasi-identifiers and a "
            f"sensitive column; {other.where} has others than {one.where}."
        )
    names = [quoted(name) for name in case.table.quasi]
    if not names:
        return
    places = case.connect().sql(
        f"""
        WITH own AS (SELECT {", ".join(names)} FROM raw GROUP BY ALL HAVING count(*) = 1)
        SELECT p.bucket AS one, q.bucket AS two FROM own AS o
        JOIN published AS p ON {same("o", "p", names)}
        JOIN {scan(other.records)} AS q ON {same("o", "q", names)}
        """
    ).to_arrow_table()  # fmt: skip
    buckets = [np.asarray(places.column(name).to_numpy(), np.int64) for name in ("one", "two")]
    for column in columns:
        yield _both(case, other, column, *buckets)


def _both(case: AuditCase, other: Release, column: str, one: IntArray, two: IntArray) -> Finding:
    histogram = case.profile.histograms[column]
    prior = histogram.counts / max(histogram.rows, 1)
    ceilings = np.array([float(ceiling) for ceiling in case.guarantee.ceilings(histogram)])
    lists = [_shares(case, release, column) for release in (case.release, other)]
    beyond, largest, value = 0, 0.0, 0
    step = max(1, _AT_ONCE // max(len(prior), 1))
    for low in range(0, len(one), step):
        here = slice(low, low + step)
        chance = lists[0][one[here]].toarray() * lists[1][two[here]].toarray()
        chance = np.divide(chance, prior, out=np.zeros_like(chance), where=prior > 0)
        chance /= np.maximum(chance.sum(axis=1, keepdims=True), 1e-300)
        limited = np.where(ceilings < 1, chance, 0.0)
        beyond += int((limited > ceilings + 1e-9).any(axis=1).sum())
        if limited.size and limited.max() > largest:
            largest, value = float(limited.max()), int(limited.max(axis=0).argmax())
    witness = f"{len(one):,} people whom their quasi-identifiers single out in both"
    if len(one):
        witness = f"{value_text(histogram.values[value])} up to {largest:.3f}; {witness}"
    return Finding.none(catalogue.INTERSECTION, beyond, column=column, witness=witness)


def _shares(case: AuditCase, release: Release, column: str) -> Any:
    """A sparse matrix (bucket, value) of shares, in this table's codes."""
    from scipy.sparse import csr_array

    listed = release.side_table("sensitive")
    buckets = np.asarray(listed.column("bucket").to_numpy(), np.int64)
    counts = np.asarray(listed.column("count").to_numpy(), np.float64)
    places = {value: code for code, value in enumerate(case.profile.histograms[column].values)}
    table_code = np.array([places.get(v, -1) for v in release.domain(column).to_pylist()], np.int64)
    codes = table_code[release.shown_codes(listed, column)]
    share, kept = counts / np.bincount(buckets, counts)[buckets], codes >= 0
    shape = (int(buckets.max(initial=-1)) + 1, len(places))
    return csr_array((share[kept], (buckets[kept], codes[kept])), shape=shape)
