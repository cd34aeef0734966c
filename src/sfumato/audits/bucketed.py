"""Bucketed releases: do the buckets hold what they list, and no value above its ceiling?

Everything is judged from the files alone, so any release of this kind can be audited, whoever
made it. Ceilings are compared as fractions of integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, quoted
from sfumato.audits.catalogue import Disclosure
from sfumato.audits.findings import Direction, Finding
from sfumato.columns import value_text
from sfumato.guarantees import CeilingGuarantee, LDiversity
from sfumato.profile import Histogram
from sfumato.release import BucketedRelease, scan


def check_buckets(case: AuditCase) -> Iterator[Finding]:
    """Every check of a bucketed release, one after the other, on one connection."""
    if len(case.table.sensitive) != 1:
        columns = len(case.table.sensitive)
        yield Finding.limited(catalogue.SENSITIVE_COLUMNS, columns, Direction.EXACTLY, 1)
        return
    connection = _connect(case)
    yield _sizes(case, connection)
    yield _histogram(case, connection)
    yield from _members(case, connection)
    yield from _room(case, connection)
    yield from _posteriors(case, connection)


def _connect(case: AuditCase) -> Any:
    """`listed` has bucket, code, n; `members` how many records stand in each bucket."""
    import pyarrow as pa

    connection = case.connect()
    (column,) = case.table.sensitive
    domain = case.release.domain(column)
    connection.register(
        "domain", pa.table({"value": domain, "code": pa.array(range(len(domain)), pa.int64())})
    )
    source = scan([case.release.file("sensitive")])
    connection.execute(
        f"CREATE TABLE listed AS SELECT s.bucket, d.code, sum(s.count)::BIGINT AS n FROM "
        f"{source} AS s LEFT JOIN domain AS d ON d.value IS NOT DISTINCT FROM "
        f"s.{quoted(column)} GROUP BY ALL"
    )
    connection.execute(
        "CREATE TABLE members AS SELECT bucket, count(*) AS n FROM published GROUP BY bucket"
    )
    return connection


def _release(case: AuditCase) -> BucketedRelease:
    assert isinstance(case.release, BucketedRelease)
    return case.release


def _sizes(case: AuditCase, connection: Any) -> Finding:
    """A bucket lists as many values as it has records, and the stated fakes."""
    row = connection.execute(
        f"""
        SELECT count(*), any_value(bucket), any_value(listed), any_value(held) FROM (
            SELECT coalesce(l.bucket, m.bucket) AS bucket, coalesce(l.n, 0) AS listed,
                   coalesce(m.n, 0) AS held
            FROM (SELECT bucket, sum(n) AS n FROM listed GROUP BY bucket) AS l
            FULL JOIN members AS m ON m.bucket = l.bucket)
        WHERE listed <> held + {_release(case).fakes} OR held = 0
        """
    ).fetchall()[0]
    wrong = int(row[0])
    return Finding.none(
        catalogue.BUCKET_SIZES,
        wrong,
        witness=f"bucket {row[1]} lists {row[2]} values for {row[3]} records" if wrong else None,
    )


def _histogram(case: AuditCase, connection: Any) -> Finding:
    """The buckets list every value as often as the table has it; with fakes, at least so often."""
    if case.rows_of_people_withheld:
        return _chosen_histogram(case, connection)
    histogram = _raw_histogram(case)
    found = dict(connection.execute("SELECT code, sum(n) FROM listed GROUP BY code").fetchall())
    fakes, stated = _release(case).fakes, _release(case).histogram
    wrong = []
    for code, count in enumerate(histogram.counts.tolist()):
        shown = int(found.pop(code, 0))
        known = count if stated is None else stated[code]
        if (shown < count if fakes else shown != count) or known != count:
            wrong.append((code, shown, count))
    strangers = sum(int(n) for n in found.values())
    witness = None
    if wrong:
        code, shown, count = wrong[0]
        name = value_text(histogram.values[code])
        witness = f"{name} is listed {shown:,} times, the table has {count:,}"
    elif strangers:
        witness = f"{strangers:,} listed values are outside the domain"
    return Finding.none(catalogue.BUCKET_HISTOGRAM, len(wrong) + strangers, witness=witness)


def _chosen_histogram(case: AuditCase, connection: Any) -> Finding:
    """Of each person one row is listed: a value by those who have no other at least, and by those
    who have it at most."""
    histogram = _listed_histogram(case, connection)
    connection.register("people", case.person_reader(str(case.table.person)))
    connection.execute(
        "CREATE TABLE holders AS SELECT __person, __code_0 AS code, "
        "count(*) OVER (PARTITION BY __person) = 1 AS alone "
        "FROM (SELECT DISTINCT __person, __code_0 FROM people)"
    )
    counted = connection.execute(
        "SELECT code, count(*), count(*) FILTER (alone) FROM holders GROUP BY code"
    ).fetchall()
    bounds = {int(code): (int(least), int(most)) for code, most, least in counted}
    wrong = []
    for code, count in enumerate(histogram.counts.tolist()):
        least, most = bounds.get(code, (0, 0))
        if not least <= count <= most:
            wrong.append((code, count, least, most))
    missing = int(histogram.counts.sum()) != case.release.manifest.rows
    witness = None
    if wrong:
        code, count, least, most = wrong[0]
        name = value_text(histogram.values[code])
        witness = f"{name} is listed {count:,} times, for between {least:,} and {most:,} people"
    elif missing:
        witness = f"{int(histogram.counts.sum()):,} values for {case.release.manifest.rows:,} rows"
    return Finding.none(catalogue.BUCKET_HISTOGRAM, len(wrong) + missing, witness=witness)


def _listed_histogram(case: AuditCase, connection: Any) -> Histogram:
    """What the published rows have: as the buckets list it or, among fakes, as the plan says."""
    raw, stated = _raw_histogram(case), _release(case).histogram
    counts = np.zeros(len(raw.values), np.int64)
    if stated is not None:
        counts[:] = stated
    else:
        found = connection.execute("SELECT code, sum(n) FROM listed GROUP BY code").fetchall()
        for code, count in found:
            if code is not None:
                counts[int(code)] = int(count)
    return Histogram(raw.column, raw.values, counts)


def _members(case: AuditCase, connection: Any) -> Iterator[Finding]:
    """The records of a bucket have the values that it lists.

    Records are known again by their row where the order was kept, else by their quasi columns,
    where nobody shares them.
    """
    names = ", ".join(quoted(name) for name in case.table.quasi)
    if case.release.manifest.order == "kept" and not case.release.manifest.withheld:
        matched = "SELECT p.bucket, r.__code_0 AS code FROM raw AS r POSITIONAL JOIN published AS p"
        which = "all records, by row"
    elif names:
        same = " AND ".join(
            f"r.{quoted(name)} IS NOT DISTINCT FROM p.{quoted(name)}" for name in case.table.quasi
        )
        matched = (
            f"SELECT p.bucket, r.code FROM (SELECT {names}, any_value(__code_0) AS code FROM raw "
            f"GROUP BY {names} HAVING count(*) = 1) AS r JOIN published AS p ON {same}"
        )
        which = "records that their quasi columns single out"
    else:
        return
    row = connection.execute(
        f"""
        WITH matched AS MATERIALIZED ({matched}),
             held AS (SELECT bucket, code, count(*) AS n FROM matched GROUP BY bucket, code)
        SELECT (SELECT count(*) FROM matched), count(*), any_value(h.bucket), any_value(h.code)
        FROM held AS h LEFT JOIN listed AS l ON l.bucket = h.bucket AND l.code = h.code
        WHERE h.n > coalesce(l.n, 0)
        """
    ).fetchall()[0]
    wrong = int(row[1])
    witness = f"{int(row[0]):,} {which}"
    if wrong:
        value = value_text(_raw_histogram(case).values[int(row[3])])
        witness = f"bucket {row[2]} holds {value} more often than it lists it; {witness}"
    yield Finding.none(catalogue.MEMBERS, wrong, witness=witness)


def _room(case: AuditCase, connection: Any) -> Iterator[Finding]:
    """People who share their quasi columns fit into their buckets, value by value.

    n of them have x in the table; their buckets must list x for n of them at least.
    """
    if not case.table.quasi:
        return
    names = [quoted(name) for name in case.table.quasi]
    listed = ", ".join(names)
    same = " AND ".join(f"r.{name} IS NOT DISTINCT FROM n.{name}" for name in names)
    apart = case.connect(complete=True)
    counted = f"SELECT {listed}, __code_0 AS code, count(*) AS n FROM raw GROUP BY ALL"
    connection.register("needed", apart.sql(counted).to_arrow_reader())
    row = connection.execute(
        f"""
        WITH held AS (SELECT {listed}, bucket, count(*) AS n FROM published GROUP BY ALL),
             room AS (SELECT {listed}, l.code, sum(least(h.n, l.n)) AS n
                      FROM held AS h JOIN listed AS l ON l.bucket = h.bucket GROUP BY ALL)
        SELECT count(*), any_value(n.code), any_value(n.n), any_value(coalesce(r.n, 0))
        FROM needed AS n LEFT JOIN room AS r ON r.code = n.code AND {same}
        WHERE n.n > coalesce(r.n, 0)
        """
    ).fetchall()[0]
    wrong = int(row[0])
    witness = None
    if wrong:
        value = value_text(_raw_histogram(case).values[int(row[1])])
        witness = f"{row[2]} people alike have {value}, their buckets list it for {row[3]} of them"
    yield Finding.none(catalogue.ROOM, wrong, witness=witness)


def _posteriors(case: AuditCase, connection: Any) -> Iterator[Finding]:
    """The largest share of every value in a bucket, against its ceiling, exactly."""
    if not isinstance(case.guarantee, CeilingGuarantee):
        return  # groups of people cannot be held to a promise that states no ceilings
    histogram = _raw_histogram(case)
    if case.rows_of_people_withheld:
        histogram = _listed_histogram(case, connection)
    ceilings = case.guarantee.ceilings(histogram)
    rows = connection.execute(
        """
        SELECT l.code, s.size, max(l.n), arg_max(l.bucket, l.n) FROM listed AS l
        JOIN (SELECT bucket, sum(n) AS size FROM listed GROUP BY bucket) AS s USING (bucket)
        WHERE l.code IS NOT NULL GROUP BY l.code, s.size
        """
    ).fetchall()
    largest: dict[int, tuple[Fraction, Any, int, int]] = {}
    for code, size, count, bucket in rows:
        share = Fraction(int(count), int(size))
        if int(code) not in largest or share > largest[int(code)][0]:
            largest[int(code)] = (share, bucket, int(count), int(size))
    broken = [code for code, (share, *_) in largest.items() if share > ceilings[code]]

    def pressure(code: int) -> Fraction:
        ceiling = ceilings[code]
        return largest[code][0] / ceiling if ceiling else Fraction(10**9)

    order = sorted(sorted(largest), key=pressure, reverse=True)  # ties in the domain's order
    worst = order[0] if order else None
    yield Finding.none(
        catalogue.CEILINGS,
        len(broken),
        column=histogram.column,
        witness=None if worst is None else _witness(histogram, worst, largest[worst]),
    )
    # the ceilings of l-diversity are the same for every value; others follow from the counts
    told = case.release.discloses_histogram or isinstance(case.guarantee, LDiversity)
    for code in order:
        share, bucket, count, size = largest[code]
        if ceilings[code] >= 1:
            yield Finding.told(
                catalogue.POSTERIOR,
                share,
                column=histogram.column,
                about=value_text(histogram.values[code]),
                witness=f"bucket {bucket}: {count} of {size}",
            )
            continue
        yield Finding.limited(
            catalogue.POSTERIOR,
            share,
            Direction.AT_MOST,
            ceilings[code],
            column=histogram.column,
            about=value_text(histogram.values[code]),
            witness=f"bucket {bucket}: {count} of {size}",
            disclosure=Disclosure.PUBLIC if told else None,
        )


def _witness(histogram: Histogram, code: int, found: tuple[Fraction, Any, int, int]) -> str:
    _, bucket, count, size = found
    return f"{value_text(histogram.values[code])} is {count} of {size} in bucket {bucket}"


def _raw_histogram(case: AuditCase) -> Histogram:
    (histogram,) = case.profile.histograms.values()
    return histogram
