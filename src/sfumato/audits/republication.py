"""A release after another of the same people: whoever stayed must be shown alike.

Releases hold no keys, so people are followed as an attacker would follow them, by their
quasi-identifiers: those who are alone with their combination, in both releases. Whether somebody's
value changed meanwhile, only the table behind the earlier release can say. With it, and the key
column, everybody who kept their value is followed: of people who looked alike then and look alike
now, as many values must come back as people stayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, concerns, quoted, same
from sfumato.audits.findings import CheckResult, Finding
from sfumato.columns import value_text
from sfumato.errors import DataError
from sfumato.release import PerturbedRelease, Release, scan
from sfumato.scratch import scratch_database
from sfumato.table import reading_errors


@concerns(Release)
def check_previous(case: AuditCase) -> Iterator[Finding]:
    """Findings about this release and the one before together."""
    if case.before is None:
        return
    now, then = case.release, case.before
    if not all(isinstance(release, PerturbedRelease) for release in (now, then)):
        wrong = "such a release draws afresh for everybody, and tells more each time"
        yield Finding.plain(catalogue.HISTORY, wrong, value=f"{then.kind}, then {now.kind}")
        return
    yield Finding.limited(
        catalogue.PERSONAL_DRAWS,
        f"{then.manifest.randomness} and {now.manifest.randomness}",
        "key-file and key-file",
        wrong="only a key file repeats a person's draw",
    )
    sensitive = [column.name for column in now.sensitive if _has(then.sensitive, column.name)]
    for column in sensitive:
        difference = _difference(then, now, column)
        yield Finding.plain(catalogue.SAME_OPERATOR, difference, column=column)
        if difference is None:
            yield _alike(case, then, column)
    if not sensitive:
        witness = "no sensitive column was published before"
        yield Finding(catalogue.HISTORY, CheckResult.OK, witness=witness)


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


def _alike(case: AuditCase, then: Release, column: str) -> Finding:
    """How many people who stayed are shown with another value."""
    quasi = [name for name in case.table.quasi if _has(then.quasi, name)]
    names, raw = [f"q{index}" for index in range(len(quasi))], [*map(quoted, quasi)]
    shown = "".join(f"{name} AS {q}, " for name, q in zip(raw, names, strict=True))
    alike = f"hash({', '.join(raw)})" if raw else "0::UBIGINT"
    before = AuditCase(case.before_table or case.table, then, key=case.key)
    with closing(before), scratch_database() as database:
        for side, one in (("old", before), ("new", case)):
            database.execute(
                f"CREATE TABLE {side} AS SELECT {alike} AS {side}_class, {shown}{quoted(column)} "
                f"AS {side}, count(*) AS n FROM {scan(one.release.records)} GROUP BY ALL"
            )
            if case.before_table is not None:
                people = _people(one, f"{alike} AS {side}_class", column)
                database.register(f"{side}_people", people)
        if case.before_table is None:  # whoever is alone in both is taken for the same person
            alone = "(SELECT * FROM {0} QUALIFY sum(n) OVER (PARTITION BY {0}_class) = 1)"
            stayed = f"SELECT old_class, new_class, 1 AS people FROM {alone.format('old')} AS o "
            stayed += f"JOIN {alone.format('new')} AS n ON {same('o', 'n', names)}"
        else:
            stayed = "SELECT old_class, new_class, count(*) AS people FROM old_people "
            stayed += "JOIN new_people USING (key, code) GROUP BY ALL"
        database.execute(
            f"""
            CREATE TABLE followed AS WITH stayed AS ({stayed}), returned AS (
                SELECT old_class, new_class, sum(least(old.n, new.n)) AS n FROM stayed
                JOIN old USING (old_class) JOIN new USING (new_class)
                WHERE old.old IS NOT DISTINCT FROM new.new GROUP BY ALL)
            SELECT stayed.*, greatest(people - coalesce(n, 0), 0) AS lost
            FROM stayed LEFT JOIN returned USING (old_class, new_class)
            """
        )
        followed, lost = map(int, database.execute(
            "SELECT coalesce(sum(people), 0), coalesce(sum(lost), 0) FROM followed"
        ).fetchall()[0])  # fmt: skip
        single = "(SELECT * FROM {0} QUALIFY count(*) OVER (PARTITION BY {0}_class) = 1)"
        columns = [*(f"o.{name} AS old_{name}" for name in names), *(f"n.{q}" for q in names)]
        changed = database.sql(  # of people in classes that show one value
            f"SELECT {', '.join([*columns, 'o.old', 'n.new'])} FROM followed "
            f"JOIN {single.format('old')} AS o USING (old_class) "
            f"JOIN {single.format('new')} AS n USING (new_class) "
            "WHERE lost > 0 ORDER BY ALL LIMIT 1"
        ).to_arrow_table()
    if not followed and case.before_table is None:
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
    if lost and case.before_table is None:
        witness += "; if their values changed, give --previous-table and --key to show it"
    return Finding.limited(catalogue.AS_BEFORE, lost, column=column, witness=witness)


def _people(case: AuditCase, columns: str, column: str) -> pa.Table:
    """Key, quasi-identifiers, and the place of the true value in the release's domain."""
    domain = {value: place for place, value in enumerate(case.release.domain(column).to_pylist())}
    values = case.profile.histograms[column].values
    codes = {"raw": range(len(values)), "code": [domain.get(value) for value in values]}
    with reading_errors():
        ((repeats,),) = case.rows("SELECT count(*) - count(DISTINCT __key) FROM raw")
        if repeats:
            raise DataError(
                f"The key column {case.key!r} of {case.table.label} repeats or lacks {repeats:,} "
                "keys, so people cannot be followed by it."
            )
        case.database.register("codes", pa.table({name: list(of) for name, of in codes.items()}))
        return case.columns(
            f"SELECT {columns}, __key::VARCHAR AS key, c.code FROM raw JOIN codes AS c ON c.raw = "
            f"raw.__code_{case.table.sensitive.index(column)} WHERE c.code IS NOT NULL"
        )
