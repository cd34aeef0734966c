"""People with several records, where each record was published as if it were somebody.

A record keeps the promise by itself. A reader who finds several records of a person and takes them
to say the same multiplies what they tell: the ceiling is then another one. It is computed from the
promise and from how many records people have; in buckets, people are followed besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, quoted
from sfumato.audits.findings import Finding
from sfumato.columns import value_text
from sfumato.engines.cautions import repeating_columns
from sfumato.errors import DataError
from sfumato.guarantees.base import odds
from sfumato.profile import Histogram
from sfumato.release import BucketedRelease, scan

_CERTAIN = 1 - 1e-9


def check_repeated(case: AuditCase, key: str | None) -> Iterator[Finding]:
    """What the records of a person tell together, by the column that says whose they are.

    Without that column: whether a column looks like it.
    """
    manifest = case.release.manifest
    if manifest.person is not None:
        return  # the promise is about people: `check_people`
    if key is not None:
        yield from _of_people(case, key)
    else:
        for seen in repeating_columns(case.table):
            if not seen.identifies:
                continue
            yield Finding.info(
                catalogue.PERSON_TOGETHER,
                f"perhaps, by column {seen.name!r}",
                witness=f"{seen.different:,} different values in {seen.rows:,} rows; if it names "
                f"people, audit with --key {seen.name}",
            )


def _of_people(case: AuditCase, key: str) -> Iterator[Finding]:
    names = case.table.source.schema.names
    if key not in names:
        raise DataError(
            f"{case.table.label} has no column {key!r} to be the key. Columns: {', '.join(names)}."
        )
    connection = case.connect()
    connection.register("people", case.person_reader(key))
    connection.execute("CREATE TABLE raw_people AS SELECT * FROM people")
    several, most = connection.execute(
        "SELECT count(*) FILTER (n > 1), max(n) FROM "
        "(SELECT count(*) AS n FROM raw_people GROUP BY __person)"
    ).fetchall()[0]
    if not several:
        yield Finding.none(catalogue.PERSON_TOGETHER, 0)
        return
    said = [f"up to {int(most):,} of one"]
    for histogram in case.profile.histograms.values():
        said += _ceiling_then(case, histogram, int(most))
    followed = _followed(case, connection)
    said += [] if followed is None else [str(followed)]
    said.append(f"publish with --person {key}")
    yield Finding.none(catalogue.PERSON_TOGETHER, int(several), witness="; ".join(said))


def _ceiling_then(case: AuditCase, histogram: Histogram, most: int) -> Iterator[str]:
    """The value about which two records of a person may tell the most, and what they may tell."""
    gains = case.guarantee.odds_gains(histogram)
    limited = [code for code, gain in enumerate(gains) if gain is not None]
    limited = [code for code in limited if histogram.counts[code]]
    if not limited:
        yield f"nothing limits what they tell of {histogram.column}"
        return

    def chance(code: int, records: int) -> float:
        gain = gains[code]
        assert gain is not None
        return float(together(histogram.shares[code], gain, records))

    worst = max(limited, key=lambda code: (chance(code, 2), -code))
    yield (
        f"where one record lets {histogram.column} = {value_text(histogram.values[worst])} have "
        f"a posterior of {chance(worst, 1):.3g} at most, two alike allow {chance(worst, 2):.3g}"
        + (f" and {most:,} {chance(worst, most):.3g}" if most > 2 else "")
    )


def together(share: Fraction, gain: Fraction, records: int) -> Fraction:
    """A reader's posterior for a value with this share after so many records that say it.

    >>> together(Fraction(1, 10), Fraction(9, 4), 1), together(Fraction(1, 10), Fraction(9, 4), 2)
    (Fraction(1, 5), Fraction(9, 25))
    """
    raised: Fraction = odds(share) * gain**records if share < 1 else Fraction(1)
    return raised / (1 + raised) if share < 1 else Fraction(1)


@dataclass(frozen=True)
class Followed:
    """People with several records in buckets whom their quasi-identifiers single out, and whose
    records say the same: how many have a posterior beyond the ceiling of their value, or 1."""

    people: int
    beyond: int
    certain: int

    def __str__(self) -> str:
        return (
            f"of {self.people:,} people whom their quasi-identifiers single out and whose "
            f"records say the same, {self.beyond:,} have a posterior beyond their ceiling and "
            f"{self.certain:,} are certain"
        )


def _followed(case: AuditCase, connection: Any) -> Followed | None:
    """The share of the true value, multiplied over the buckets of a person's records."""
    several = len(case.profile.histograms) > 1  # each by itself would tell too little
    if not isinstance(case.release, BucketedRelease) or not case.table.quasi or several:
        return None
    (histogram,) = case.profile.histograms.values()
    names = [quoted(name) for name in case.table.quasi]
    listed = ", ".join(names)
    same = " AND ".join(f"o.{name} IS NOT DISTINCT FROM p.{name}" for name in names)
    lists = scan([case.release.file("sensitive")])
    sensitive = quoted(histogram.column)
    connection.execute(
        f"""
        CREATE TABLE followed AS
        WITH own AS (SELECT {listed}, any_value(__person) AS person FROM raw_people
                     GROUP BY {listed} HAVING count(DISTINCT __person) = 1),
             alike AS (SELECT __person AS person, any_value(__code_0) AS code FROM raw_people
                       GROUP BY __person HAVING count(*) > 1 AND count(DISTINCT __code_0) = 1)
        SELECT person, code, bucket FROM own AS o JOIN alike USING (person)
        JOIN published AS p ON {same}
        """
    )
    import pyarrow as pa

    domain = case.release.domain(histogram.column)
    shares = pa.array([float(share) for share in histogram.shares])
    ceilings = pa.array([float(each) for each in case.guarantee.ceilings(histogram)])
    codes = pa.array(range(len(domain)), pa.int64())
    known = {"value": domain, "code": codes, "share": shares, "ceiling": ceilings}
    connection.register("domain", pa.table(known))
    # the chance of v is proportional to share(v) · Π (its share of a bucket's list / share(v))
    row = connection.execute(
        f"""
        WITH sizes AS (SELECT bucket, sum(count) AS size FROM {lists} GROUP BY bucket),
             lists AS (SELECT l.bucket, d.code, sum(l.count) AS n FROM {lists} AS l JOIN domain AS d
                       ON d.value IS NOT DISTINCT FROM l.{sensitive} GROUP BY ALL),
             numbers AS (SELECT person, count(*) AS k FROM followed GROUP BY person
                         HAVING count(*) > 1),
             weights AS (SELECT f.person, f.code AS truth, l.code, d.ceiling,
                                ln(d.share) + sum(ln(l.n / s.size) - ln(d.share)) AS w
                         FROM followed AS f JOIN lists AS l USING (bucket)
                         JOIN sizes AS s USING (bucket) JOIN domain AS d ON d.code = l.code
                         JOIN numbers AS k ON k.person = f.person WHERE d.share > 0
                         GROUP BY f.person, f.code, l.code, d.ceiling, d.share, k.k
                         HAVING count(*) = k.k),
             chances AS (SELECT truth, code, ceiling, exp(w - max(w) OVER mine)
                                / sum(exp(w - max_w)) OVER mine AS chance
                         FROM (SELECT *, max(w) OVER (PARTITION BY person) AS max_w FROM weights)
                         WINDOW mine AS (PARTITION BY person))
        SELECT count(*), count(*) FILTER (chance > ceiling + 1e-9),
               count(*) FILTER (chance > {_CERTAIN}) FROM chances WHERE code = truth
        """
    ).fetchall()[0]
    return Followed(*map(int, row))
