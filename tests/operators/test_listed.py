"""Estimates from buckets mixed block by block, against dense algebra and against the truth."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack

from sfumato.operators.buckets import BucketOperator
from sfumato.operators.deviations import BlockTable, Deviations, likeliest
from sfumato.operators.estimator import Estimator, Forms, Moments, Statistic, Totals
from sfumato.operators.listed import ListedEstimated

VALUES, SIZE = 6, 3


def make_blocks(seed: int, sizes: tuple[int, ...]) -> tuple[csr_array, np.ndarray]:
    """Buckets of three different values each, blocks with shares of their own."""
    rng = np.random.default_rng(seed)
    rows, first = [], [0]
    for buckets in sizes:
        chance = rng.dirichlet(np.full(VALUES, 6.0))
        for _ in range(buckets):
            row = np.zeros(VALUES)
            row[rng.choice(VALUES, SIZE, replace=False, p=chance)] = 1
            rows.append(row)
        first.append(len(rows))
    return csr_array(np.array(rows)), np.array(first[:-1])


def deal(held: csr_array, first: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Everybody by block and value; their buckets by a random deal within (block, value)."""
    rng = np.random.default_rng(seed)
    dense, ends = held.toarray().astype(int), [*first[1:].tolist(), held.shape[0]]
    codes, buckets = [], []
    for low, high in zip(first.tolist(), ends, strict=True):
        for value in range(VALUES):
            slots = np.repeat(np.arange(low, high), dense[low:high, value])
            codes.append(np.full(len(slots), value))
            buckets.append(rng.permutation(slots))
    return np.concatenate(codes), np.concatenate(buckets)


def moments(groups: list[np.ndarray], bucket: np.ndarray, weight: np.ndarray) -> Moments:
    of = np.concatenate([np.full(int(g.sum()), n) for n, g in enumerate(groups)])
    at = np.concatenate([np.flatnonzero(g) for g in groups])
    one, e = np.ones(len(at)), weight[at]
    sums = {("n",): one, ("n", "n"): one, ("e",): e, ("n", "e"): e, ("e", "n"): e, ("e", "e"): e**2}
    return Moments(len(groups), of, (bucket[at],), sums)


def read(estimator: Estimator, told: Moments, weight: str = "n") -> Totals:
    """Every value of every class is a row of its own; there are `VALUES`."""
    forms = Forms.of(
        np.zeros(told.classes, np.int64), np.arange(VALUES)[None, :], np.array([0, VALUES])
    )
    every = np.ones((1, VALUES))
    return estimator(told).read(forms, [Statistic(weight, "n", every, every > 0)])


def estimator(
    held: csr_array, first: np.ndarray, name: str = "shrunk"
) -> Callable[[Moments], ListedEstimated]:
    shares = csr_array(held / held.sum(axis=1)[:, None])
    listed = np.asarray(held.sum(axis=1), np.float64)
    return partial(ListedEstimated, table=BlockTable.of(shares, listed, first), name=name)


def test_one_block_without_shrinking_is_the_inverse() -> None:
    held, first = make_blocks(1, (300,))
    codes, bucket = deal(held, first, 2)
    group = np.random.default_rng(3).random(len(codes)) < np.linspace(0.1, 0.6, len(codes))
    told = moments([group], bucket, np.ones(len(codes)))
    together = held.T @ (held / SIZE)
    operator = BucketOperator(np.asarray(held.sum(axis=0)), together.toarray())
    shown = np.bincount(bucket[group], minlength=held.shape[0]) @ held.toarray() / SIZE
    expected = shown @ np.linalg.inv(operator.matrix)
    assert read(estimator(held, first, "inverse"), told).values[0] == pytest.approx(expected)


