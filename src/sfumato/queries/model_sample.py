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
from sfumato.queries.bucketed import BucketTable
from sfumato.queries.quasi_codes import QuasiCode, codes_of_columns
from sfumato.queries.rules import CELLS, Sample
from sfumato.release import Release

_BATCH = 1 << 16  # records that are read at once

Keep = Callable[[pa.Table, int], BoolArray]  # of the records of a batch, from this number on


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


def drawn_sample(release: Release, column: str, operator: Operator) -> Sample:
    """Records that show what an operator made of their value."""
    names = release.shown_as(release.column(column))
    kept = kept_records(release, names, some_records(release, operator.domain_size))
    shown = release.shown_codes(kept, column)

    def read(units: IntArray) -> tuple[ShownSymbols, FloatArray]:
        chances, prior = shown_chances(
            operator, np.bincount(shown[units], minlength=operator.values)
        )
        return ShownSymbols(shown, chances), prior

    weights = operator.inverse().weigh(np.eye(operator.domain_size)).T
    return Sample(*coded_columns(release, kept), shown, weights, len(shown), read)


def shown_chances(operator: Operator, counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Pr(symbol | value) by (symbol, value), and the shares of the values.

    A value that several sub-tables hold is in each as often as the unbiased estimate says.
    """
    matrix = operator.matrix()
    if isinstance(operator, Parts):
        estimates = np.maximum(counts @ operator.weights(), 1e-3)
        symbol_codes, shares = operator.symbol_codes, operator.total(estimates)
        chances = np.zeros((operator.values, operator.domain))
        np.add.at(chances.T, symbol_codes, matrix * (estimates / shares[symbol_codes])[:, None])
        return chances, shares / shares.sum()
    estimates = np.maximum(operator.estimate(counts.astype(np.float64)), 1e-3)
    return matrix.T, estimates / estimates.sum()


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


def listed_sample(release: Release, table: BucketTable, draws: Draws) -> Sample:
    """Records in buckets that list values; of large releases some buckets, whole."""
    chosen, keep = some_buckets(release, table, draws)
    kept = kept_records(release, ["bucket"], keep)
    shares = table.shares[np.flatnonzero(chosen)]
    listed, dealt = dealt_records(kept, chosen, shares)
    totals = np.asarray(listed.sum(axis=0), np.float64)
    seen = BucketOperator(totals, (listed.T @ shares).toarray())
    prior = np.maximum(table.counts, 1e-3)
    return Sample(
        *coded_columns(release, kept),
        dealt.bucket,
        shares @ seen.seen_inverse,
        shares.shape[0],
        lambda units: (dealt, prior / prior.sum()),
    )


def coded_columns(release: Release, kept: pa.Table) -> tuple[list[QuasiCode], tuple[IntArray, ...]]:
    """How quasi columns become codes, and those of these records."""
    columns = [kept.column(column.name) for column in release.quasi]
    coded = [QuasiCode.of(column) for column in columns]
    return coded, codes_of_columns(columns, coded)
