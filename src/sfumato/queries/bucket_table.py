"""The sensitive table of a bucketed release, read once: who shares a bucket with whom."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.draws import IntArray
from sfumato.errors import BundleError
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketKinds, BucketOperator
from sfumato.queries.shrunk import Law

if TYPE_CHECKING:
    from sfumato.release import Release

_PAIRS = 1 << 22  # entries times size that are worked on at once


@dataclass(frozen=True, eq=False)
class BucketTable:
    """`column` is the sensitive one; `listed` has bucket, code and share of the bucket."""

    column: str
    domain: pa.Array
    listed: pa.Table
    law: Law


def read_bucket_table(release: Release) -> BucketTable:
    """Read and check `sensitive.parquet`; everything that queries need follows from it."""
    import pyarrow.parquet as pq

    columns = [column.name for column in release.columns if column.role == "sensitive"]
    if len(columns) != 1:
        raise BundleError(
            f"{str(release.path)!r} is bucketed but has {len(columns)} sensitive columns; it needs "
            "exactly one."
        )
    column, domain = columns[0], release.domain(columns[0])
    table = pq.read_table(release.file("sensitive"))
    lacking = sorted({"bucket", column, "count"} - set(table.column_names))
    if lacking:
        raise BundleError(f"sensitive.parquet of {str(release.path)!r} lacks {', '.join(lacking)}.")
    buckets = _integers(table.column("bucket"))
    codes = _integers(pc.index_in(table.column(column).combine_chunks(), value_set=domain))
    counts = _integers(table.column("count"))
    if len(counts) and int(counts.min()) < 1:
        raise BundleError(
            f"sensitive.parquet of {str(release.path)!r} has a count below 1. Fetch it again."
        )
    keys = buckets * max(len(domain), 1) + codes
    if len(keys) and bool((np.diff(keys) <= 0).any()):
        order = np.argsort(keys, kind="stable")
        buckets, codes, counts, keys = buckets[order], codes[order], counts[order], keys[order]
        if bool((np.diff(keys) == 0).any()):
            raise BundleError(
                f"sensitive.parquet of {str(release.path)!r} lists a value of a bucket twice."
            )
    starts = np.flatnonzero(np.diff(buckets, prepend=buckets[0] - 1)) if len(buckets) else buckets
    sizes = np.add.reduceat(counts, starts) if len(starts) else counts
    lengths = np.diff(np.append(starts, len(counts)))
    listed = pa.table(
        {
            "bucket": pa.array(buckets),
            "code": pa.array(codes.astype(np.int32)),
            "share": pa.array(counts / np.repeat(sizes, lengths)),
        }
    )
    operator = BucketOperator.of(_kinds(starts, lengths, codes, counts), len(domain))
    return BucketTable(column, domain, listed, Law(operator, _real_counts(release, operator)))


def _real_counts(release: Release, operator: BucketOperator) -> FloatArray:
    """How many records have each value: what is listed, or what is stated beside fakes."""
    if not release.plan.get("fakes"):
        return operator.counts
    stated = release.plan.get("histogram")
    listed = stated if isinstance(stated, list) else []
    whole = all(isinstance(n, int) and n >= 0 for n in listed)
    if not whole or len(listed) != len(operator.counts) or sum(listed) != release.rows:
        raise BundleError(
            f"{str(release.path)!r} has fake values, but its plan states no histogram of its "
            f"{release.rows:,} records."
        )
    return np.array(listed, np.float64)


def _integers(column: pa.ChunkedArray | pa.Array) -> IntArray:
    if column.null_count or not pa.types.is_integer(column.type):
        raise BundleError("sensitive.parquet holds a missing number or a value outside the domain.")
    return np.asarray(column.to_numpy(), np.int64)


def _kinds(
    starts: IntArray, lengths: IntArray, codes: IntArray, counts: IntArray
) -> Iterator[BucketKinds]:
    """Runs of neighbouring buckets with equal contents, in pieces."""
    if not len(starts):
        return
    entry_lengths = np.repeat(lengths, lengths)
    before = np.maximum(np.arange(len(codes)) - entry_lengths, 0)
    alike = (codes == codes[before]) & (counts == counts[before])
    same = np.logical_and.reduceat(alike, starts)
    same[1:] &= lengths[1:] == lengths[:-1]
    same[0] = False
    heads = np.flatnonzero(~same)
    times = np.diff(np.append(heads, len(starts)))
    work = np.cumsum(lengths[heads] ** 2)
    cuts = np.searchsorted(work, np.arange(0, int(work[-1]) + _PAIRS, _PAIRS), side="right")
    for low, high in itertools.pairwise(cuts.tolist()):
        chosen = heads[low:high]
        if len(chosen):
            many = lengths[chosen]
            kinds = np.repeat(np.arange(len(chosen)), many)
            first = np.repeat(starts[chosen] - np.cumsum(many) + many, many)
            place = first + np.arange(len(kinds))
            yield BucketKinds(times[low:high], kinds, codes[place], counts[place])


_tables: weakref.WeakKeyDictionary[Release, BucketTable] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def bucket_table_of(release: Release) -> BucketTable:
    """The bucket table of an opened release, kept as long as the release object lives."""
    with _lock:
        if release not in _tables:
            _tables[release] = read_bucket_table(release)
        return _tables[release]
