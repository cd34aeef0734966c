"""Same seed, same bytes for any batches and threads; other key, other draws; people's draws."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines import spelling

ROWS = 60_000


@pytest.fixture(scope="module")
def wide_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Codes, texts, numbers, dates and nulls, over several row groups."""
    rng = np.random.default_rng(5)
    age = rng.integers(18, 90, ROWS)
    words = np.array([f"word {i}" for i in range(3000)])[rng.integers(0, 3000, ROWS)]
    few = np.array(["F", "M", "X"])[rng.integers(0, 3, ROWS)]
    data = pa.table(
        {
            "row": np.arange(ROWS),
            "age": age,
            "few": pa.array(few, mask=rng.random(ROWS) < 0.01),
            "words": words,
            "weight": rng.random(ROWS).astype(np.float32),
            "day": pa.array(rng.integers(0, 20_000, ROWS), pa.int32()).cast(pa.date32()),
            "disease": np.array([f"d{i:02d}" for i in range(20)])[rng.integers(0, 20, ROWS)],
        }
    )
    path = tmp_path_factory.mktemp("wide") / "people.parquet"
    pq.write_table(data, path, row_group_size=17_000)
    return path


def digest(folder: Path) -> str:
    content = hashlib.sha256()
    for path in sorted(folder.rglob("*.*")):
        content.update(path.name.encode() + b"\0" + path.read_bytes())
    return content.hexdigest()


def published(path: Path, to: Path, **options: Any) -> Path:
    table = sf.read(path, quasi="row,age,few,words,weight,day", sensitive="disease")
    sf.publish(table, "rho-privacy(0.1, 0.3)", to=to, mechanism="uniform", **options)
    return to


@pytest.mark.parametrize("rows", [spelling.ROW_GROUP, 7_000])
def test_same_seed_same_bytes(
    tmp_path: Path, wide_file: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(spelling, "ROW_GROUP", rows)
    digests = set()
    for number, (batch_rows, threads) in enumerate(
        [(10_000, 1), (10_000, 2), (1_000_000, 1), (1_000_000, 2), (777, 1)]
    ):
        place = published(
            wide_file, tmp_path / f"release{number}", seed=11,
            batch_rows=batch_rows, threads=threads,
        )  # fmt: skip
        digests.add(digest(place))
    assert len(digests) == 1
    other = published(wide_file, tmp_path / "other", seed=12)
    assert digest(other) not in digests
    parts = sorted(path.name for path in (other / "records").iterdir())
    assert len(parts) == -(-ROWS // (4 * rows))
    assert pq.read_table(other / "records").num_rows == ROWS


def disease(place: Path) -> np.ndarray:
    return pq.read_table(place / "records").column("disease").to_numpy()


def test_different_keys_are_independent(tmp_path: Path, wide_file: Path) -> None:
    """Two releases agree as often as two independent draws do, given the true value.

    5.5 standard deviations: a false alarm of 4e-8 each.
    """
    truth = pq.read_table(wide_file).column("disease").to_numpy()
    releases = [
        published(wide_file, tmp_path / "seed1", seed=1),
        published(wide_file, tmp_path / "seed2", seed=2),
        published(wide_file, tmp_path / "system1"),
        published(wide_file, tmp_path / "system2"),
    ]
    shown = [disease(release) for release in releases]
    manifest = sf.open(releases[0]).manifest
    p = float(manifest.plan.operators["disease"].retention)
    m = 20
    kept = p + (1 - p) / m
    both = kept**2 + (m - 1) * ((1 - p) / m) ** 2
    for i, one in enumerate(shown):
        assert abs((one == truth).mean() - kept) < 5.5 * np.sqrt(kept * (1 - kept) / ROWS)
        for other in shown[:i]:
            agree = (one == other).mean()
            assert abs(agree - both) < 5.5 * np.sqrt(both * (1 - both) / ROWS)


# -- key files: a person is published alike each time ---------------------------------------------


def by_person(place: Path) -> dict[int, str]:
    records = pq.read_table(place / "records")
    return dict(
        zip(records.column("id_copy").to_pylist(), records.column("s").to_pylist(), strict=True)
    )


def people_with_key(ids: list[int], values: list[str], kind: Any = None) -> pa.Table:
    # the copy of the key stands for quasi columns that tell people apart
    return pa.table({"id": pa.array(ids, kind), "id_copy": ids, "s": values})


def keyed(data: pa.Table, to: Path, key_file: Path, **options: Any) -> dict[int, str]:
    table = sf.read(data, quasi="id_copy", sensitive="s", key="id")
    sf.publish(
        table, "rho-privacy(0.15, 0.4)", to=to, mechanism="uniform", key_file=key_file, **options
    )
    assert sf.open(to).manifest.randomness == "key-file"
    return by_person(to)


def test_a_person_is_published_alike_each_time(tmp_path: Path, key_file: Path) -> None:
    rows = 6_000
    rng = np.random.default_rng(1)
    values = [f"v{i}" for i in rng.integers(0, 10, rows)]
    first = keyed(people_with_key(list(range(rows)), values), tmp_path / "one", key_file)
    # a year later: another order, newcomers, some left, and some have another value
    stay = rng.permutation(rows)[:5000].tolist()
    changed = set(stay[:1000])
    now = [f"v{(int(values[i][1:]) + 1) % 10}" if i in changed else values[i] for i in stay]
    new = list(range(rows, rows + 1000))
    data = people_with_key(stay + new, now + [f"v{i % 10}" for i in new])
    second = keyed(data, tmp_path / "two", key_file, batch_rows=999)
    same = [i for i in stay if i not in changed]
    assert all(first[i] == second[i] for i in same)
    # who changed gets a fresh draw: agreement as of independent draws, 5 sigma (6e-7)
    manifest = sf.open(tmp_path / "one").manifest
    p = float(manifest.plan.operators["s"].retention)
    q = (1 - p) / 10
    agree = np.mean([first[i] == second[i] for i in changed])
    expected = 2 * (p + q) * q + 8 * q * q
    assert abs(agree - expected) < 5 * np.sqrt(expected * (1 - expected) / len(changed))
