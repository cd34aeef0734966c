"""Bucketed releases: do the buckets hold what they list, and no value above its ceiling?

Everything is judged from the files alone, so any release of this kind can be audited, whoever
made it. Ceilings are compared as fractions of integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, concerns, same
from sfumato.audits.catalogue import Disclosure
from sfumato.audits.findings import Finding
from sfumato.columns import quoted, value_text
from sfumato.guarantees import CeilingGuarantee, LDiversity
from sfumato.profile import Histogram
from sfumato.release import BucketedRelease, scan


@dataclass(frozen=True, eq=False)
class Listing:
    """What the buckets list of these columns; of several, their combinations are the values.

    `code` is SQL for the code of a value, over the codes `__code_0` … of the columns.
    """

    case: AuditCase  # with `entries` and `sizes` of what is listed, and `members` of the records
    columns: tuple[str, ...]

    @property
    def release(self) -> BucketedRelease:
        assert isinstance(self.case.release, BucketedRelease)
        return self.case.release

    @property
    def domains(self) -> list[Histogram]:
        return [self.case.profile.histograms[column] for column in self.columns]

    @property
    def code(self) -> str:
        code = "0"
        for column, histogram in zip(self.columns, self.domains, strict=True):
            index = self.case.table.sensitive.index(column)
            code = f"({code}) * {len(histogram.values)} + __code_{index}"
        return code

    @property
    def listed(self) -> str:
        """SQL for a table of bucket, code and n."""
        return (
            f"(SELECT bucket, {self.code} AS code, sum(n)::BIGINT AS n FROM entries GROUP BY ALL)"
        )

    def name(self, code: int) -> str:
        """A value in words."""
        words: list[str] = []
        for histogram in reversed(self.domains):
            code, value = divmod(code, len(histogram.values))
            words.append(value_text(histogram.values[value]))
        return " and ".join(reversed(words))

    def counts(self, source: str) -> dict[int, int]:
        """People by code; those that nobody has are 0 for one column, absent for several."""
        rows = self.case.rows(
            f"SELECT code, sum(n) FROM {source} WHERE code IS NOT NULL GROUP BY code ORDER BY code"
        )
        several = len(self.columns) > 1
        empty = {} if several else dict.fromkeys(range(len(self.domains[0].values)), 0)
        return empty | {int(code): int(n) for code, n in rows}


@concerns(BucketedRelease)
def check_buckets(case: AuditCase) -> Iterator[Finding]:
    """Every check of a bucketed release."""
    columns, connection, joins = tuple(case.table.sensitive), case.database, []
    for index, column in enumerate(columns):
        domain = case.release.domain(column)
        codes = pa.table({"value": domain, "code": pa.array(range(len(domain)), pa.int64())})
        connection.register(f"domain_{index}", codes)
        joins.append(
            f"LEFT JOIN domain_{index} AS d{index} ON d{index}.value IS NOT DISTINCT FROM "
            f"s.{quoted(column)}"
        )
    chosen = ", ".join(f"d{index}.code AS __code_{index}" for index in range(len(columns)))
    connection.execute(
        f"CREATE TABLE entries AS SELECT s.bucket, {chosen}, s.count AS n "
        f"FROM {scan([case.release.file('sensitive')])} AS s {' '.join(joins)}"
    )
    for table, source in (("sizes", "sum(n)::BIGINT AS n FROM entries"),
                          ("members", "count(*) AS n FROM published")):  # fmt: skip
        connection.execute(f"CREATE TABLE {table} AS SELECT bucket, {source} GROUP BY bucket")
    whole = Listing(case, columns)  # all columns together: the others follow from it
    yield _sizes(whole)
    yield _histogram(whole)
    if case.table.quasi:
        yield _members(whole)
        yield _room(whole)
    apart = [Listing(case, (column,)) for column in columns]
    for view in [whole, *apart] if case.release.manifest.joint and len(columns) > 1 else apart:
        yield from _posteriors(view)


def _sizes(view: Listing) -> Finding:
    """A bucket lists as many values as it has records, and the stated fakes."""
    ((wrong, bucket, listed, records),) = view.case.rows(
        f"""
        SELECT count(*), any_value(bucket), any_value(listed), any_value(held) FROM (
            SELECT coalesce(l.bucket, m.bucket) AS bucket, coalesce(l.n, 0) AS listed,
                   coalesce(m.n, 0) AS held
            FROM sizes AS l FULL JOIN members AS m ON m.bucket = l.bucket)
        WHERE listed <> held + {view.release.fakes} OR held = 0
        """
    )
    wrong_one = f"bucket {bucket} lists {listed} values for {records} records"
    return Finding.limited(catalogue.BUCKET_SIZES, int(wrong), wrong=wrong_one)


def _histogram(view: Listing) -> Finding:
    """The buckets list every value as often as the table has it; with fakes, at least so often.

    Of a person with several rows one is published, with a value that some of them have.
    """
    case = view.case
    stated = view.release.histogram
    listed = view.counts(view.listed)
    if case.rows_of_people_withheld:
        case.database.execute(
            "CREATE TABLE holders AS SELECT *, count(*) OVER (PARTITION BY __person) = 1 AS sure "
            f"FROM (SELECT DISTINCT __person, {view.code} AS code FROM raw)"
        )
        least = view.counts("(SELECT code, sure::INTEGER AS n FROM holders)")
        most = view.counts("(SELECT code, 1 AS n FROM holders)")
        listed = listed if stated is None else dict(enumerate(stated))
    else:
        least = most = view.counts(f"(SELECT {view.code} AS code, 1 AS n FROM raw)")
        if view.release.fakes:
            most = dict.fromkeys(listed, 1 << 62)
    wrong = [code for code in {**listed, **least}
             if not least.get(code, 0) <= listed.get(code, 0) <= most.get(code, 0)]  # fmt: skip
    if stated is not None and not case.rows_of_people_withheld:
        wrong += [code for code, count in enumerate(stated) if count != least[code]]
    strangers = sum(int(n) for (n,) in case.rows(f"SELECT n FROM {view.listed} WHERE code IS NULL"))
    witness = f"{strangers:,} listed values are outside the domain" if strangers else None
    if wrong:
        code, can = wrong[0], least.get(wrong[0], 0)
        span = "" if can == most.get(code, 0) else f" to {most.get(code, 0):,}"
        witness = (
            f"{view.name(code)} is listed {listed.get(code, 0):,} times, the table has {can:,}"
        )
        witness += span
    return Finding.limited(catalogue.BUCKET_HISTOGRAM, len(wrong) + strangers, witness=witness)


def _members(view: Listing) -> Finding:
    """The records of a bucket whom their quasi-identifiers single out have what it lists."""
    names = view.case.quasi
    columns = ", ".join(names)
    ((people, wrong, bucket, code),) = view.case.rows(
        f"""
        WITH alone AS (SELECT {columns}, any_value({view.code}) AS code FROM raw
                       GROUP BY {columns} HAVING count(*) = 1),
             matched AS MATERIALIZED (SELECT p.bucket, r.code FROM alone AS r
                                      JOIN published AS p ON {same("r", "p", names)}),
             held AS (SELECT bucket, code, count(*) AS n FROM matched GROUP BY bucket, code)
        SELECT (SELECT count(*) FROM matched), count(*), any_value(h.bucket), any_value(h.code)
        FROM held AS h LEFT JOIN {view.listed} AS l ON l.bucket = h.bucket AND l.code = h.code
        WHERE h.n > coalesce(l.n, 0)
        """
    )
    witness = f"{int(people):,} records that their quasi-identifiers single out"
    if wrong:
        witness = (
            f"bucket {bucket} holds {view.name(int(code))} more often than it lists it; {witness}"
        )
    return Finding.limited(catalogue.MEMBERS, int(wrong), witness=witness)


def _room(view: Listing) -> Finding:
    """People who share their quasi-identifiers fit into their buckets, value by value.

    n of them have x in the table; their buckets must list x for n of them at least.
    """
    names = view.case.quasi
    columns = ", ".join(names)
    ((wrong, code, people, room),) = view.case.rows(
        f"""
        WITH needed AS (SELECT {columns}, {view.code} AS code, count(*) AS n
                        FROM {view.case.complete("raw")} GROUP BY ALL),
             asked AS MATERIALIZED (SELECT row_number() OVER () AS id, * FROM needed),
             held AS (SELECT {columns}, bucket, count(*) AS n FROM published GROUP BY ALL),
             pairs AS MATERIALIZED (SELECT n.id, n.code, r.bucket, r.n FROM asked AS n
                                    JOIN held AS r ON {same("r", "n", names)}),
             room AS (SELECT p.id, sum(least(p.n, l.n)) AS n FROM pairs AS p
                      JOIN {view.listed} AS l ON l.bucket = p.bucket AND l.code = p.code
                      GROUP BY p.id)
        SELECT count(*), any_value(n.code), any_value(n.n), any_value(coalesce(room.n, 0))
        FROM asked AS n LEFT JOIN room USING (id) WHERE n.n > coalesce(room.n, 0)
        """
    )
    name = view.name(int(code)) if wrong else ""
    found = f"{people} people alike have {name}, their buckets list it for {room} of them"
    return Finding.limited(catalogue.ROOM, int(wrong), wrong=found)


def _posteriors(view: Listing) -> Iterator[Finding]:
    """The largest share of every value in a bucket, against its ceiling, exactly."""
    case, release = view.case, view.release
    if not isinstance(case.guarantee, CeilingGuarantee):
        return  # groups of people cannot be held to a promise that states no ceilings
    counts, title = view.counts(view.listed), " and ".join(view.columns)
    if len(view.columns) > 1:
        values = tuple(view.name(code) for code in counts)
    else:
        # the shares that ceilings follow from: the table's, or of chosen rows what is listed
        (domain,) = view.domains
        values = domain.values
        if not case.rows_of_people_withheld:
            counts = dict(enumerate(domain.counts.tolist()))
        elif release.histogram is not None:
            counts = dict(enumerate(release.histogram))
    histogram = Histogram(title, values, np.array(list(counts.values()), np.int64))
    ceilings = dict(zip(counts, case.guarantee.ceilings(histogram), strict=True))
    rows = case.rows(
        "SELECT l.code, s.n, max(l.n), arg_max(l.bucket, (l.n, -l.bucket)) "
        f"FROM {view.listed} AS l JOIN sizes AS s USING (bucket) "
        "WHERE l.code IS NOT NULL GROUP BY l.code, s.n ORDER BY ALL"
    )
    largest: dict[int, tuple[Fraction, str]] = {}
    for code, size, count, bucket in rows:
        share = Fraction(int(count), int(size))
        if int(code) not in largest or share > largest[int(code)][0]:
            largest[int(code)] = share, f"bucket {bucket}: {count} of {size}"

    def pressure(code: int) -> Fraction:
        return largest[code][0] / ceilings[code] if ceilings[code] else Fraction(10**9)

    order = sorted(largest, key=lambda code: (-pressure(code), code))
    yield Finding.limited(
        catalogue.CEILINGS,
        sum(largest[code][0] > ceilings[code] for code in order),
        column=title,
        witness=f"{view.name(order[0])} in {largest[order[0]][1]}" if order else None,
    )
    # the ceilings of l-diversity are the same for every value; others follow from the counts
    disclosed = release.discloses_histogram or isinstance(case.guarantee, LDiversity)
    for code in order:
        (share, witness), several = largest[code], len(case.table.sensitive) > 1
        about = f"{view.name(code)} in {title}" if several else view.name(code)
        more: dict[str, Any] = {"column": title, "about": about, "witness": witness}
        if ceilings[code] >= 1:
            yield Finding.info(catalogue.POSTERIOR, share, **more)
            continue
        more["disclosure"] = Disclosure.PUBLIC if disclosed else None
        yield Finding.limited(catalogue.POSTERIOR, share, ceilings[code], **more)
