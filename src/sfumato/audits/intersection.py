"""Two bucketed releases of the same people: is their promise kept by both together?

The promise of each speaks of that release alone. Whom their quasi columns single out stand in a
known bucket of each; the draws of the two are independent, so the chance of x after both is
∝ f_x · c_x(g)/(|g| f_x) · c_x(h)/(|h| f_x), which is held to the promise's ceiling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, quoted
from sfumato.audits.findings import Finding
from sfumato.columns import value_text
from sfumato.draws import IntArray
from sfumato.errors import UsageError
from sfumato.release import BucketedRelease, Release, scan

_AT_ONCE = 1 << 22  # chances that are held at the same time


def check_intersection(case: AuditCase, other: Release) -> Iterator[Finding]:
    """For every sensitive column, the people whom both releases together tell too much of."""
    one = case.release
    for release in (one, other):
        if not isinstance(release, BucketedRelease):
            raise UsageError(
                "Two releases are audited together where both list values by bucket, with one row "
                f"of a person: {release.where} does not. Keep a --ledger for others."
            )
    shared = {column.name for column in other.quasi} & set(case.table.quasi)
    columns = [name for name in case.table.sensitive if name in {c.name for c in other.sensitive}]
    if shared != set(case.table.quasi) or not columns:
        raise UsageError(
            "Two releases are audited together where they share their quasi-identifiers and a "
            f"sensitive column; {other.where} has others than {one.where}."
        )
    names = [quoted(name) for name in case.table.quasi]
    if not names:
        return
    found = case.connect().sql(
        f"""
        WITH own AS (SELECT {", ".join(names)} FROM raw GROUP BY ALL HAVING count(*) = 1)
        SELECT p.bucket AS one, q.bucket AS two FROM own AS o
        JOIN published AS p ON {_same("o", "p", names)}
        JOIN {scan(other.records)} AS q ON {_same("o", "q", names)}
        """
    )
    places = found.to_arrow_table()
    buckets = [np.asarray(places.column(name).to_numpy(), np.int64) for name in ("one", "two")]
    for column in columns:
        yield _column(case, other, column, *buckets)


def _same(one: str, other: str, names: list[str]) -> str:
    return " AND ".join(f"{one}.{name} IS NOT DISTINCT FROM {other}.{name}" for name in names)


def _column(case: AuditCase, other: Release, column: str, one: IntArray, two: IntArray) -> Finding:
    histogram = case.profile.histograms[column]
    prior = histogram.counts / max(histogram.rows, 1)
    ceilings = np.array([float(each) for each in case.guarantee.ceilings(histogram)])
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
    import pyarrow.parquet as pq
    from scipy.sparse import csr_array

    listed = pq.read_table(release.file("sensitive"))
    buckets = np.asarray(listed.column("bucket").to_numpy(), np.int64)
    counts = np.asarray(listed.column("count").to_numpy(), np.float64)
    values = release.domain(column).to_pylist()
    places = {value: code for code, value in enumerate(case.profile.histograms[column].values)}
    known = np.array([places.get(value, -1) for value in values], np.int64)
    codes = known[release.shown_codes(listed, column)]
    share = counts / np.bincount(buckets, counts)[buckets]
    kept = codes >= 0
    shape = (int(buckets.max(initial=-1)) + 1, len(places))
    return csr_array((share[kept], (buckets[kept], codes[kept])), shape=shape)