def test_two_blocks_are_the_posterior_of_the_whole_model() -> None:
    """The formulas of the module against a dense normal posterior over δ and both blocks."""
    held, first = make_blocks(4, (120, 200))
    codes, bucket = deal(held, first, 5)
    group = np.random.default_rng(6).random(len(codes)) < 0.2 + 0.4 * (codes < 2)
    told = moments([group], bucket, np.ones(len(codes)))
    found = estimator(held, first)(told)
    ((_, fitted),) = found.fits()
    spread = float(fitted.spread[0])
    assert spread > 0
    blocks = found._blocks_of(found.free, 0)
    differ = blocks.differing(*np.linalg.eigh(blocks.seen.sum(axis=0)))
    block = np.searchsorted(first, bucket, side="right") - 1
    # unknown: δ, the chance deviations of both blocks, and theirs from δ; seen: both residuals
    size = VALUES * 5
    prior, seen, noise = np.zeros((size, size)), np.zeros((2 * VALUES, size)), []
    prior[:VALUES, :VALUES] = spread * np.eye(VALUES)
    residual, sums, start = [], np.zeros((VALUES, size)), np.zeros(VALUES)
    for k in range(2):
        rows = held[first[k] : (first[k + 1] if k == 0 else held.shape[0])].toarray()
        counts, together = rows.sum(axis=0), rows.T @ rows / SIZE
        people = counts.sum()
        share = float((group & (block == k)).sum()) / people
        free = share * (1 - share)
        matrix = together / counts[:, None]
        chance = free * (np.diag(counts) - np.outer(counts, counts) / people)
        here = slice(VALUES * (k + 1), VALUES * (k + 2))
        prior[here, here] = chance
        own = slice(VALUES * (k + 3), VALUES * (k + 4))
        prior[own, own] = np.diag(differ)
        deviation = free * (np.diag(counts) - np.outer(counts, counts) / people)
        seen[k * VALUES : (k + 1) * VALUES, :VALUES] = matrix.T @ deviation
        seen[k * VALUES : (k + 1) * VALUES, own] = matrix.T @ deviation
        seen[k * VALUES : (k + 1) * VALUES, here] = matrix.T
        noise.append(free * (together - matrix.T @ np.diag(counts) @ matrix))
        inside = group & (block == k)
        shown = np.bincount(bucket[inside] - first[k], minlength=len(rows)) @ rows / SIZE
        residual.append(shown - share * counts)
        start += share * counts
        sums[:, :VALUES] += deviation
        sums[:, own] += deviation
        sums[:, here] += np.eye(VALUES)
    whole = seen @ prior @ seen.T
    for k in range(2):
        here = slice(k * VALUES, (k + 1) * VALUES)
        whole[here, here] += noise[k]
    gain = prior @ seen.T @ np.linalg.pinv(whole, rcond=1e-10)
    mean = start + sums @ gain @ np.concatenate(residual)
    left = sums @ (prior - gain @ seen @ prior) @ sums.T
    totals = read(estimator(held, first), told)
    assert totals.values[0] == pytest.approx(mean, rel=1e-6)
    assert totals.variance([1.0]) == pytest.approx(np.diag(left), rel=1e-6)


def test_blocks_wholly_inside_are_exact() -> None:
    held, first = make_blocks(7, (60, 80, 70))
    codes, bucket = deal(held, first, 8)
    inside = bucket < first[2]
    totals = read(estimator(held, first), moments([inside], bucket, np.ones(len(codes))))
    true = np.bincount(codes[inside], minlength=VALUES)
    assert totals.values[0] == pytest.approx(true, abs=1e-9)
    assert totals.variance([1.0]) == pytest.approx(np.zeros(VALUES), abs=1e-9)


def test_sums_in_whole_blocks_are_told_by_these_blocks_alone() -> None:
    """A group of a whole block and a part of another: its sums are those of both, as if apart."""
    held, first = make_blocks(7, (60, 80))
    codes, bucket = deal(held, first, 8)
    whole = bucket < first[1]
    some = ~whole & (np.random.default_rng(9).random(len(codes)) < 0.4)
    weight = np.random.default_rng(10).integers(20, 60, len(codes)) + 9.0 * codes
    together, *apart = (
        read(estimator(held, first), moments([group], bucket, weight), "e")
        for group in (whole | some, whole, some)
    )
    assert together.values[0] == pytest.approx(apart[0].values[0] + apart[1].values[0])
    assert together.noise[0, 0] == pytest.approx(apart[0].noise[0, 0] + apart[1].noise[0, 0])


