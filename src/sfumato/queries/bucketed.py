"""Bucketed releases as the evaluator sees them: who shares a bucket with whom."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from sfumato.operators.marks import MOST_MARKS, MarkTable
from sfumato.queries.answer import without
from sfumato.queries.sources import UNBIASED, QuestionSource, ShownLines, integers
from sfumato.release import BucketedRelease

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from sfumato.queries.question import Question

MOST_TOGETHER = 500  # combinations of all columns that are told apart
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


@dataclass(frozen=True, eq=False)
class Contents:
    """What `sensitive.parquet` says: how often each combination of all columns stands in each
    bucket, and the codes of the combinations, by column."""

    counts: csr_array  # (bucket, combination)
    codes: Mapping[str, IntArray]
    marks: MarkTable | None  # None where one column alone is listed

    @classmethod
    def read(cls, release: BucketedRelease) -> Contents:
        from scipy.sparse import csr_array

        names = [column.name for column in release.sensitive]
        domains = [release.domain(name) for name in names]
        table = release.side_table("sensitive")
        buckets, counts = _integers(table.column("bucket")), _integers(table.column("count"))
        codes = [
            _integers(pc.index_in(table.column(name).combine_chunks(), value_set=domain))
            for name, domain in zip(names, domains, strict=True)
        ]
        del table
        if len(counts) and int(counts.min()) < 1:
            raise BundleError(
                f"sensitive.parquet of {str(release.path)!r} has a count below 1. Fetch it again."
            )
        place, listed = codes[0], (np.arange(len(domains[0])),)
        if len(names) > 1:
            distinct, inverse = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
            place, listed = inverse.reshape(-1), tuple(distinct.T.astype(np.int64))
        shape = int(buckets.max(initial=-1)) + 1, len(listed[0])
        combined = csr_array((counts.astype(np.float64), (buckets, place)), shape=shape)
        if combined.nnz < len(counts):
            raise BundleError(
                f"sensitive.parquet of {str(release.path)!r} lists a value of a bucket twice."
            )
        combined.sort_indices()
        by_name = dict(zip(names, listed, strict=True))
        if len(names) == 1:
            return cls(combined, by_name, None)
        sizes = [len(domain) for domain in domains]
        first = np.cumsum([0, *sizes[:-1]])
        marks = np.stack(
            [of_column + start for of_column, start in zip(listed, first, strict=True)]
        )
        block = np.searchsorted(release.first_buckets, np.arange(shape[0]), side="right") - 1
        rows = np.bincount(block, np.asarray(combined.sum(axis=1)))
        mark_table = MarkTable(
            combined,
            indicator(np.tile(np.arange(shape[1]), len(names)), marks.reshape(-1), sum(sizes)),
            np.repeat(np.arange(len(names)), sizes),
            block,
            rows.astype(np.float64),
        )
        return cls(combined, by_name, mark_table)


def indicator(row: IntArray, column: IntArray, columns: int) -> csr_array:
    """1 at these places."""
    from scipy.sparse import csr_array

    shape = int(row.max(initial=-1)) + 1, columns
    return csr_array((np.ones(len(row)), (row, column)), shape=shape)


def read_bucket_table(
    release: BucketedRelease,
    columns: Sequence[str] = (),
    contents: Contents | None = None,
    *,
    every: bool = False,
) -> BucketTable:
    """All that queries about some columns need, by default about the first; its values are those
    of the column, combinations of the columns, or `every` combination of all columns."""
    columns = tuple(columns) or (release.sensitive[0].name,)
    contents = contents or Contents.read(release)
    domains = [release.domain(column) for column in columns]
    listed, codes, asked = contents.counts, tuple(contents.codes[c] for c in columns), None
    if contents.marks is not None and not every:
        every_combination, values = np.arange(listed.shape[1]), len(domains[0])
        place = codes[0]
        if len(columns) > 1:
            distinct, inverse = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
            place, codes, values = inverse.reshape(-1), tuple(distinct.T), len(distinct)
        asked = indicator(every_combination, place, values)
        listed = listed @ asked
        listed.sort_indices()
    if len(columns) == 1 and not every:
        codes = ()
    sizes = np.asarray(contents.counts.sum(axis=1), np.float64)
    stated = release.block_histograms if release.tree else release.histogram
    real = None if stated is None else np.array(stated, np.float64).reshape(-1, listed.shape[1])
    shares = listed * (1 / sizes)[:, None]
    blocks = BlockTable.of(shares.tocsr(), sizes, np.array(release.first_buckets), real, codes)
    if asked is not None:
        blocks = replace(blocks, marks=contents.marks, asked=asked)
    if every:  # the values are combinations of all columns
        columns, codes = tuple(contents.codes), tuple(contents.codes.values())
        domains = [release.domain(column) for column in columns]
    return BucketTable(columns, _names(domains, codes), blocks)


def _names(domains: Sequence[pa.Array], combined: tuple[IntArray, ...]) -> tuple[str, ...]:
    texts = [[value_text(value) for value in domain.to_pylist()] for domain in domains]
    if not combined:
        return tuple(texts[0])
    codes = zip(*combined, strict=True)
    return tuple(" and ".join(t[c] for t, c in zip(texts, code, strict=True)) for code in codes)


def _integers(column: pa.ChunkedArray | pa.Array) -> Numbers:
    """Numbers of 32 bits where they fit: a large release has tens of millions of rows."""
    if column.null_count or not pa.types.is_integer(column.type):
        raise BundleError("sensitive.parquet holds a missing number or a value outside the domain.")
    integers = np.asarray(column.to_numpy())
    fits = not len(integers) or -(1 << 31) <= int(integers.min()) <= int(integers.max()) < 1 << 31
    return integers.astype(np.int32) if fits else integers.astype(np.int64)


_Asked = tuple[tuple[str, ...], bool]
_tables: weakref.WeakKeyDictionary[BucketedRelease, tuple[Contents, dict[_Asked, BucketTable]]] = (
    weakref.WeakKeyDictionary()
)
_lock = threading.Lock()


def bucket_table_of(
    release: BucketedRelease, columns: Sequence[str] = (), *, every: bool = False
) -> BucketTable:
    """`read_bucket_table` of an opened release, kept as long as the release object lives."""
    asked = tuple(columns) or (release.sensitive[0].name,), every
    with _lock:
        if release not in _tables:
            _tables[release] = Contents.read(release), {}
        contents, tables = _tables[release]
        if asked not in tables:
            tables[asked] = read_bucket_table(release, asked[0], contents, every=every)
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
        listed = bucket_table_of(self.release, columns).shares.shape[0]
        return ShownLines((buckets,), (buckets >= 0) & (buckets < listed))

    def estimator(self, columns: Sequence[str], name: str) -> Estimator:
        return partial(ListedEstimated, table=self._table(columns, name).blocks, name=name)

    def _table(self, columns: Sequence[str], name: str) -> BucketTable:
        """Unbiased is what is told of all combinations of all columns, and added up."""
        if name != UNBIASED or len(self.release.sensitive) == 1:
            return bucket_table_of(self.release, columns)
        contents = bucket_table_of(self.release, columns).blocks.marks
        combinations = 0 if contents is None else contents.combined.shape[1]
        if combinations > MOST_TOGETHER:
            raise SingularOperator(
                f"Buckets list {combinations:,} combinations of the sensitive columns, and only up "
                f"to {MOST_TOGETHER:,} are told apart, so that nothing has an unbiased estimate. "
                "Use the estimator 'shrunk'."
            )
        return bucket_table_of(self.release, columns, every=True)

    def uncompletable(self) -> str | None:
        return None

    def finish(self, question: Question, answer: pa.Table, aggregates: Sequence[str]) -> pa.Table:
        """What values that always stand together would have by themselves is left open."""
        columns = question.sensitive
        marks = bucket_table_of(self.release, columns).blocks.marks if columns else None
        if marks is not None and not marks.is_learnable:
            warnings.warn(
                f"Of the {len(marks.column):,} values of the sensitive columns at most "
                f"{MOST_MARKS:,} are told apart: counts are shown as if values went with nothing "
                "else, and their intervals are what is possible.",
                WeakPromiseWarning,
                stacklevel=5,
            )
        missing = {name: pc.is_nan(answer.column(name)) for name in aggregates}
        if not columns or not any(pc.any(flags).as_py() for flags in missing.values()):
            return answer
        table = self._table(columns, UNBIASED)
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
