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
from sfumato.audits.listing import Listing, listings
from sfumato.guarantees import CeilingGuarantee, Guarantee, JointCeilings, LDiversity
from sfumato.profile import Histogram
from sfumato.release import BucketedRelease


def check_buckets(case: AuditCase) -> Iterator[Finding]:
    """Every check of a bucketed release, one after the other, on one connection."""
    views = list(listings(case))
    whole = views[0]  # of several columns all together: the others follow from it
    yield _sizes(case, whole)
    yield _histogram(case, whole)
    yield from _members(case, whole)
    yield from _room(case, whole)
    for view in views:
        if view is not whole or len(views) == 1 or case.release.manifest.joint:
            yield from _posteriors(case, view)


def _release(case: AuditCase) -> BucketedRelease:
    assert isinstance(case.release, BucketedRelease)
    return case.release


def _sizes(case: AuditCase, view: Listing) -> Finding:
    """A bucket lists as many values as it has records, and the stated fakes."""
    row = view.connection.execute(
        f"""
        SELECT count(*), any_value(bucket), any_value(listed), any_value(held) FROM (
            SELECT coalesce(l.bucket, m.bucket) AS bucket, coalesce(l.n, 0) AS listed,
                   coalesce(m.n, 0) AS held
            FROM sizes AS l FULL JOIN members AS m ON m.bucket = l.bucket)
        WHERE listed <> held + {_release(case).fakes} OR held = 0
        """
    ).fetchall()[0]
    wrong = int(row[0])
    return Finding.none(
        catalogue.BUCKET_SIZES,
        wrong,
        witness=f"bucket {row[1]} lists {row[2]} values for {row[3]} records" if wrong else None,
    )


def _histogram(case: AuditCase, view: Listing) -> Finding:
    """The buckets list every value as often as the table has it; with fakes, at least so often."""
    found = dict(
        view.connection.execute(f"SELECT code, sum(n) FROM {view.listed} GROUP BY code").fetchall()
    )
    if case.rows_of_people_withheld:
        return _chosen_histogram(case, view, found)
    fakes, stated = _release(case).fakes, _release(case).histogram
    wrong = []
    for code, count in view.raw_counts().items():
        shown = int(found.pop(code, 0))
        known = count if stated is None else stated[code]
        if (shown < count if fakes else shown != count) or known != count:
            wrong.append((code, shown, count))
    strangers = sum(int(n) for n in found.values())
    witness = None
    if wrong:
        code, shown, count = wrong[0]
        witness = f"{view.name(code)} is listed {shown:,} times, the table has {count:,}"
    elif strangers:
        witness = f"{strangers:,} listed values are outside the domain"
    return Finding.none(catalogue.BUCKET_HISTOGRAM, len(wrong) + strangers, witness=witness)


def _chosen_histogram(case: AuditCase, view: Listing, found: dict[Any, Any]) -> Finding:
    """Of a person with n rows r are listed: of c rows with a value, c − (n − r) at least and r at
    most."""
    rule, connection = case.release.manifest.person, view.connection
    assert rule is not None
    stated = _release(case).histogram
    if stated is not None:
        found = dict(enumerate(stated))
    connection.register("people", case.person_reader(rule.column))
    connection.execute(
        "CREATE TABLE holders AS SELECT *, sum(c) OVER (PARTITION BY __person)::BIGINT AS n FROM "
        f"(SELECT __person, {view.raw} AS code, count(*) AS c FROM people GROUP BY ALL)"
    )
    counted = connection.execute(
        f"SELECT code, sum(greatest(c - n + {rule.rows}, 0)), sum(least(c, {rule.rows})) "
        "FROM holders GROUP BY code"
    ).fetchall()
    wrong = []
    for code, least, most in counted:
        count = int(found.pop(int(code), 0))
        if not int(least) <= count <= int(most):
            wrong.append((int(code), count, int(least), int(most)))
    strangers = sum(int(n) for n in found.values())
    witness = None
    if wrong:
        code, count, least, most = wrong[0]
        witness = f"{view.name(code)} is listed {count:,} times, {least:,} to {most:,} can be"
    elif strangers:
        witness = f"{strangers:,} listed values that nobody has"
    return Finding.none(catalogue.BUCKET_HISTOGRAM, len(wrong) + strangers, witness=witness)


def _members(case: AuditCase, view: Listing) -> Iterator[Finding]:
    """The records of a bucket have the values that it lists.

    Records are known again by their quasi columns, where nobody shares them.
    """
    names = ", ".join(quoted(name) for name in case.table.quasi)
    if names:
        same = " AND ".join(
            f"r.{quoted(name)} IS NOT DISTINCT FROM p.{quoted(name)}" for name in case.table.quasi
        )
        matched = (
            f"SELECT p.bucket, r.code FROM (SELECT {names}, any_value({view.raw}) AS code FROM raw "
            f"GROUP BY {names} HAVING count(*) = 1) AS r JOIN published AS p ON {same}"
        )
        which = "records that their quasi-identifiers single out"
    else:
        return
    row = view.connection.execute(
        f"""
        WITH matched AS MATERIALIZED ({matched}),
             held AS (SELECT bucket, code, count(*) AS n FROM matched GROUP BY bucket, code)
        SELECT (SELECT count(*) FROM matched), count(*), any_value(h.bucket), any_value(h.code)
        FROM held AS h LEFT JOIN {view.listed} AS l ON l.bucket = h.bucket AND l.code = h.code
        WHERE h.n > coalesce(l.n, 0)
        """
    ).fetchall()[0]
    wrong = int(row[1])
    witness = f"{int(row[0]):,} {which}"
    if wrong:
        value = view.name(int(row[3]))
        witness = f"bucket {row[2]} holds {value} more often than it lists it; {witness}"
    yield Finding.none(catalogue.MEMBERS, wrong, witness=witness)


