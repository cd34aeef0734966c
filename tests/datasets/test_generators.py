"""Generated tables: the promised margins, real dependence, and rows that only the seed moves.

Chi-square tests run on fixed seeds with a false-alarm probability of 1e-6 each.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from sfumato import datasets
from sfumato.datasets import GENERATORS, columns_of, drawn, generate, rake, write_dataset
from sfumato.draws import Draws
from sfumato.errors import DataError, UsageError

FALSE_ALARM = 1e-6
ROWS = 400_000


@cache
def sample(name: str) -> dict[str, np.ndarray]:
    return drawn(name, Draws.from_seed(20), 0, ROWS)


def tail_of(observed: np.ndarray, expected: np.ndarray) -> float:
    """Chi-square tail probability; cells that expect fewer than 5 are pooled."""
    rare = expected < 5
    seen = np.append(observed[~rare], observed[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    if wanted[-1] < 5:
        seen[-2] += seen[-1]
        wanted[-2] += wanted[-1]
        seen, wanted = seen[:-1], wanted[:-1]
    statistic = ((seen - wanted) ** 2 / wanted).sum()
    return float(stats.chi2.sf(statistic, len(seen) - 1))


def information(a: np.ndarray, b: np.ndarray) -> float:
    """Mutual information in nats."""
    joint = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(joint, (a, b), 1 / len(a))
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    seen = joint > 0
    return float((joint[seen] * np.log(joint[seen] / apart[seen])).sum())


def values_of(name: str, column: str) -> tuple[str, ...] | tuple[int, ...]:
    return columns_of(name)[column].values


# -- laws ---------------------------------------------------------------------------------------


def test_census_occupation_has_the_papers_margin() -> None:
    expected = np.geomspace(0.075, 0.0018, 50)
    observed = np.bincount(sample("census")["occupation"], minlength=50)
    assert tail_of(observed, expected / expected.sum() * ROWS) > FALSE_ALARM
    assert observed[0] / ROWS == pytest.approx(0.075, rel=0.03)
    assert observed[-1] / ROWS == pytest.approx(0.0018, rel=0.2)


@pytest.mark.parametrize("name", GENERATORS)
def test_every_column_follows_its_shares_given_its_parents(name: str) -> None:
    codes = sample(name)
    for own, column in columns_of(name).items():
        shares = column.shares.reshape(-1, len(column.values))
        # the row of the table is worked out again, with numpy's own order of axes
        groups = [cut[codes[parent]] for parent, cut in column.groups.items()]
        sizes = [int(cut.max()) + 1 for cut in column.groups.values()]
        cells = np.ravel_multi_index(groups, sizes) if groups else np.zeros(ROWS, np.int64)
        size = len(column.values)
        flat = cells * size + codes[own]
        observed = np.bincount(flat, minlength=shares.size)
        expected = (np.bincount(cells, minlength=len(shares))[:, None] * shares).reshape(-1)
        assert not observed[expected == 0].any(), f"{own}: an impossible value occurs"
        # the parents are conditioned on, so the true degrees of freedom are fewer and the false
        # alarm rarer than stated; a wrong table moves the statistic by orders of magnitude
        assert tail_of(observed, expected) > FALSE_ALARM, own


@pytest.mark.parametrize(
    ("name", "a", "b", "least"),
    [
        ("census", "occupation", "education", 0.15),
        ("census", "occupation", "gender", 0.05),
        ("census", "occupation", "age", 0.02),
        ("census", "marital", "age", 0.05),
        ("census", "education", "age", 0.01),
        ("census", "workclass", "occupation", 0.1),
        ("census", "country", "race", 0.1),
        ("hospital", "diagnosis", "age", 0.2),
        ("hospital", "diagnosis", "sex", 0.03),
        ("hospital", "diagnosis", "admission", 0.1),
    ],
)
def test_columns_depend_on_each_other(name: str, a: str, b: str, least: float) -> None:
    codes = sample(name)
    together = information(codes[a], codes[b])
    apart = information(codes[a], np.roll(codes[b], 1))  # rows are independent of each other
    assert together > least
    assert together > 3 * apart


# -- shape, batches, files ------------------------------------------------------------------------


@pytest.mark.parametrize("name", GENERATORS)
def test_rows_do_not_depend_on_batches(name: str) -> None:
    whole = pa.Table.from_batches(generate(name, 70_001, seed=3, batch_rows=70_001))
    for batch_rows in (997, 32_768, 50_000):
        batches = list(generate(name, 70_001, seed=3, batch_rows=batch_rows))
        assert {batch.num_rows for batch in batches[:-1]} == {batch_rows}
        assert pa.Table.from_batches(batches).combine_chunks().equals(whole.combine_chunks())
    start = pa.Table.from_batches(generate(name, 10, seed=3))
    assert start.to_pylist() == whole.slice(0, 10).to_pylist()


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("name", GENERATORS)
def test_tiny_tables(name: str, rows: int, tmp_path: Path) -> None:
    table = getattr(datasets, name)(rows, seed=1)
    assert table.num_rows == rows
    path = write_dataset(name, rows, tmp_path / "tiny.parquet", seed=1)
    assert pq.read_schema(path).equals(table.schema)
    assert pq.read_table(path).to_pylist() == table.to_pylist()


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", broken)
    with pytest.raises(DataError, match="disk full"):
        write_dataset("census", 10, tmp_path / "census.parquet", seed=4)
    assert list(tmp_path.iterdir()) == []


def test_wrong_usage(tmp_path: Path) -> None:
    path = tmp_path / "census.parquet"
    path.write_text("precious")
    with pytest.raises(DataError, match="exists already"):
        write_dataset("census", 10, path, seed=4)
    assert path.read_text() == "precious"
    with pytest.raises(DataError, match="Cannot write"):
        write_dataset("census", 10, path / "census.parquet", seed=4)
    for wrong in ({"name": "nobody", "rows": 1}, {"name": "census", "rows": -1},
                  {"name": "census", "rows": 1, "stays": 3},
                  {"name": "hospital", "rows": 1, "stays": 0}):  # fmt: skip
        with pytest.raises(UsageError):
            next(generate(seed=1, **wrong))


def test_rake_meets_both_margins_and_keeps_zeros() -> None:
    tilt = np.array([[[1.0, 2, 0], [3, 1, 1]], [[1, 1, 1], [0, 5, 1]]])
    cells = np.array([[0.2, 0.3], [0.5, 0.0]])
    wanted = np.array([0.3, 0.4, 0.3])
    shares = rake(tilt, cells, wanted)
    assert np.allclose(shares.sum(axis=-1), 1)
    assert np.allclose((cells[..., None] * shares).sum(axis=(0, 1)), wanted)
    assert shares[0, 0, 2] == 0
    odds = shares[0, 1, 0] * shares[1, 0, 1] / shares[0, 1, 1] / shares[1, 0, 0]
    assert odds == pytest.approx(3)  # raking keeps the odds ratios of the tilt
