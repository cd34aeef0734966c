"""Is no more published of a person than the release says? And can its rows be followed?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, quoted
from sfumato.audits.findings import Direction, Finding
from sfumato.guarantees import ReconstructionPrivacy
from sfumato.release import BucketedRelease, PerturbedRelease

FOLLOWED = ("uniform", "fine-grain", "general")  # operators that draw each record by itself


def follows_chosen_rows(case: AuditCase) -> bool:
    """Whether audits can do without knowing which rows of people were withheld."""
    if not case.rows_of_people_withheld or isinstance(case.release, BucketedRelease):
        return True
    if not isinstance(case.release, PerturbedRelease) or case.release.scales is not None:
        return False  # what was drawn for sampled groups follows from all of a group's rows
    return {operator.form for operator in case.release.operators.values()} <= set(FOLLOWED)


def check_people(case: AuditCase) -> Iterator[Finding]:
    """How many rows of people are published, in all and of each who can be followed."""
    rule = case.release.manifest.person
    if rule is None:
        return
    connection = case.connect()
    connection.register("people", case.person_reader(rule.column))
    connection.execute("CREATE TABLE raw_people AS SELECT * FROM people")
    published, withheld = connection.execute(
        f"SELECT sum(r), sum(n - r) FROM (SELECT n, least(n, {rule.rows}) AS r FROM "
        "(SELECT count(*) AS n FROM raw_people GROUP BY __person))"
    ).fetchall()[0]
    told = case.release.manifest.rows + case.withheld_by_plan
    yield Finding.limited(
        catalogue.PERSON_ROWS,
        told if rule.suppressed == withheld else -1,
        Direction.EXACTLY,
        int(published),
        about=str(rule.rows),
        witness=f"{int(withheld):,} rows beyond that, the manifest says {rule.suppressed:,}",
    )
    yield from _followed(case, connection, rule.rows)


def _followed(case: AuditCase, connection: Any, most: int) -> Iterator[Finding]:
    """Records whose quasi columns nobody but one person has are that person's."""
    names = [quoted(name) for name in case.table.quasi]
    as_they_are = isinstance(case.release, PerturbedRelease | BucketedRelease)
    if not names or not as_they_are or isinstance(case.guarantee, ReconstructionPrivacy):
        return  # in ranges, sets and merged values nobody's own columns are published
    listed = ", ".join(names)
    same = " AND ".join(f"o.{name} IS NOT DISTINCT FROM p.{name}" for name in names)
    people, beyond, worst = connection.execute(
        f"""
        WITH own AS (SELECT {listed}, any_value(__person) AS person FROM raw_people
                     GROUP BY {listed} HAVING count(DISTINCT __person) = 1),
             shown AS (SELECT {listed}, count(*) AS n FROM published GROUP BY {listed}),
             each AS (SELECT person, sum(p.n) AS n FROM own AS o JOIN shown AS p ON {same}
                      GROUP BY person)
        SELECT count(*), count(*) FILTER (n > {most}), max(n) FROM each
        """
    ).fetchall()[0]
    witness = f"{people:,} people whom their quasi-identifiers single out"
    if beyond:
        witness = f"{int(worst):,} rows of one person; {witness}"
    yield Finding.none(catalogue.PERSON_MOST, int(beyond), about=str(most), witness=witness)
