"""What an adversary sees of a release, in the codes of the people it is tried on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.attacks.people import Codes, Domains, People
from sfumato.columns import Column
from sfumato.draws import BoolArray, IntArray
from sfumato.operators import Operator, Parts
from sfumato.operators.base import FloatArray
from sfumato.operators.dealt import Dealt
from sfumato.release import BucketedRelease, GeneralizedRelease, Release


@dataclass(frozen=True, eq=False)
class RecordsView:
    """Records with quasi columns as they are and one sensitive value each.

    `operator` is what the values went through; None where they stand as they are (raw and
    synthetic records). `shown` are the operator's symbols, or values.
    """

    codes: Codes
    shown: IntArray
    values: int
    operator: Operator | None = None
    rows: IntArray | None = None  # which row of the raw table each record is, where that is known

    @property
    def symbols(self) -> int:
        return self.values if self.operator is None else self.operator.values

    @cached_property
    def counts(self) -> IntArray:
        return np.bincount(self.shown, minlength=self.symbols)

    @cached_property
    def to_values(self) -> FloatArray:
        """Sums over symbols of the same value: shape (symbols, values)."""
        matrix = np.zeros((self.symbols, self.values))
        parts = isinstance(self.operator, Parts)
        codes = self.operator.symbol_codes if parts else np.arange(self.symbols)  # type: ignore[union-attr]
        matrix[np.arange(self.symbols), codes] = 1.0
        return matrix

    @cached_property
    def symbol_prior(self) -> FloatArray:
        """Estimated shares of the true symbols, never negative."""
        if self.operator is None:
            return self.counts / max(len(self.shown), 1)
        complete = self.operator.observed(self.counts)
        found = np.maximum(complete.estimate(self.counts.astype(np.float64)), 0.0)
        return np.asarray(found / max(found.sum(), 1e-300))

    @property
    def prior(self) -> FloatArray:
        return np.asarray(self.symbol_prior @ self.to_values)

    @cached_property
    def likelihood(self) -> FloatArray:
        """How likely a record with each value shows a symbol: shape (symbols, values)."""
        if self.operator is None:
            return np.eye(self.values)
        matrix = self.operator.observed(self.counts).matrix()
        own = self.symbol_prior[:, None] * self.to_values  # a value may be several true symbols
        own = np.where(own.sum(axis=0) > 0, own, self.to_values)
        return np.asarray(matrix.T @ (own / np.maximum(own.sum(axis=0), 1e-300)))

    @cached_property
    def posterior(self) -> FloatArray:
        """Chance of each value for a record that shows a symbol: shape (symbols, values)."""
        if self.operator is None:
            return np.eye(self.values)
        matrix = self.operator.observed(self.counts).matrix()
        joint = (self.symbol_prior[:, None] * matrix).T
        joint /= np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
        return np.asarray(joint @ self.to_values)


@dataclass(frozen=True, eq=False)
class BucketsView:
    """Records with their bucket, and the values that each bucket lists: cells, bucket by bucket."""

    codes: Codes
    bucket: IntArray  # per record, 0 … buckets−1
    cell_bucket: IntArray
    cell_value: IntArray
    cell_count: IntArray
    values: int

    @cached_property
    def dealt(self) -> Dealt:
        """The buckets as evidence, their cells bucket by bucket."""
        order = np.argsort(self.cell_bucket, kind="stable")
        cells = (self.cell_bucket[order], self.cell_value[order], self.cell_count[order])
        return Dealt(self.bucket, *cells, self.values)

    @property
    def listed(self) -> IntArray:
        """How many values each bucket lists, fakes included."""
        return self.dealt.listed

    @cached_property
    def shares(self) -> Any:
        """A sparse matrix (buckets, values) of shares."""
        from scipy.sparse import csr_array

        share = self.cell_count / self.listed[self.cell_bucket]
        shape = (len(self.listed), self.values)
        return csr_array((share, (self.cell_bucket, self.cell_value)), shape=shape)

    @cached_property
    def prior(self) -> FloatArray:
        total = np.bincount(self.cell_value, self.cell_count, minlength=self.values)
        return np.asarray(total / total.sum())


@dataclass(frozen=True, eq=False)
class RangesView:
    """Records that show a range or a set per quasi column, and one sensitive value each.

    `holds[j][r, t]` says whether record r's range or set of column j holds the value of code t.
    """

    holds: list[BoolArray]
    shown: IntArray
    values: int

    @cached_property
    def prior(self) -> FloatArray:
        return np.bincount(self.shown, minlength=self.values) / max(len(self.shown), 1)


@dataclass(frozen=True, eq=False)
class CountsView:
    """No records, but answered counts: by (quasi value, sensitive value) per quasi column."""

    tables: list[FloatArray]
    totals: FloatArray
    values: int

    @cached_property
    def prior(self) -> FloatArray:
        return np.asarray(self.totals / max(float(self.totals.sum()), 1e-300))


View = RecordsView | BucketsView | RangesView | CountsView


@singledispatch
def view_of(release: Release, people: People) -> View:
    """Read a release in the codes of `people`: records with a value each, for most kinds."""
    records = _records(release)
    shown = release.shown_codes(records, people.column)
    operator = release.operators.get(people.column)
    return RecordsView(_codes(people, records), shown, people.values, operator)


@view_of.register
def _buckets(release: BucketedRelease, people: People) -> BucketsView:
    import pyarrow.parquet as pq

    records, listed = _records(release), pq.read_table(release.file("sensitive"))
    names = np.asarray(listed.column("bucket").to_numpy(), np.int64)
    buckets, cell_bucket = np.unique(names, return_inverse=True)
    stands = np.asarray(records.column("bucket").to_numpy(), np.int64)
    return BucketsView(
        _codes(people, records),
        np.searchsorted(buckets, stands),
        cell_bucket,
        release.shown_codes(listed, people.column),
        np.asarray(listed.column("count").to_numpy(), np.int64),
        people.values,
    )


@view_of.register
def _ranges(release: GeneralizedRelease, people: People) -> RangesView:
    records = _records(release)
    holds = [
        _holds(release.column(name), records, people.domains, place)
        for place, name in enumerate(people.domains.names)
    ]
    return RangesView(holds, release.shown_codes(records, people.column), people.values)


def _records(release: Release) -> pa.Table:
    import pyarrow.parquet as pq

    return pa.concat_tables([pq.read_table(path) for path in release.records])


def _codes(people: People, records: pa.Table) -> Codes:
    names = people.domains.names
    return [people.domains.codes(k, records.column(name)) for k, name in enumerate(names)]


def raw_view(people: People) -> RecordsView:
    """The raw table itself, as if it had been given out."""
    return RecordsView(people.codes, people.truth, people.values)


def _holds(column: Column, records: pa.Table, domains: Domains, place: int) -> BoolArray:
    values = domains.values[place]
    rows, size = records.num_rows, domains.sizes[place]
    holds = np.zeros((rows, size), np.bool_)
    if column.kind == "numeric":
        low, high = (_numbers(records.column(f"{column.name}_{end}")) for end in ("low", "high"))
        known = _numbers(values)
        holds[:, :-1] = (low[:, None] <= known[None, :]) & (known[None, :] <= high[:, None])
        return holds
    lists = records.column(column.name)
    lists = pa.concat_arrays(lists.chunks) if isinstance(lists, pa.ChunkedArray) else lists
    lengths = np.asarray(pc.list_value_length(lists).to_numpy(), np.int64)
    owner = np.repeat(np.arange(rows), lengths)
    holds[owner, domains.codes(place, lists.flatten())] = True
    return holds


def _numbers(array: pa.Array | pa.ChunkedArray) -> FloatArray:
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    numbers = [c.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) for c in chunks]
    return np.concatenate(numbers) if numbers else np.empty(0)
