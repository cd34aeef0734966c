"""Layer 3 without a receipt: rows of people and places in buckets are chosen by nothing but chance.

*Rows*: which of a person's are published. *Assignment*: who is in a bucket with whom. *Fakes*:
which values buckets list that nobody has. What these have in common with what people have, with
where they stand and with their quasi-identifiers is held to the law of a random choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.audits.case import AuditCase, encoded, same
from sfumato.audits.chances import FloatArray, Tests, count_exponents
from sfumato.columns import value_text
from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.buckets.fakes import Fakes
from sfumato.release import BucketedRelease

PARTS = 16  # of a column with many values


def row_tests(case: AuditCase) -> Tests:
    """Of a person's n rows one is published, chosen by nothing: neither by what they say nor by
    where they stand. Rows that their quasi-identifiers single out show it."""
    names, sensitive = case.quasi, case.table.sensitive
    codes = ", ".join(f"o.__code_{k}" for k in range(len(sensitive)))
    single_rows = case.columns(
        "WITH ranked AS (SELECT *, count(*) OVER (PARTITION BY __person) AS n, "
        "row_number() OVER (PARTITION BY __person ORDER BY __place) AS rank, "
        f"count(*) OVER (PARTITION BY {', '.join(names)}) AS alike FROM raw), "
        f"shown AS (SELECT DISTINCT {', '.join(names)} FROM published) "
        f"SELECT {codes}, least(o.rank, 2) - 1 AS rank, 1 / o.n AS chance, "
        "(s.there IS NOT NULL)::INTEGER AS taken FROM ranked AS o "
        f"LEFT JOIN (SELECT *, 1 AS there FROM shown) AS s ON {same('o', 's', names)} "
        "WHERE o.alike = 1 AND o.n > 1"
    )
    chance, taken = (single_rows.column(name).to_numpy() for name in ("chance", "taken"))
    tests = []
    for index, column in enumerate((*sensitive, "rank")):
        code = single_rows.column(column if column == "rank" else f"__code_{index}").to_numpy()
        number = np.asarray(np.bincount(code, taken), np.float64)
        of = ["the first row", "a later row"] if column == "rank" else [
            value_text(value) for value in case.profile.histograms[column].values]  # fmt: skip
        named = [f"of people's rows, {of[k]} is published {number[k]:,.0f} times of {rows:,}"
                 for k, rows in enumerate(np.bincount(code))]  # fmt: skip
        exponents = count_exponents(number, number, partial(_summed, code, chance))
        tests.append(Tests(exponents, named.__getitem__))
    return Tests.joined(tests)


def bucket_tests(case: AuditCase) -> Iterator[Tests]:
    """The people of a value could change places: what they have in common with the others of their
    bucket must be chance. Those alone with their quasi-identifiers show it."""
    names, release = case.quasi, case.release
    if not names:
        return
    codes = ", ".join(f"any_value(__code_{k}) AS __code_{k}" for k in range(len(release.sensitive)))
    rows = case.columns(
        f"WITH alone AS (SELECT {', '.join(names)}, {codes}, any_value(__place) AS __place FROM "
        f"{case.complete('raw')} GROUP BY {', '.join(names)} HAVING count(*) = 1) "
        f"SELECT a.*, p.bucket FROM alone AS a JOIN {case.complete('published')} AS p "
        f"ON {same('a', 'p', names)}"
    )
    if rows.num_rows < 2:
        return
    assert isinstance(release, BucketedRelease)
    bucket = rows.column("bucket").to_numpy().astype(np.int64)
    block = np.zeros(len(bucket), np.int64)
    if release.tree is not None:  # people are assigned within their block
        block = np.searchsorted(release.first_buckets, bucket, side="right") - 1
    code_columns = [rows.column(f"__code_{k}").to_numpy() for k in range(len(release.sensitive))]
    yield from _fakes(case, bucket, code_columns[0])
    _, code = np.unique(np.stack([block, *code_columns]), axis=1, return_inverse=True)
    exponents, descriptions = [], []
    for name in (*case.table.quasi, "__place"):
        values, place = encoded(rows.column(name))
        position = np.argsort(pc.sort_indices(values).to_numpy())
        mark = position[place]
        mark = mark if len(position) <= PARTS else _near(mark, block)
        exponents.append(in_common(code.reshape(-1), bucket, mark))
        what = "their place in the table" if name == "__place" else repr(name)
        descriptions.append(f"people who share a bucket have {what} in common")
    yield Tests(np.array(exponents), descriptions.__getitem__)


def _fakes(case: AuditCase, bucket: IntArray, held: IntArray) -> Iterator[Tests]:
    """A bucket's one fake is drawn among the values that nobody in it has, by the odds that a
    bucket has them. Buckets all of whose people are alone show it."""
    release, (histogram,) = case.release, list(case.profile.histograms.values())[:1]
    assert isinstance(release, BucketedRelease)
    ceilings = case.guarantee.ceilings(histogram)
    if release.fakes != 1 or release.plan.association or case.rows_of_people_withheld:
        return  # of several fakes, or of those that follow associations, the law is another
    values, buckets = len(histogram.values), release.plan.buckets
    listed = pq.read_table(release.file("sensitive"))
    lists = np.zeros((buckets, values), np.bool_)
    lists[listed.column("bucket").to_numpy(), release.shown_codes(listed, histogram.column)] = True
    true = np.zeros_like(lists)
    true[bucket, held] = True
    lists, true = (matrix[true.sum(axis=1) + 1 == lists.sum(axis=1)] for matrix in (lists, true))
    drawn = Fakes(1, histogram.counts, buckets, Draws.from_seed(0), tuple(ceilings))
    listable = drawn.listable(true.sum(axis=1)) & ~true
    weights = np.where(listable, drawn.weights, 0).astype(np.float64)
    chance = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    number = (lists & ~true).sum(axis=0).astype(np.float64)
    exponents = count_exponents(
        number, number, lambda slope: np.log1p(chance * np.expm1(slope)).sum(axis=0)
    )
    names = [value_text(value) for value in histogram.values]
    yield Tests(exponents, lambda k: f"{names[k]} is the fake of {number[k]:,.0f} buckets")


def _near(place: IntArray, block: IntArray) -> IntArray:
    """In which part of their block people stand, by their place in a column; equals together."""
    order = np.lexsort((place, block))
    size = np.bincount(block)
    within = np.arange(len(order)) - (np.cumsum(size) - size)[block[order]]
    new = np.diff(place[order], prepend=-1) != 0
    new |= np.diff(block[order], prepend=-1) != 0
    first = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    part = np.empty(len(order), np.int64)
    part[order] = within[first] * PARTS // size[block[order]]
    return part


def in_common(code: IntArray, bucket: IntArray, mark: IntArray) -> float:
    """−log of a bound on the chance that people share their mark so much, or so little.

    Every other value, from the most frequent down, stays where it is; the people of the others
    could change places within theirs. Each counts for the share of those in the bucket who stay
    and have the same mark: Σ a[i, π(i)] with all a in [0, 1] and π random within values, so
    2 exp(−t²/(4·expected + 2t)) (Chatterjee 2007, Proposition 1.1).
    """
    from scipy.sparse import csr_array

    counts = np.bincount(code)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    stays = rank[code] % 2 == 0
    moved, shape = ~stays, (int(bucket.max()) + 1, int(mark.max()) + 1)
    weight = 1 / np.maximum(np.bincount(bucket[stays], minlength=shape[0]), 1)[bucket[stays]]
    share = csr_array((weight, (bucket[stays], mark[stays])), shape=shape)
    ones, rows = np.ones(int(moved.sum())), len(counts)
    slots = csr_array((ones, (code[moved], bucket[moved])), shape=(rows, shape[0]))
    marks = csr_array((ones, (code[moved], mark[moved])), shape=(rows, shape[1]))
    observed = float(share[bucket[moved], mark[moved]].sum())
    expected = float(((slots @ share).multiply(marks).sum(axis=1) / counts).sum())
    gap = abs(observed - expected)
    exponent = gap**2 / max(4 * expected + 2 * gap, 1e-300)
    return max(exponent - float(np.log(2)), 0.0)


def _summed(group: IntArray, chance: FloatArray, slope: float) -> FloatArray:
    return np.asarray(np.bincount(group, np.log1p(chance * np.expm1(slope))), np.float64)
