"""Records of a release that P(value | quasi) is fitted to: codes of quasi columns, and what is
shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.draws import BoolArray, Draws, IntArray
from sfumato.operators import Operator, Parts
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator
from sfumato.operators.dealt import Dealt
from sfumato.operators.links import ShownSymbols
from sfumato.queries.bucket_table import BucketTable
from sfumato.queries.quasi_codes import QuasiCode, codes_of_columns
from sfumato.queries.rules import CELLS, Sample, SampleReading
from sfumato.release import Release

_BATCH = 1 << 16  # records that are read at once

Keep = Callable[[pa.Table, int], BoolArray]  # of the records of a batch, from this number on


def coded_records(
    release: Release, shown: Sequence[str], keep: Keep
) -> tuple[list[QuasiCode], tuple[IntArray, ...], pa.Table]:
    """The records that `keep` keeps: the codes of their quasi columns, and what they show."""
    quasi = [column.name for column in release.quasi]
    kept = kept_records(release, shown, keep)
    columns = [kept.column(name) for name in quasi]
    coded = [QuasiCode.of(column) for column in columns]
    return coded, codes_of_columns(columns, coded), kept


def kept_records(release: Release, shown: Sequence[str], keep: Keep) -> pa.Table:
    """The quasi columns of the records that `keep` keeps, and what they show."""
    quasi = [column.name for column in release.quasi]
    batches, start = [], 0
    for _, batch in release.batches([*quasi, *shown], _BATCH):
        table = pa.Table.from_batches([batch])
        batches.append(table.filter(pa.array(keep(table, start))))
        start += len(table)
    return pa.concat_tables(batches)


def some_records(release: Release, values: int) -> Keep:
    """Every so manieth record, so that all stay within `CELLS`."""
    every = max(-(-release.rows * values // CELLS), 1)

    def keep(table: pa.Table, start: int) -> BoolArray:
        # the records are sorted: this takes from every group of them
        return np.asarray((start + np.arange(len(table))) % every == 0, np.bool_)

    return keep


def drawn_sample(
    release: Release, column: str, operator: Operator
) -> tuple[list[QuasiCode], Sample]:
    """Records that show what an operator made of their value."""
    names = release.shown_as(release.column(column))
    coded, codes, kept = coded_records(release, names, some_records(release, operator.domain_size))
    shown = release.shown_codes(kept, column)
    weights = operator.inverse().weigh(np.eye(operator.domain_size)).T

    def reading(units: IntArray) -> SampleReading:
        counts = np.bincount(shown[units], minlength=operator.values)
        chances, prior, parts = shown_chances(operator, counts)
        return SampleReading(ShownSymbols(shown, chances), prior, chances, weights, parts)

    sample = Sample(
        codes,
        [column_codes.size for column_codes in coded],
        [column_codes.is_ordered for column_codes in coded],
        np.arange(len(shown)),
        len(shown),
        shown,
        operator.symbol_parts[shown] if isinstance(operator, Parts) else None,
        reading,
        False,
        len(shown) / max(release.rows, 1),
    )
    return coded, sample


def shown_chances(
    operator: Operator, counts: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Pr(symbol | value) by (symbol, value), the shares of the values, and of sub-tables in values.

    A value that several sub-tables hold is in each as often as the unbiased estimate says.
    """
    matrix = operator.likelihood()
    if isinstance(operator, Parts):
        estimates = np.maximum(counts @ operator.weights(), 1e-3)
        symbol_codes, shares = operator.symbol_codes, operator.total(estimates)
        chances = np.zeros((operator.values, operator.domain))
        np.add.at(chances.T, symbol_codes, matrix * (estimates / shares[symbol_codes])[:, None])
        parts = np.zeros((len(operator.parts), operator.domain))
        parts[operator.symbol_parts, symbol_codes] = estimates / shares[symbol_codes]
        return chances, shares / shares.sum(), parts
    estimates = np.maximum(operator.estimate(counts.astype(np.float64)), 1e-3)
    return matrix.T, estimates / estimates.sum(), None


def some_buckets(release: Release, table: BucketTable, draws: Draws) -> tuple[BoolArray, Keep]:
    """Which buckets, whole, so that all their records stay within `CELLS`."""
    buckets, values = table.shares.shape
    share = min(CELLS / max(release.rows * values, 1), 1.0)
    chosen = np.zeros(buckets, np.bool_)
    chosen[draws.choose("buckets of a model", buckets, max(int(buckets * share), 1))] = True

    def keep(read: pa.Table, start: int) -> BoolArray:
        return np.asarray(chosen[read.column("bucket").to_numpy()], np.bool_)

    return chosen, keep


def dealt_records(kept: pa.Table, chosen: BoolArray, shares: Any) -> tuple[Any, Dealt]:
    """What the chosen buckets list, (buckets, values), and the records dealt to them."""
    bucket = (np.cumsum(chosen) - 1)[kept.column("bucket").to_numpy()]
    listed = shares.multiply(np.bincount(bucket, minlength=shares.shape[0])[:, None]).tocsr()
    listed.sort_indices()
    cells = listed.tocoo()
    dealt = Dealt(
        bucket,
        cells.row.astype(np.int64),
        cells.col.astype(np.int64),
        np.round(cells.data).astype(np.int64),
        shares.shape[1],
    )
    return listed, dealt


def listed_sample(
    release: Release, table: BucketTable, draws: Draws
) -> tuple[list[QuasiCode], Sample]:
    """Records in buckets that list values; of large releases some buckets, whole."""
    chosen, keep = some_buckets(release, table, draws)
    coded, codes, kept = coded_records(release, ["bucket"], keep)
    shares = table.shares[np.flatnonzero(chosen)]
    listed, dealt = dealt_records(kept, chosen, shares)
    bucket = dealt.bucket
    prior = np.maximum(table.counts, 1e-3)

    def reading(units: IntArray) -> SampleReading:
        some = listed[units]
        totals = np.asarray(some.sum(axis=0), np.float64)
        operator = BucketOperator(totals, (some.T @ shares[units]).toarray(), None)
        placed = listed.multiply(1 / np.maximum(totals, 1.0)).tocsr()
        return SampleReading(dealt, prior / prior.sum(), placed, shares @ operator.seen_inverse)

    sample = Sample(
        codes,
        [column_codes.size for column_codes in coded],
        [column_codes.is_ordered for column_codes in coded],
        bucket,
        shares.shape[0],
        bucket,
        None,
        reading,
        True,
        len(bucket) / max(release.rows, 1),
    )
    return coded, sample
