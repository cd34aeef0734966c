"""The sensitive table of a bucketed release, read once: who shares a bucket with whom."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import value_text
from sfumato.draws import IntArray
from sfumato.errors import BundleError
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketKinds, BucketOperator
from sfumato.operators.deviations import BlockTable
from sfumato.operators.estimator import Estimator
from sfumato.operators.listed import ListedEstimated, ListedValues

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from sfumato.release import BucketedRelease

_PAIRS = 1 << 22  # entries times size that are worked on at once
_BUCKETS = 1 << 18  # buckets that are compared at once

Numbers = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BucketTable:
    """`shares` has, by bucket number, the share of every value: of one column, or of `columns`
    together, whose values are then the combinations `codes` that are listed."""

    columns: tuple[str, ...]
    names: tuple[str, ...]  # of the values
    shares: csr_array
    operator: BucketOperator
    counts: FloatArray  # of real records, by value
    listed: FloatArray  # values of every bucket
    blocks: BlockTable  # one where people were not mixed block by block
    codes: tuple[IntArray, ...] = ()  # of combinations, column by column

    def estimator(self, name: str) -> Estimator:
        """The estimator of that name, for questions about these columns, in their order."""
        release = ListedValues(self.blocks, self.shares, self.listed, self.codes)
        return partial(ListedEstimated, release=release, name=name)


def read_bucket_table(release: BucketedRelease, columns: Sequence[str] = ()) -> BucketTable:
    """Read and check `sensitive.parquet`: all that queries about some columns need follows from
    it; by default about the first."""
    from scipy.sparse import csr_array

    columns = tuple(columns) or (release.sensitive[0].name,)
    domains = [release.domain(column) for column in columns]
    table = release.side_table("sensitive")
    buckets, counts = _integers(table.column("bucket")), _integers(table.column("count"))
    column_codes = [
        _integers(pc.index_in(table.column(name).combine_chunks(), value_set=domain))
        for name, domain in zip(columns, domains, strict=True)
    ]
    del table
    combined: tuple[IntArray, ...] = ()
    codes, values = column_codes[0], len(domains[0])
    if len(columns) > 1:
        listed, inverse = np.unique(np.stack(column_codes, axis=1), axis=0, return_inverse=True)
        combined, codes = tuple(listed.T.astype(np.int64)), inverse.reshape(-1)
        values = len(listed)
    if len(counts) and int(counts.min()) < 1:
        raise BundleError(
            f"sensitive.parquet of {str(release.path)!r} has a count below 1. Fetch it again."
        )
    if len(release.sensitive) > len(columns):
        buckets, codes, counts = _added_up(buckets, codes, counts, values)
    if not _ascending(buckets, codes):
        order = np.lexsort((codes, buckets))
        buckets, codes, counts = buckets[order], codes[order], counts[order]
        if not _ascending(buckets, codes):
            raise BundleError(
                f"sensitive.parquet of {str(release.path)!r} lists a value of a bucket twice."
            )
    starts = np.flatnonzero(np.diff(buckets, prepend=buckets[:1] - 1))
    sizes = np.add.reduceat(counts, starts) if len(starts) else counts
    lengths = np.diff(np.append(starts, len(counts)))
    share = counts / np.repeat(sizes, lengths)
    shape = (int(buckets[-1]) + 1 if len(buckets) else 0, values)
    shares = csr_array((share, (buckets, codes)), shape=shape)
    operator = BucketOperator.of(_kinds(starts, lengths, codes, counts), values)
    stated = release.histogram
    real = operator.counts if stated is None else np.array(stated, np.float64)
    blocks = BlockTable.whole(operator.counts, operator.together, real)
    if release.tree is not None:
        contents = csr_array((counts.astype(np.float64), (buckets, codes)), shape=shape)
        histograms = release.block_histograms
        exact = None if histograms is None else np.array(histograms, np.float64)
        blocks = BlockTable.of(contents, np.array(release.first_buckets), exact)
    return BucketTable(
        tuple(columns),
        _names(domains, combined),
        shares,
        operator,
        real,
        np.bincount(buckets, counts, shape[0]).astype(np.float64),
        blocks,
        combined,
    )


def _names(domains: Sequence[pa.Array], combined: tuple[IntArray, ...]) -> tuple[str, ...]:
    texts = [[value_text(value) for value in domain.to_pylist()] for domain in domains]
    if not combined:
        return tuple(texts[0])
    codes = zip(*combined, strict=True)
    return tuple(" and ".join(t[c] for t, c in zip(texts, code, strict=True)) for code in codes)


def _added_up(
    buckets: Numbers, codes: Numbers, counts: Numbers, values: int
) -> tuple[Numbers, Numbers, Numbers]:
    """Counts by bucket and value, where the table lists more than that."""
    keys, inverse = np.unique(buckets.astype(np.int64) * values + codes, return_inverse=True)
    summed = np.bincount(inverse.reshape(-1), counts, minlength=len(keys)).astype(np.int64)
    return keys // values, keys % values, summed


def _ascending(buckets: Numbers, codes: Numbers) -> bool:
    """Whether rows stand in the order of bucket and code, none twice."""
    step = np.diff(buckets)
    return bool(((step > 0) | ((step == 0) & (np.diff(codes) > 0))).all())


def _integers(column: pa.ChunkedArray | pa.Array) -> Numbers:
    """Numbers of 32 bits where they fit: a large release has tens of millions of rows."""
    if column.null_count or not pa.types.is_integer(column.type):
        raise BundleError("sensitive.parquet holds a missing number or a value outside the domain.")
    integers = np.asarray(column.to_numpy())
    fits = not len(integers) or -(1 << 31) <= int(integers.min()) <= int(integers.max()) < 1 << 31
    return integers.astype(np.int32) if fits else integers.astype(np.int64)


def _kinds(
    starts: IntArray, lengths: IntArray, codes: Numbers, counts: Numbers
) -> Iterator[BucketKinds]:
    """Runs of neighbouring buckets with equal contents, in pieces."""
    for first in range(0, len(starts), _BUCKETS):
        chosen = slice(first, first + _BUCKETS)
        begin, many = starts[chosen], lengths[chosen]
        low, high = int(begin[0]), int(begin[-1] + many[-1])
        yield from _kinds_of_piece(begin - low, many, codes[low:high], counts[low:high])


def _kinds_of_piece(
    starts: IntArray, lengths: IntArray, codes: Numbers, counts: Numbers
) -> Iterator[BucketKinds]:
    before = np.maximum(np.arange(len(codes)) - np.repeat(lengths, lengths), 0)
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
            position = first + np.arange(len(kinds))
            values, times_held = codes[position].astype(np.int64), counts[position].astype(np.int64)
            yield BucketKinds(times[low:high], kinds, values, times_held)


_Tables = dict[tuple[str, ...], BucketTable]
_tables: weakref.WeakKeyDictionary[BucketedRelease, _Tables] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def bucket_table_of(release: BucketedRelease, columns: Sequence[str] = ()) -> BucketTable:
    """The bucket table of an opened release for some columns, by default the first, kept as long
    as the release object lives."""
    asked = tuple(columns) or (release.sensitive[0].name,)
    with _lock:
        tables = _tables.setdefault(release, {})
        if asked not in tables:
            tables[asked] = read_bucket_table(release, asked)
        return tables[asked]