@pytest.mark.parametrize("weight", ["n", "e"])
def test_unbiased_and_covered_over_deals(weight: str) -> None:
    """200 deals: means within 4.5 standard errors (2e-4 for all), 95 % intervals hold 92.5–98 %.

    The group depends on the value, alike in all blocks, and so does the weight.
    """
    held, first = make_blocks(9, (150, 100, 120, 90))
    codes, _ = deal(held, first, 0)
    rng = np.random.default_rng(10)
    group = rng.random(len(codes)) < 0.2 + 0.08 * (codes % 3)
    e = rng.integers(20, 60, len(codes)) + 5.0 * codes
    worth = np.ones(len(codes)) if weight == "n" else e
    true = np.bincount(codes[group], worth[group], minlength=VALUES)
    found, covered = [], []
    plain, shrunk = estimator(held, first, "inverse"), estimator(held, first)
    for number in range(200):
        same, bucket = deal(held, first, 100 + number)
        assert np.array_equal(same, codes)
        told = moments([group], bucket, e)
        found.append(read(plain, told, weight).values[0])
        totals = read(shrunk, told, weight)
        spread = np.sqrt(np.maximum(totals.variance([1.0]), 0.0))
        low, high = totals.interval(totals.values[0], spread, 1.96, [1.0])
        covered.append((low <= true) & (true <= high))
    error = np.std(found, axis=0) / np.sqrt(len(found))
    # it undoes deviations that are alike in all blocks: a small bias is left where they differ
    assert np.abs(np.mean(found, axis=0) - true) == pytest.approx(0, abs=4.5 * error.max() + 2)
    assert 0.925 <= np.mean(covered) <= 0.985


def test_likeliest_spread_is_found() -> None:
    rng = np.random.default_rng(11)
    known = np.tile(np.geomspace(1, 100, 2000), (2, 1))
    shown = rng.normal(size=known.shape) * np.sqrt(known + np.array([[0.5], [0.0]]) * known**2)
    found = likeliest(known, shown)
    assert found[0] == pytest.approx(0.5, rel=0.15)  # 4 standard errors
    assert found[1] == pytest.approx(0.0, abs=5e-3)


def test_few_buckets_of_many_values_are_fitted_as_the_whole_matrix_is() -> None:
    """Vectors from a matrix of buckets by buckets, against those of values by values."""
    rng = np.random.default_rng(12)
    held, first = csr_array(rng.poisson(0.7, (14, 60)).astype(np.float64)), np.array([0, 5, 9])
    sizes = np.asarray(held.sum(axis=1), np.float64)
    few = BlockTable.of(csr_array(held / sizes[:, None]), sizes, first)
    # beside buckets of nobody, as many as make the matrix of buckets the larger
    nobody = csr_array((60, 60))
    whole = BlockTable.of(
        csr_array(vstack([few.shares, nobody])), np.append(sizes, np.zeros(60)), first
    )
    loose = csr_array(np.array([[0.2, 0.1, 0.0], [0.0, 0.0, 0.25], [0.1, 0.2, 0.1]]))
    _, together = few.summed(loose)
    known, vectors = few.spectra(loose, together)
    assert vectors.shape == (3, 60, 11)  # 14 buckets in three blocks, and each knows its sum
    dense = together - few.products(loose)
    assert (vectors * known[:, None]) @ vectors.transpose(0, 2, 1) == pytest.approx(dense, abs=1e-9)
    residual = dense @ rng.normal(0, 10, (3, 60, 1))
    one, other = (Deviations.shared(table, loose, residual) for table in (few, whole))
    assert one.spread == pytest.approx(other.spread, rel=1e-6)
    assert one.spread.min() > 0
    for name, moved in other.moved().items():
        assert one.moved()[name] == pytest.approx(moved, rel=1e-6, abs=1e-9)
    group, forms = np.array([0, 1, 2, 2]), rng.normal(size=(4, 60))
    both = (each.products(group, forms, forms) for each in (one, other))
    assert next(both) == pytest.approx(next(both), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("tilt", [0.0, 0.2])
def test_intervals_of_small_blocks_hold_what_chance_adds(tilt: float) -> None:
    """Of 3,600 counts in 120 buckets 95 ± 1.4 % (4 standard errors, by the scatter of 20 deals).

    What people scatter by inside a block goes with the truth, not with what the buckets show: where
    the two ends shared the error by the truth itself, 92.5 and 92.7 % were held.
    """
    held, first = make_blocks(13, (40, 30, 50))
    default, covered = estimator(held, first), []
    for number in range(20):
        codes, bucket = deal(held, first, 500 + number)
        rng = np.random.default_rng(900 + number)
        chances = 0.3 * np.exp(tilt * rng.normal(size=(30, VALUES)))
        groups = [rng.random(len(codes)) < chance[codes] for chance in chances]
        totals = read(default, moments(groups, bucket, np.ones(len(codes))))
        low, high = totals.interval(totals.values[0], np.ones(len(totals.values[0])), 1.96, [1.0])
        true = np.concatenate([np.bincount(codes[each], minlength=VALUES) for each in groups])
        covered.append(((low <= true) & (true <= high)).mean())
    assert np.mean(covered) == pytest.approx(0.95, abs=0.014)
