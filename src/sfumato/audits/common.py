"""Checks that every release must pass, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, quoted
from sfumato.audits.findings import Direction, Finding
from sfumato.guarantees import ReconstructionPrivacy


def check_randomness(case: AuditCase) -> Iterator[Finding]:
    """A seeded release protects nobody: whoever guesses the seed can undo the draws."""
    randomness = case.release.manifest.randomness
    yield Finding.limited(
        catalogue.RANDOMNESS,
        randomness,
        Direction.ONE_OF,
        "system, key-file",
        witness="made with --seed: for experiments only" if randomness == "seeded" else None,
    )


def check_mechanism(case: AuditCase) -> Iterator[Finding]:
    """The mechanism that the manifest names can keep the promise that it names."""
    mechanism = case.mechanism
    if mechanism is not None:
        kept = mechanism.keeps(case.guarantee)
        told = None if kept else f"{mechanism} does not keep {case.guarantee}"
        if case.rows_per_person > 1 and not mechanism.several_rows:
            told = f"{mechanism} keeps its promise for one row of a person"
        yield Finding.plain(catalogue.MECHANISM, told is None, witness=told)


def check_rows(case: AuditCase) -> Iterator[Finding]:
    """Published and withheld records together are the table."""
    manifest = case.release.manifest
    yield Finding.limited(
        catalogue.ROWS,
        manifest.rows + manifest.suppressed,
        Direction.EXACTLY,
        case.profile.rows,
        witness=f"{manifest.suppressed:,} withheld" if manifest.suppressed else None,
    )


def check_quasi_columns(case: AuditCase) -> Iterator[Finding]:
    """The quasi columns are the raw ones as a multiset, less the withheld records."""
    columns = ", ".join(quoted(name) for name in case.table.quasi)
    if not columns or isinstance(case.guarantee, ReconstructionPrivacy):
        return  # values may be merged; the sizes of all groups are checked instead
    connection = case.connect()
    row = connection.execute(
        f"""
        SELECT coalesce(sum(n) FILTER (n > 0), 0), coalesce(-sum(n) FILTER (n < 0), 0) FROM (
            SELECT {columns}, sum(side) AS n FROM (
                SELECT {columns}, 1 AS side FROM raw
                UNION ALL SELECT {columns}, -1 AS side FROM published
            ) GROUP BY {columns} HAVING sum(side) <> 0)
        """
    ).fetchall()[0]
    absent, invented = int(row[0]), int(row[1])
    withheld = case.release.manifest.suppressed
    yield Finding.none(
        catalogue.QUASI_COLUMNS,
        invented + abs(absent - withheld),
        witness=f"{invented:,} published records match no raw record, {absent:,} raw records are "
        "not there"
        if invented or absent != withheld
        else None,
    )