def _room(case: AuditCase, view: Listing) -> Iterator[Finding]:
    """People who share their quasi columns fit into their buckets, value by value.

    n of them have x in the table; their buckets must list x for n of them at least.
    """
    if not case.table.quasi:
        return
    names = [quoted(name) for name in case.table.quasi]
    listed = ", ".join(names)
    same = " AND ".join(f"r.{name} IS NOT DISTINCT FROM n.{name}" for name in names)
    apart = case.connect(complete=True)
    counted = f"SELECT {listed}, {view.raw} AS code, count(*) AS n FROM raw GROUP BY ALL"
    view.connection.register("needed", apart.sql(counted).to_arrow_reader())
    row = view.connection.execute(
        f"""
        WITH asked AS MATERIALIZED (SELECT row_number() OVER () AS id, * FROM needed),
             held AS (SELECT {listed}, bucket, count(*) AS n FROM published GROUP BY ALL),
             room AS (SELECT n.id, sum(least(r.n, l.n)) AS n FROM asked AS n
                      JOIN held AS r ON {same}
                      JOIN {view.listed} AS l ON l.bucket = r.bucket AND l.code = n.code
                      GROUP BY n.id)
        SELECT count(*), any_value(n.code), any_value(n.n), any_value(coalesce(room.n, 0))
        FROM asked AS n LEFT JOIN room USING (id) WHERE n.n > coalesce(room.n, 0)
        """
    ).fetchall()[0]
    wrong = int(row[0])
    witness = None
    if wrong:
        value = view.name(int(row[1]))
        witness = f"{row[2]} people alike have {value}, their buckets list it for {row[3]} of them"
    yield Finding.none(catalogue.ROOM, wrong, witness=witness)


def _posteriors(case: AuditCase, view: Listing) -> Iterator[Finding]:
    """The largest share of every value in a bucket, against its ceiling, exactly."""
    if not isinstance(case.guarantee, CeilingGuarantee):
        return  # groups of people cannot be held to a promise that states no ceilings
    histogram = _counted(case, view)
    ceilings = _promised(case.guarantee, view).ceilings(histogram)
    codes = view.codes().tolist()
    places = {code: place for place, code in enumerate(codes)}
    rows = view.connection.execute(
        f"""
        SELECT l.code, s.n, max(l.n), arg_max(l.bucket, l.n)
        FROM {view.listed} AS l JOIN sizes AS s USING (bucket)
        WHERE l.code IS NOT NULL GROUP BY l.code, s.n
        """
    ).fetchall()
    largest: dict[int, tuple[Fraction, Any, int, int]] = {}
    for code, size, count, bucket in rows:
        share, place = Fraction(int(count), int(size)), places[int(code)]
        if place not in largest or share > largest[place][0]:
            largest[place] = (share, bucket, int(count), int(size))
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
        witness=None if worst is None else _witness(view.name(codes[worst]), largest[worst]),
    )
    # the ceilings of l-diversity are the same for every value; others follow from the counts
    told = case.release.discloses_histogram or isinstance(case.guarantee, LDiversity)
    for code in order:
        share, bucket, count, size = largest[code]
        about = view.name(codes[code])
        if len(case.table.sensitive) > 1:
            about = f"{about} in {view.title}"
        if ceilings[code] >= 1:
            yield Finding.info(
                catalogue.POSTERIOR,
                share,
                column=histogram.column,
                about=about,
                witness=f"bucket {bucket}: {count} of {size}",
            )
            continue
        yield Finding.limited(
            catalogue.POSTERIOR,
            share,
            Direction.AT_MOST,
            ceilings[code],
            column=histogram.column,
            about=about,
            witness=f"bucket {bucket}: {count} of {size}",
            disclosure=Disclosure.PUBLIC if told else None,
        )


def _witness(name: str, found: tuple[Fraction, Any, int, int]) -> str:
    _, bucket, count, size = found
    return f"{name} is {count} of {size} in bucket {bucket}"


def _counted(case: AuditCase, view: Listing) -> Histogram:
    """The shares that ceilings follow from: the table's, or of chosen rows what is listed."""
    stated = _release(case).histogram
    if len(view.columns) > 1:
        return view.histogram()
    own = case.profile.histograms[view.columns[0]]
    if not case.rows_of_people_withheld:
        return own
    if stated is not None:
        return Histogram(own.column, own.values, np.array(stated, np.int64))
    return view.histogram()


def _promised(guarantee: CeilingGuarantee, view: Listing) -> Guarantee:
    """The promise about a column, or about combinations of several."""
    if len(view.columns) == 1:
        return guarantee
    return JointCeilings(guarantee)
