"""Completed tables: draws, permutations of lists, whole folders, Rubin's rules."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chisquare
from scipy.stats import t as student

import sfumato as sf
from sfumato.errors import DataError, QueryError, UsageError
from sfumato.queries import OpenedRelease
from sfumato.queries import complete as completing
from sfumato.queries.completion import drawn_values, swapped

ROWS = 900
VALUES = ["cold", "cough", "flu", "gout", "HIV", "none"]


def people() -> pa.Table:
    draw = np.random.default_rng(4)
    sex, age = draw.integers(0, 2, ROWS), draw.integers(20, 60, ROWS)
    disease = np.where(draw.random(ROWS) < 0.7, 3 * sex, 0) + draw.integers(0, 3, ROWS)
    return pa.table(
        {"sex": np.array(["F", "M"])[sex], "disease": np.array(VALUES)[disease], "age": age}
    )


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, OpenedRelease]:
    place = tmp_path_factory.mktemp("complete")
    found = {}
    for name, guarantee, mechanism in (
        ("uniform", "rho-privacy(0.3, 0.7)", "uniform"),
        ("partitioned", "rho-privacy(0.3, 0.7, reader=shares)", "partitioned"),
        ("splu", "small-sum(groups=2)", "splu"),
        ("buckets", "l-diversity(3)", "optimal"),
        ("local", "l-diversity(3)", "local(min=100)"),
        ("fakes", "l-diversity(3)", "optimal(fakes=1)"),
        ("sps", "reconstruction-privacy(0.3, 0.3)", "sps"),
        ("heterogeneous", "l-diversity(3)", "heterogeneous"),
    ):
        sf.publish(
            people(),
            guarantee,
            to=place / name,
            mechanism=mechanism,
            quasi=["sex", "age"],
            sensitive="disease",
            seed=2,
        )
        found[name] = sf.open(place / name, verify=False)
    return found


KINDS = ["uniform", "partitioned", "splu", "buckets", "local"]


@pytest.mark.parametrize("kind", KINDS)
def test_copies_have_the_columns_of_the_table_and_follow_the_release(releases, kind: str) -> None:
    copies = releases[kind].complete(3, seed=1)
    assert [copy.column_names for copy in copies] == [["sex", "age", "disease"]] * 3
    true = people().to_pandas()
    for copy in copies:
        frame = copy.to_pandas()
        assert sorted(zip(frame.sex, frame.age, strict=True)) == sorted(
            zip(true.sex, true.age, strict=True)
        )
    # men have the last three diseases; the copies know it from the release
    frames = [copy.to_pandas() for copy in copies]
    male = np.mean([frame.disease.isin(VALUES[3:])[frame.sex == "M"].mean() for frame in frames])
    female = np.mean([frame.disease.isin(VALUES[3:])[frame.sex == "F"].mean() for frame in frames])
    assert male - female > 0.3  # of 0.69; 0 if they knew nothing
    assert not copies[0].equals(copies[1])


@pytest.mark.parametrize("kind", ["buckets", "local"])
def test_a_bucket_gets_the_values_that_it_lists(
    releases, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completing, "_ROWS", 64)  # many pieces
    release = releases[kind]
    listed = pq.read_table(release.file("sensitive")).to_pandas()
    expected = {
        bucket: Counter(dict(zip(rows.disease, rows["count"], strict=True)))
        for bucket, rows in listed.groupby("bucket")
    }
    completion = completing.completion_of(
        release, 1, sf.Draws.from_seed(3), None, lambda *told: None
    )
    found: dict[int, Counter[str]] = {}
    seen = 0
    for records, values in completion.pieces():
        drawn = release.domain("disease").take(pa.array(values(0))).to_pylist()
        for bucket, value in zip(records.column("bucket").to_pylist(), drawn, strict=True):
            found.setdefault(bucket, Counter())[value] += 1
        seen += 1
    assert found == expected
    assert seen > 5


def test_the_same_seed_writes_the_same_files_and_nothing_else(releases, tmp_path: Path) -> None:
    one = releases["uniform"].complete(2, to=tmp_path / "one", seed=4)
    other = releases["uniform"].complete(2, seed=4)
    assert [pq.read_table(path).equals(table) for path, table in zip(one, other, strict=True)] == [
        True,
        True,
    ]
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "completed-1.parquet",
        "completed-2.parquet",
        "one",
    ]
    with pytest.raises(DataError, match="exists already"):
        releases["uniform"].complete(2, to=tmp_path / "one")


def test_nothing_is_left_where_writing_breaks(
    releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(completing, "values_given_symbols", broken)
    with pytest.raises(KeyboardInterrupt):
        releases["uniform"].complete(2, to=tmp_path / "copies")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("fakes", "list fakes"),
        ("sps", "copies of samples"),
        ("heterogeneous", "stand as they are"),
    ],
)
def test_what_cannot_be_completed_is_refused_in_a_sentence(
    releases, kind: str, reason: str
) -> None:
    with pytest.raises(QueryError, match=reason):
        releases[kind].complete(2)


def test_copies_are_counted(releases) -> None:
    with pytest.raises(UsageError, match="from 1 to 100"):
        releases["uniform"].complete(0)


def test_ways_are_drawn_in_proportion_to_their_weights() -> None:
    """3,000 matrices of 3 × 3; a right sampler fails here 1 time in 1,000."""
    draw = np.random.default_rng(8)
    weights = np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 1.0], [0.5, 1.0, 4.0]])
    found = swapped(np.repeat(np.log(weights)[None], 3_000, axis=0), draw.random)
    ways = list(permutations(range(3)))
    chances = np.array([math.prod(weights[r, way[r]] for r in range(3)) for way in ways])
    counts = Counter(map(tuple, found.tolist()))
    seen = np.array([counts[way] for way in ways])
    assert chisquare(seen, 3_000 * chances / chances.sum()).pvalue > 0.001


def test_values_are_drawn_in_proportion_to_their_chances() -> None:
    uniform = (np.arange(1_000) + 0.5) / 1_000
    found = drawn_values(np.tile([1.0, 0.0, 3.0], (1_000, 1)), uniform)
    assert np.bincount(found).tolist() == [250, 0, 750]


# -- Rubin's rules ---------------------------------------------------------------------------------


def test_rubins_rules_by_hand() -> None:
    """Variances 4 within and 2.5 between, five copies: T = 4 + 1.2 · 2.5."""
    found = sf.combine([10, 12, 11, 13, 9], [4] * 5)
    assert (found.value, found.within, found.between) == (11, 4, 2.5)
    assert found.stderr == pytest.approx(math.sqrt(7))
    assert found.freedom == pytest.approx(4 * (1 + 4 / 3) ** 2)
    assert found.high == pytest.approx(11 + student.ppf(0.975, found.freedom) * math.sqrt(7))
    small = sf.combine([10, 12, 11, 13, 9], [4] * 5, complete_freedom=20)
    assert small.freedom < found.freedom
    exact = sf.combine([10, 12, 11, 13, 9])
    assert exact.freedom == pytest.approx(4)
    assert sf.combine([5, 5], [1, 1]).freedom == math.inf
    assert sf.combine([5, 5]).stderr == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([1.0],), "at least two"),
        (([1.0, 2.0], [1.0]), "2 estimates but 1"),
        (([1.0, 2.0], [1.0, -1.0]), "not negative"),
        (([1.0, math.nan],), "finite numbers"),
    ],
)
def test_what_cannot_be_combined_is_refused(given, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sf.combine(*given)
