"""Several columns in shared buckets, against dense algebra and against the truth over deals."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from sfumato.operators import marks
from sfumato.operators.deviations import BlockTable
from sfumato.operators.estimator import Moments
from sfumato.operators.listed import ListedEstimated
from sfumato.operators.marks import MarkDeviations, MarkSystem, MarkTable
from tests.operators.test_listed import read

JOBS, PAYS = 6, 4  # values of two columns
SIZE = 20  # of a bucket


def people(seed: int, number: int = 2_400) -> tuple[np.ndarray, np.ndarray]:
    """Pay mostly follows from the job."""
    draw = np.random.default_rng(seed)
    job = draw.choice(JOBS, number, p=[0.3, 0.25, 0.2, 0.12, 0.08, 0.05])
    pay = np.where(draw.random(number) < 0.7, job % PAYS, draw.integers(0, PAYS, number))
    return job, pay


def dealt(job: np.ndarray, pay: np.ndarray, seed: int) -> np.ndarray:
    """Buckets whose contents are always the same, jobs evenly and pay in clumps; people with the
    same job and pay are dealt to their slots at random."""
    draw, order = np.random.default_rng(seed), np.random.default_rng(1)
    bucket = order.permutation(len(job)) % (len(job) // SIZE)
    for value in range(JOBS):
        same = np.flatnonzero(job == value)
        by_pay = np.argsort(pay[same] + 2.0 * order.random(len(same)))
        bucket[same[by_pay]] = np.sort(bucket[same])
    for combination in np.unique(job * PAYS + pay):
        same = np.flatnonzero(job * PAYS + pay == combination)
        bucket[same] = draw.permutation(bucket[same])
    return bucket


def moments(groups: list[np.ndarray], bucket: np.ndarray) -> Moments:
    """People of groups by bucket."""
    buckets = int(bucket.max()) + 1
    counts = np.stack([np.bincount(bucket[group], minlength=buckets) for group in groups])
    of, at = np.nonzero(counts)
    people_of = counts[of, at].astype(np.float64)
    return Moments(len(groups), of, (at,), {("n",): people_of, ("n", "n"): people_of})


def table_of(
    job: np.ndarray, pay: np.ndarray, bucket: np.ndarray, first: np.ndarray
) -> tuple[MarkTable, csr_array, csr_array]:
    """Marks, and what is asked about jobs: their combinations, and their shares by bucket."""
    listed, place = np.unique(job * PAYS + pay, return_inverse=True)
    counts = csr_array((np.ones(len(job)), (bucket, place)))
    every = np.arange(len(listed))
    of_job = csr_array((np.ones(len(listed)), (every, listed // PAYS)), (len(listed), JOBS))
    of_pay = csr_array((np.ones(len(listed)), (every, listed % PAYS)), (len(listed), PAYS))
    marks_of = csr_array(np.hstack([of_job.toarray(), of_pay.toarray()]))
    block = np.searchsorted(first, np.arange(counts.shape[0]), side="right") - 1
    rows = np.bincount(block, counts.sum(axis=1)).astype(np.float64)
    column = np.repeat([0, 1], [JOBS, PAYS])
    shares = csr_array((counts @ of_job) / counts.sum(axis=1)[:, None])
    return MarkTable(counts, marks_of, column, block, rows), of_job, shares


@pytest.mark.parametrize("first", [np.array([0]), np.array([0, 50])])
def test_estimates_are_the_posterior_of_the_model(first: np.ndarray) -> None:
    """Of one group, whose δ are known to be of some size, against dense normal algebra."""
    job, pay = people(2)
    bucket = dealt(job, pay, 3)
    table, asked, shares = table_of(job, pay, bucket, first)
    draw = np.random.default_rng(4)
    group = draw.random(len(job)) < 0.2 + 0.3 * (job < 2) - 0.1 * (pay == 1)
    inside, sizes = np.bincount(bucket[group], minlength=len(table.block)), table.sizes
    share = (table.in_block @ inside) / table.rows
    free = share * (1 - share)
    beyond = inside - share[table.block] * sizes
    one_block = len(first) == 1
    system = MarkSystem(table, np.ones(1) if one_block else free)
    scale = free if one_block else np.ones(1)
    found = MarkDeviations.of(
        system, beyond[:, None, None], scale, np.zeros(1, np.int64), asked, shares
    )
    (law,) = found.laws
    # the same, as it is written
    of_bucket, size = free[table.block], law.apart / scale[0]
    crowding = np.empty(len(sizes))
    for level, buckets in zip(system.crowding, system.inside, strict=True):
        assert system.free[buckets] * table.crowding[buckets] == pytest.approx(
            level, rel=2**0.25 - 1 + 1e-9
        )
        crowding[buckets] = level / system.free[buckets]
    noise = np.diag(of_bucket * sizes * (1 + size * of_bucket * crowding))
    counts, z = table.combined.toarray(), table.marks_of.toarray()
    expected = (table.in_block @ counts / table.rows[:, None])[table.block]
    design = of_bucket[:, None] * (counts - sizes[:, None] * expected) @ z
    prior = np.diag(law.root**2) / scale[0]
    gain = prior @ design.T @ np.linalg.inv(design @ prior @ design.T + noise)
    left = prior - gain @ design @ prior
    people_of = of_bucket @ counts
    carried = (asked.toarray().T * people_of) @ z
    carried -= (of_bucket[:, None] * shares.toarray()).T @ counts @ z
    assert found.moved()["shrunk"][0, :, 0] == pytest.approx(carried @ gain @ beyond, rel=1e-6)
    every = np.eye(JOBS)
    chance, delta, *_ = found.products(np.zeros(JOBS, np.int64), every, every)
    assert delta == pytest.approx(np.diag(carried @ left @ carried.T), rel=1e-6)
    apart = asked.toarray().T * people_of
    apart -= (of_bucket[:, None] * shares.toarray()).T @ counts
    plain = (of_bucket * sizes) @ (shares.toarray() * (1 - shares.toarray()))
    assert chance == pytest.approx(plain + size * (apart**2).sum(axis=1), rel=1e-6)


def test_sizes_of_deviations_are_the_likeliest() -> None:
    """Groups in which jobs deviate and pay does not: no point nearby is likelier."""
    job, pay = people(5)
    bucket = dealt(job, pay, 6)
    table, _, _ = table_of(job, pay, bucket, np.array([0]))
    group = (
        np.random.default_rng(7).random(len(job)) < np.array([0.6, 0.2, 0.2, 0.7, 0.1, 0.5])[job]
    )
    inside = np.bincount(bucket[group], minlength=len(table.block))
    share = group.mean()
    scale = np.array([share * (1 - share)])
    beyond = (inside - share * table.sizes)[:, None]
    system = table.one_block
    shown, squares = system.shown(beyond) / np.sqrt(scale), system.squares(beyond) / scale
    (point,) = system.likeliest(shown, squares, scale)
    offset = np.log2(scale)
    best = system._judged(point[None], shown, squares, offset)
    for axis in range(3):
        for step in (-1, 1):
            beside = point + step * np.eye(3, dtype=np.int64)[axis]
            assert system._judged(beside[None], shown, squares, offset) <= best + 1e-9
    assert point[1] > point[2]  # τ of jobs above that of pay


def projected(table: MarkTable, shares: csr_array) -> BlockTable:
    return BlockTable.of(shares, table.sizes, np.array([0]))


def test_intervals_hold_where_the_law_of_one_column_does_not() -> None:
    """3,600 counts of jobs in 10 groups and 60 deals: the group goes with the pay, that of the same
    job differs by bucket. The law of jobs alone holds 20 points less."""
    job, pay = people(8)
    draw = np.random.default_rng(9)
    chances = 0.3 * np.exp(0.4 * draw.normal(size=(10, JOBS, 1)))
    chances = np.clip(chances * np.exp(0.9 * draw.normal(size=(10, 1, PAYS))), 0.02, 0.95)
    covered: dict[str, list[float]] = {"marks": [], "alone": []}
    for number in range(60):
        bucket = dealt(job, pay, 100 + number)
        table, asked, shares = table_of(job, pay, bucket, np.array([0]))
        alone = projected(table, shares)
        both = BlockTable(**{**vars(alone), "marks": table, "asked": asked})
        groups = [draw.random(len(job)) < chance[job, pay] for chance in chances]
        told = moments(groups, bucket)
        true = np.concatenate([np.bincount(job[each], minlength=JOBS) for each in groups])
        for name, blocks in (("marks", both), ("alone", alone)):
            totals = read(partial(ListedEstimated, table=blocks), told)
            assert totals.ends is not None
            low, high = (end[0] for end in totals.ends(1.96))
            covered[name].append(((low <= true + 1e-6) & (true <= high + 1e-6)).mean())
    assert np.mean(covered["marks"]) >= 0.94
    assert np.mean(covered["alone"]) <= np.mean(covered["marks"]) - 0.05


def test_more_marks_than_can_be_learnt_show_what_is_possible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(marks, "MOST_MARKS", 5)
    job, pay = people(10)
    bucket = dealt(job, pay, 11)
    table, asked, shares = table_of(job, pay, bucket, np.array([0]))
    blocks = BlockTable(**{**vars(projected(table, shares)), "marks": table, "asked": asked})
    group = np.random.default_rng(12).random(len(job)) < 0.3
    totals = read(partial(ListedEstimated, table=blocks), moments([group], bucket))
    assert totals.ends is not None
    low, high = (end[0] for end in totals.ends(1.96))
    inside, listed = (
        np.bincount(bucket[group], minlength=120),
        (shares * table.sizes[:, None]).toarray(),
    )
    least = np.maximum(inside[:, None] + listed - table.sizes[:, None], 0).sum(axis=0)
    assert low == pytest.approx(least)
    assert high == pytest.approx(np.minimum(inside[:, None], listed).sum(axis=0))
    true = np.bincount(job[group], minlength=JOBS)
    assert ((low <= true) & (true <= high)).all()


def test_blocks_wholly_inside_are_exact() -> None:
    """One group is a block, another one a block and nothing of the other."""
    job, pay = people(13)
    bucket = dealt(job, pay, 14)
    table, asked, shares = table_of(job, pay, bucket, np.array([0, 50]))
    plain = BlockTable.of(shares, table.sizes, np.array([0, 50]))
    blocks = BlockTable(**{**vars(plain), "marks": table, "asked": asked})
    groups = [bucket < 50, np.ones(len(job), np.bool_)]
    totals = read(partial(ListedEstimated, table=blocks), moments(groups, bucket))
    true = np.concatenate([np.bincount(job[each], minlength=JOBS) for each in groups])
    assert totals.values[0] == pytest.approx(true)
    assert totals.variance([1.0]) == pytest.approx(np.zeros(2 * JOBS), abs=1e-9)
    assert totals.ends is not None
    for end in totals.ends(1.96):
        assert end[0] == pytest.approx(true)
