"""Bucketed releases as the evaluator sees them: who shares a bucket with whom."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import list_some, value_text
from sfumato.draws import IntArray
from sfumato.errors import BundleError, SingularOperator, WeakPromiseWarning
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator
from sfumato.operators.deviations import BlockTable
from sfumato.operators.estimator import Estimator
from sfumato.operators.listed import ListedEstimated
from sfumato.queries.answer import without
from sfumato.queries.sources import QuestionSource, ShownLines, integers
from sfumato.release import BucketedRelease

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from sfumato.queries.question import Question

Numbers = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BucketTable:
    """What buckets list of one column, or of `columns` together, whose values are then the
    combinations that are listed."""

    columns: tuple[str, ...]
    names: tuple[str, ...]  # of the values
    blocks: BlockTable  # one where people were not mixed block by block

    @property
    def shares(self) -> csr_array:
        """By bucket number, of every value."""
        return self.blocks.shares

    @property
    def counts(self) -> FloatArray:
        """Of real records, by value."""
        return np.asarray(self.blocks.counts.sum(axis=0))

    def confused(self) -> list[str]:
        """The values that the buckets cannot tell apart, or hardly can."""
        whole = self.blocks
        together = np.asarray(whole.together.sum(axis=0), np.float64).reshape(
            *2 * whole.listed.shape[1:]
        )
        operator = BucketOperator(whole.listed.sum(axis=0), together)
        return [self.names[code] for code in operator.confused()]


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
    listed = np.bincount(buckets, counts).astype(np.float64)
    shares = csr_array((counts / listed[buckets], (buckets, codes)), shape=(len(listed), values))
    stated = release.block_histograms if release.tree else release.histogram
    real = None if stated is None else np.array(stated, np.float64).reshape(-1, values)
    first = np.array(release.first_buckets)
    blocks = BlockTable.of(shares, listed, first, real, combined)
    return BucketTable(columns, _names(domains, combined), blocks)


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


_tables: weakref.WeakKeyDictionary[BucketedRelease, dict[tuple[str, ...], BucketTable]]
_tables = weakref.WeakKeyDictionary()
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


class BucketedSource(QuestionSource):
    """A record shows its bucket, and a bucket lists values."""

    title = "A bucketed release"
    estimators = ("shrunk", "inverse")
    deals_together = True
    release: BucketedRelease

    @property
    def holds_largest(self) -> bool:  # type: ignore[override]
        """Where people were mixed block by block it was seen to hold in 88 to 91 of 100 cases."""
        return self.release.tree is None

    def shown(self, columns: Sequence[str]) -> list[str]:
        return ["bucket"] if columns else []

    def read(self, columns: Sequence[str], shown: Mapping[str, pa.ChunkedArray]) -> ShownLines:
        buckets = integers(shown["bucket"])
        listed = self._listed(columns).shares.shape[0]
        return ShownLines((buckets,), (buckets >= 0) & (buckets < listed))

    def estimator(self, columns: Sequence[str], name: str) -> Estimator:
        return partial(ListedEstimated, table=self._listed(columns).blocks, name=name)

    def _listed(self, columns: Sequence[str]) -> BucketTable:
        """Of the columns that are asked for, the others added up: combinations of all columns are
        more than buckets can tell apart. People with one value count as spread alike over buckets,
        whatever they have in the other columns."""
        return bucket_table_of(self.release, columns)

    def uncompletable(self) -> str | None:
        return None

    def finish(self, question: Question, answer: pa.Table, aggregates: Sequence[str]) -> pa.Table:
        """What values that always stand together would have by themselves is left open."""
        missing = {name: pc.is_nan(answer.column(name)) for name in aggregates}
        if not question.sensitive or not any(pc.any(flags).as_py() for flags in missing.values()):
            return answer
        table = self._listed(question.sensitive)
        message = (
            f"The buckets cannot tell some values of {' and '.join(map(repr, table.columns))} "
            f"apart, because they nearly always stand together: {list_some(table.confused(), 50)}. "
            "They have no unbiased estimate one by one: ask for those that stand together by IN, "
            "or use the estimator 'shrunk'."
        )
        if all(pc.all(flags).as_py() for flags in missing.values()):
            raise SingularOperator(message)
        warnings.warn(message, WeakPromiseWarning, stacklevel=5)
        return without(answer, {n: pc.fill_null(flags, False) for n, flags in missing.items()})
