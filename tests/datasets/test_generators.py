"""Generated tables: the promised margins, real dependence, and rows that only the seed moves.

Chi-square tests run on fixed seeds with a false-alarm probability of 1e-6 each.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from sfumato import datasets
from sfumato.datasets import GENERATORS, generate, schema, write_dataset
from sfumato.datasets.network import Network, rake
from sfumato.draws import Draws
from sfumato.errors import DataError, UsageError

FALSE_ALARM = 1e-6
ROWS = 400_000


@cache
def sample(name: str) -> dict[str, np.ndarray]:
    return GENERATORS[name].network().codes(Draws.from_seed(20), 0, ROWS)


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
    return GENERATORS[name].network().column(column).values


# -- laws ---------------------------------------------------------------------------------------


def test_census_occupation_has_the_papers_margin() -> None:
    expected = np.geomspace(0.075, 0.0018, 50)
    observed = np.bincount(sample("census")["occupation"], minlength=50)
    assert tail_of(observed, expected / expected.sum() * ROWS) > FALSE_ALARM
    assert observed[0] / ROWS == pytest.approx(0.075, rel=0.03)
    assert observed[-1] / ROWS == pytest.approx(0.0018, rel=0.2)


@pytest.mark.parametrize("name", GENERATORS)
def test_every_column_follows_its_shares_given_its_parents(name: str) -> None:
    network, codes = GENERATORS[name].network(), sample(name)
    for column in network.columns:
        shares = column.shares.reshape(-1, len(column.values))
        # the row of the table is worked out again, with numpy's own order of axes
        groups = [parent.groups[codes[parent.column]] for parent in column.parents]
        sizes = [parent.size for parent in column.parents]
        cells = np.ravel_multi_index(groups, sizes) if groups else np.zeros(ROWS, np.int64)
        size = len(column.values)
        flat = cells * size + codes[column.name]
        observed = np.bincount(flat, minlength=shares.size)
        expected = (np.bincount(cells, minlength=len(shares))[:, None] * shares).reshape(-1)
        assert not observed[expected == 0].any(), f"{column.name}: an impossible value occurs"
        # the parents are conditioned on, so the true degrees of freedom are fewer and the false
        # alarm rarer than stated; a wrong table moves the statistic by orders of magnitude
        assert tail_of(observed, expected) > FALSE_ALARM, column.name


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


def test_census_is_plausible() -> None:
    codes = sample("census")
    age = codes["age"] + 16
    assert (age.min(), age.max()) == (16, 93)
    single = codes["marital"] == values_of("census", "marital").index("never married")
    assert single[age < 20].mean() > 0.9 > 0.1 > single[age > 65].mean()
    doctors = codes["occupation"] == values_of("census", "occupation").index("physician")
    schooling = np.array(values_of("census", "education"))[codes["education"]]
    assert np.median(schooling[doctors]) >= 14 > np.median(schooling)
    home = codes["country"] == values_of("census", "country").index("United States")
    assert 0.85 < home.mean() < 0.9
    sizes = {name: len(values_of("census", name)) for name in ("marital", "race", "workclass")}
    assert sizes == {"marital": 6, "race": 9, "workclass": 7}
    assert len(set(values_of("census", "country"))) == 69
    assert len(set(values_of("census", "occupation"))) == 50


def test_hospital_holds_no_impossible_person() -> None:
    codes = sample("hospital")
    chapter = np.array([name[0] for name in values_of("hospital", "diagnosis")])
    letters = chapter[codes["diagnosis"]]
    women = codes["sex"] == 0
    assert women[letters == "O"].all()
    assert set(codes["age"][letters == "P"]) == {0}
    births = codes["admission"] == values_of("hospital", "admission").index("birth")
    assert set(codes["age"][births]) == {0}
    assert set(letters[births]) == {"P", "Q"}


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


@pytest.mark.parametrize("name", GENERATORS)
def test_seed_decides(name: str) -> None:
    first, again, other = (
        pa.Table.from_batches(generate(name, 500, seed=seed)) for seed in (1, 1, 2)
    )
    assert first.equals(again)
    assert not first.equals(other)


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("name", GENERATORS)
def test_tiny_tables(name: str, rows: int, tmp_path: Path) -> None:
    table = getattr(datasets, name)(rows, seed=1)
    assert table.num_rows == rows
    assert table.schema == schema(name)
    path = write_dataset(name, rows, tmp_path / "tiny.parquet", seed=1)
    assert pq.read_table(path).to_pylist() == table.to_pylist()
    assert pq.read_schema(path).equals(schema(name))


def test_written_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "ROW_GROUP", 20_000)
    path = write_dataset("census", 50_000, tmp_path / "census.parquet", seed=4)
    file = pq.ParquetFile(path)
    groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
    assert sum(group.num_rows for group in groups) == 50_000
    encodings = groups[0].column(7)
    assert encodings.path_in_schema == "occupation"
    assert encodings.compression == "SNAPPY"
    assert "RLE_DICTIONARY" in encodings.encodings
    assert pq.read_table(path).to_pylist() == datasets.census(50_000, seed=4).to_pylist()
    assert [p.name for p in tmp_path.iterdir()] == ["census.parquet"]


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Network, draws: Draws, start: int, count: int) -> pa.RecordBatch:
        raise OSError("disk full")

    monkeypatch.setattr(Network, "batch", broken)
    with pytest.raises(DataError, match="disk full"):
        write_dataset("census", 10, tmp_path / "census.parquet", seed=4)
    assert list(tmp_path.iterdir()) == []


def test_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "census.parquet"
    path.write_text("precious")
    with pytest.raises(DataError, match="exists already"):
        write_dataset("census", 10, path, seed=4)
    assert path.read_text() == "precious"
    write_dataset("census", 10, path, seed=4, overwrite=True)
    assert pq.read_metadata(path).num_rows == 10


def test_unwritable_place(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"let its name end in .parquet"):
        write_dataset("census", 10, tmp_path / "census.csv", seed=4)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match="Check that the folder exists"):
        write_dataset("census", 10, tmp_path / "missing" / "census.parquet", seed=4)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="Cannot write"):
        write_dataset("census", 10, tmp_path / "file" / "census.parquet", seed=4)


def test_wrong_usage() -> None:
    with pytest.raises(UsageError, match=r"no dataset 'nobody'. There are: census, hospital"):
        generate("nobody", 1, seed=1)
    with pytest.raises(UsageError, match="'rows' parameter"):
        generate("census", -1, seed=1)
    with pytest.raises(UsageError, match="'batch_rows' parameter"):
        generate("census", 1, seed=1, batch_rows=0)
    with pytest.raises(UsageError, match=r"'census' has no parameter 'values'. It has: none"):
        generate("census", 1, seed=1, values=3)
    for stays in (0, 1.5, "x", 1 << 17):
        with pytest.raises(UsageError, match="'stays' parameter of hospital must be"):
            generate("hospital", 1, seed=1, stays=stays)


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


def test_import_is_light() -> None:
    heavy = "[m for m in ('numpy', 'pyarrow', 'scipy', 'duckdb') if m in sys.modules]"
    code = f"import sys, sfumato.errors; before = {heavy}; import sfumato.datasets; " + (
        f"sys.exit(before != {heavy})"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
