"""People with several rows: is no more published of them than the release says, and what do
records tell together that were each published as if they were somebody?

A record keeps the promise by itself. A reader who finds several records of a person and takes them
to say the same multiplies what they tell: the ceiling is then another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, concerns, same
from sfumato.audits.findings import Finding
from sfumato.audits.perturbed import ENTRYWISE
from sfumato.columns import value_text
from sfumato.engines.cautions import repeating_columns
from sfumato.guarantees import ReconstructionPrivacy
from sfumato.guarantees.base import odds
from sfumato.profile import Histogram
from sfumato.release import BucketedRelease, PerturbedRelease, Release


def follows_chosen_rows(case: AuditCase) -> bool:
    """Whether audits can do without knowing which rows of people were withheld."""
    if not case.rows_of_people_withheld or isinstance(case.release, BucketedRelease):
        return True
    if not isinstance(case.release, PerturbedRelease) or case.release.scales is not None:
        return False  # what was drawn for sampled groups follows from all of a group's rows
    return {operator.form for operator in case.release.operators.values()} <= set(ENTRYWISE)


@concerns(Release)
def check_people(case: AuditCase) -> Iterator[Finding]:
    """Rows of people where the promise is about people; else what their records tell together."""
    if case.release.manifest.person is not None:
        yield from _rows_of_people(case)
    elif case.key is not None:
        yield _several(case, case.key)
    else:
        for seen in repeating_columns(case.table):
            if seen.identifies:
                witness = f"{seen.different:,} different values in {seen.rows:,} rows; if it names "
                witness += f"people, audit with --key {seen.name}"
                named = f"perhaps, by column {seen.name!r}"
                yield Finding.info(catalogue.PERSON_TOGETHER, named, witness=witness)


def _rows_of_people(case: AuditCase) -> Iterator[Finding]:
    """How many rows of people are published, in all and of each who can be followed: records whose
    quasi-identifiers nobody but one person has are that person's."""
    rule, names = case.release.manifest.person, case.quasi
    assert rule is not None
    ((published, withheld),) = case.rows(
        "SELECT count(*), sum(n - 1) FROM (SELECT count(*) AS n FROM raw GROUP BY __person)"
    )
    yield Finding.limited(
        catalogue.PERSON_ROWS,
        case.release.rows + case.withheld_by_plan if rule.suppressed == withheld else -1,
        int(published),
        witness=f"{int(withheld):,} rows beyond that, the manifest says {rule.suppressed:,}",
    )
    as_they_are = isinstance(case.release, PerturbedRelease | BucketedRelease)
    if not names or not as_they_are or isinstance(case.guarantee, ReconstructionPrivacy):
        return  # in ranges, sets and merged values nobody's own columns are published
    listed = ", ".join(names)
    ((people, beyond, most),) = case.rows(
        f"""
        WITH own AS (SELECT {listed}, any_value(__person) AS person FROM raw
                     GROUP BY {listed} HAVING count(DISTINCT __person) = 1),
             shown AS (SELECT {listed}, count(*) AS n FROM published GROUP BY {listed}),
             by_person AS (SELECT person, sum(p.n) AS n FROM own AS o
                           JOIN shown AS p ON {same("o", "p", names)} GROUP BY person)
        SELECT count(*), count(*) FILTER (n > 1), max(n) FROM by_person
        """
    )
    witness = f"{people:,} people whom their quasi-identifiers single out"
    if beyond:
        witness = f"{int(most):,} rows of one person; {witness}"
    yield Finding.limited(catalogue.PERSON_MOST, int(beyond), witness=witness)


def _several(case: AuditCase, key: str) -> Finding:
    """How many people have several records, and what these may tell together."""
    ((several, most),) = case.rows(
        "SELECT count(*) FILTER (n > 1), max(n) FROM (SELECT count(*) AS n FROM raw GROUP BY __key)"
    )
    if not several:
        return Finding.limited(catalogue.PERSON_TOGETHER, 0)
    said = [f"up to {int(most):,} of one"]
    said += [
        _ceiling_then(case, histogram, int(most)) for histogram in case.profile.histograms.values()
    ]
    said.append(f"publish with --person {key}")
    return Finding.limited(catalogue.PERSON_TOGETHER, int(several), witness="; ".join(said))


def _ceiling_then(case: AuditCase, histogram: Histogram, most: int) -> str:
    """The value about which two records of a person may tell the most, and what they may tell."""
    gains = {
        code: gain
        for code, gain in enumerate(case.guarantee.odds_gains(histogram))
        if gain is not None and histogram.counts[code]
    }
    if not gains:
        return f"nothing limits what they tell of {histogram.column}"

    def chance(code: int, records: int) -> float:
        return float(together(histogram.shares[code], gains[code], records))

    worst = max(gains, key=lambda code: (chance(code, 2), -code))
    return (
        f"where one record lets {histogram.column} = {value_text(histogram.values[worst])} have "
        f"a posterior of {chance(worst, 1):.3g} at most, two alike allow {chance(worst, 2):.3g}"
        + (f" and {most:,} {chance(worst, most):.3g}" if most > 2 else "")
    )


def together(share: Fraction, gain: Fraction, records: int) -> Fraction:
    """A reader's posterior for a value with this share after so many records that say it.

    >>> together(Fraction(1, 10), Fraction(9, 4), 1), together(Fraction(1, 10), Fraction(9, 4), 2)
    (Fraction(1, 5), Fraction(9, 25))
    """
    if share == 1:
        return Fraction(1)
    raised: Fraction = odds(share) * gain**records
    return raised / (1 + raised)
