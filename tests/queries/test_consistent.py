"""Consistent tables: never negative, adding up to what is known."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import QueryError
from sfumato.operators import Uniform
from sfumato.operators.reconstruct import added_up, nearest_parts, nearest_possible
from sfumato.queries import OpenedRelease, ask, reconstructed

from .conftest import MakeRelease

SIZE = 60


@pytest.fixture
def noisy(make_release: MakeRelease) -> OpenedRelease:
    """Three groups of 60 people; estimates of the rare values are often negative."""
    random = np.random.default_rng(8)
    table = pa.table(
        {
            "g": np.repeat(["a", "b", "c"], SIZE),
            "age": random.integers(20, 60, 3 * SIZE),
            "s": np.array(["v", "w", "x", "y", "z"])[random.integers(0, 5, 3 * SIZE)],
            "t": random.integers(0, 3, 3 * SIZE),
        }
    )
    operators = {"s": Uniform(5, Fraction(1, 4)), "t": Uniform(3, Fraction(1, 2))}
    return make_release(table, ["s", "t"], operators)


def test_groups_are_non_negative_and_add_up(noisy: OpenedRelease) -> None:
    sql = "SELECT g, s, t, COUNT(*) AS n FROM release GROUP BY g, s, t"
    plain, nearest = ask(noisy, sql).rows(), ask(noisy, sql, consistent=True).rows()
    assert min(row["n"] for row in plain) < 0
    assert min(row["n"] for row in nearest) == 0
    for group in "abc":
        total = sum(row["n"] for row in nearest if row["g"] == group)
        assert total == pytest.approx(SIZE)
    for one, other in zip(plain, nearest, strict=True):
        assert other["n_stderr"] == pytest.approx(one["n_stderr"])
        low = other["n"] - 1.959964 * one["n_stderr"]
        assert other["n_low"] == pytest.approx(max(0, low), abs=1e-4)
        assert [one["g"], one["s"], one["t"]] == [other["g"], other["s"], other["t"]]


def test_conditions_read_the_projected_table(noisy: OpenedRelease) -> None:
    cells = ask(
        noisy,
        "SELECT g, s, COUNT(*) AS n FROM release WHERE age > 30 GROUP BY g, s",
        consistent=True,
    ).rows()
    asked = ask(
        noisy,
        "SELECT g, COUNT(*) FILTER (WHERE s = 'v') AS v, COUNT(*) AS n FROM release "
        "WHERE age > 30 AND s IN ('v', 'w') GROUP BY g HAVING n > 0 ORDER BY g DESC",
        consistent=True,
    ).rows()
    assert [row["g"] for row in asked] == ["c", "b", "a"]
    for row in asked:
        own = {cell["s"]: cell["n"] for cell in cells if cell["g"] == row["g"]}
        assert row["v"] == pytest.approx(own["v"])
        assert row["n"] == pytest.approx(own["v"] + own["w"])


def test_one_number_and_no_sensitive_column_work_too(noisy: OpenedRelease) -> None:
    assert ask(noisy, "SELECT COUNT(*) FROM release WHERE s = 'v'", consistent=True).value >= 0
    assert ask(noisy, "SELECT COUNT(*) FROM release", consistent=True).value == 3 * SIZE
    nobody = ask(noisy, "SELECT COUNT(*) FROM release WHERE s = 'v' AND age > 99", consistent=True)
    assert (nobody.value, nobody.stderr) == (0, 0)


def test_sums_add_up_too(noisy: OpenedRelease) -> None:
    """Over the values to the sum that is known, over groups to the condition's own answer."""
    sql = "SELECT g, s, SUM(age) AS x, COUNT(*) AS n FROM release WHERE age > 25 GROUP BY g, s"
    rows = ask(noisy, sql, consistent=True, estimator="inverse").rows()
    for group in "abc":
        total = ask(noisy, f"SELECT SUM(age) FROM release WHERE age > 25 AND g = '{group}'").value
        assert sum(row["x"] for row in rows if row["g"] == group) == pytest.approx(total)
    whole = "SELECT s, SUM(age) AS x FROM release WHERE age > 25 GROUP BY s"
    for one in ask(noisy, whole, consistent=True).rows():
        parts = sum(row["x"] for row in rows if row["s"] == one["s"])
        assert parts == pytest.approx(one["x"])
    assert min(row["x"] for row in rows) < 0  # amounts may be: nothing is cut off
    assert min(row["x_low"] for row in rows) < 0
    assert min(row["n"] for row in rows) == 0


def test_sums_of_shrunk_groups_are_moved_to_their_whole(tmp_path: Path) -> None:
    """Groups are shrunk by themselves, so that they do not add up unless they are made to."""
    draw = np.random.default_rng(3)
    table = pa.table(
        {
            "g": np.array(["a", "b"])[draw.integers(0, 2, 400)],
            "age": draw.integers(20, 60, 400),
            "s": np.array(["v", "w", "x", "y", "z"])[draw.integers(0, 5, 400)],
        }
    )
    sf.publish(
        table,
        "l-diversity(2)",
        to=tmp_path / "r",
        mechanism="optimal",
        quasi=["g", "age"],
        sensitive="s",
        seed=1,
    )
    release = sf.open(tmp_path / "r")
    parts = "SELECT g, SUM(age) AS x FROM release WHERE s = 'v' GROUP BY g"
    whole = release.sql("SELECT SUM(age) AS x FROM release WHERE s = 'v'").rows()[0]["x"]
    plain = sum(row["x"] for row in release.sql(parts).rows())
    moved = sum(row["x"] for row in release.sql(parts, consistent=True).rows())
    assert plain != pytest.approx(whole, rel=1e-6)
    assert moved == pytest.approx(whole, rel=1e-9)
    with pytest.raises(QueryError, match="too many to be made consistent"):
        reconstructed._amounts(np.zeros((3_000, 5)), np.zeros(3_000), np.zeros((1, 5)), np.ones(3))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(2, 5))
def test_amounts_are_the_nearest_that_add_up(seed: int, parts: int, values: int) -> None:
    """A twin: the projection by the equations' pseudo-inverse, written out; one cell cannot be."""
    draw = np.random.default_rng(seed)
    estimates, weights = draw.normal(0, 30, (parts, values)), draw.random(parts) + 0.1
    totals = draw.normal(0, 50, parts)
    if parts > 1:
        estimates[0, 0] = -np.inf
    together = draw.normal(0, 30, values)
    together[-1] += totals.sum() - together.sum()
    found = added_up(estimates, totals, together, weights)
    there = np.isfinite(estimates).ravel()
    rows = np.kron(np.eye(parts), np.ones(values))
    columns = np.kron(np.ones(parts), np.eye(values))
    margins = np.concatenate([rows, columns])[:, there]
    start = estimates.ravel()[there]
    wide = np.repeat(weights, values)[there]
    lacking = np.concatenate([totals, together]) - margins @ start
    expected = start + wide * (margins.T @ np.linalg.pinv((margins * wide) @ margins.T) @ lacking)
    assert found.ravel()[there] == pytest.approx(expected, abs=1e-6)
    assert not found.ravel()[~there].any()


def test_empty_groups_of_a_consistent_table_can_be_shown(noisy: OpenedRelease) -> None:
    sql = "SELECT s, g, COUNT(*) FROM release WHERE g = 'a' GROUP BY s, g"
    rows = ask(noisy, sql, consistent=True, keys=True).rows()
    assert len(rows) == 15
    assert all(row["count"] == 0 for row in rows if row["g"] != "a")


def test_with_the_identity_operator_it_changes_nothing(release: OpenedRelease) -> None:
    for sql in (
        "SELECT disease, COUNT(*) FROM release GROUP BY disease",
        "SELECT city, disease, COUNT(*) FROM release WHERE cost > 10 GROUP BY 1, 2",
        "SELECT upper(disease) AS d, COUNT(*) FROM release WHERE age > 30 GROUP BY d",
    ):
        assert ask(release, sql, consistent=True).rows() == ask(release, sql).rows()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT AVG(age) FROM release",
            'A consistent answer is not possible for avg("age"): only COUNT(*) and SUM add up over '
            "groups. Ask for COUNT(*) and SUM, or leave `consistent` out.",
        ),
        (
            "SELECT COUNT(*) FROM release WHERE age > 3 OR disease = 'flu'",
            'A consistent answer is not possible for the condition "age" > 3 OR "disease" = '
            "'flu': it mixes quasi and sensitive columns. Join conditions on either by AND, or "
            "leave `consistent` out.",
        ),
        (
            "SELECT COUNT(*) FILTER (WHERE age > 3) FROM release",
            'A consistent answer is not possible for the FILTER "age" > 3: it has to use '
            "sensitive columns alone. Move it into WHERE, or leave `consistent` out.",
        ),
        (
            "SELECT COUNT(*) FROM release GROUP BY age + cost",
            'A consistent answer is not possible for the key "age" + "cost": it mixes quasi and '
            "sensitive columns. Group by columns of either, or leave `consistent` out.",
        ),
    ],
)
def test_what_cannot_be_consistent_is_refused(
    sql: str, message: str, release: OpenedRelease
) -> None:
    with pytest.raises(QueryError) as caught:
        ask(release, sql, consistent=True)
    assert str(caught.value) == message


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.floats(-50, 50, allow_subnormal=False)),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.integers(0, 60), min_size=4, max_size=4),
)
def test_projection_is_the_nearest_point(cells: list[tuple[int, float]], sizes: list[int]) -> None:
    """Groups of different lengths: −∞ stands where a group has no cell."""
    groups = np.array([group for group, _ in cells])
    estimates = np.array([value for _, value in cells])
    whole = np.full((4, len(cells)), -np.inf)
    whole[groups, np.arange(len(cells))] = estimates
    known = np.unique(groups)
    found = nearest_possible(whole[known], np.array(sizes, dtype=float)[known])
    assert not found[whole[known] == -np.inf].any()
    nearest = found[np.searchsorted(known, groups), np.arange(len(cells))]
    for group in set(groups.tolist()):
        own, size = estimates[groups == group], float(sizes[group])
        assert nearest[groups == group].min() >= 0
        assert nearest[groups == group].sum() == pytest.approx(size, abs=1e-9)
        if size:
            shift = scipy.optimize.brentq(
                lambda t, own=own, size=size: np.maximum(own - t, 0).sum() - size,
                own.min() - size - 1,
                own.max(),
            )
            np.testing.assert_allclose(
                nearest[groups == group], np.maximum(own - shift, 0), atol=1e-6
            )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(2, 5))
def test_parts_are_the_nearest_that_add_up(seed: int, parts: int, values: int) -> None:
    """A twin: bounded least squares with the sums as heavy equations."""
    draw = np.random.default_rng(seed)
    totals = draw.integers(1, 60, parts).astype(float)
    together = draw.dirichlet(np.ones(values)) * totals.sum()
    estimates = draw.normal(totals[:, None] / values, 25, (parts, values))
    found = nearest_parts(estimates, totals, together)
    assert found.min() >= 0
    assert found.sum(axis=1) == pytest.approx(totals)
    assert found.sum(axis=0) == pytest.approx(together, abs=1e-6)
    rows = np.kron(np.eye(parts), np.ones(values))
    columns = np.kron(np.ones(parts), np.eye(values))
    root = np.repeat(1 / np.sqrt(totals), values)
    twin = scipy.optimize.lsq_linear(
        np.vstack([np.diag(root), 1e4 * rows, 1e4 * columns]),
        np.r_[root * estimates.ravel(), 1e4 * totals, 1e4 * together],
        bounds=(0, np.inf),
        tol=1e-14,
        max_iter=2_000,
    ).x
    far = [((each - estimates.ravel()) ** 2 * root**2).sum() for each in (found.ravel(), twin)]
    assert far[0] <= far[1] * (1 + 1e-4) + 1e-4


def test_parts_of_a_condition_add_up_to_its_answer(noisy: OpenedRelease) -> None:
    for parts in ("g", "g, age // 10"):
        by_part = ask(
            noisy,
            f"SELECT {parts}, s, COUNT(*) AS n FROM release WHERE age > 25 GROUP BY {parts}, s",
            consistent=True,
        ).rows()
        whole = ask(
            noisy,
            "SELECT s, COUNT(*) AS n FROM release WHERE age > 25 GROUP BY s",
            consistent=True,
        ).rows()
        assert min(row["n"] for row in by_part) >= 0
        for row in whole:
            added = sum(each["n"] for each in by_part if each["s"] == row["s"])
            assert added == pytest.approx(row["n"], abs=1e-6)


@pytest.mark.parametrize("estimator", ["shrunk", "inverse", "uniform", "model"])
def test_buckets_add_up_with_every_estimator(estimator: str, tmp_path) -> None:
    draw = np.random.default_rng(5)
    table = pa.table(
        {
            "g": np.array(["a", "b", "c"])[draw.integers(0, 3, 900)],
            "s": [f"v{each}" for each in draw.choice(6, 900, p=[0.3, 0.25, 0.2, 0.15, 0.07, 0.03])],
        }
    )
    roles = {"quasi": "g", "sensitive": "s", "mechanism": "optimal"}  # no model knows blocks
    sf.publish(table, "l-diversity(3)", to=tmp_path / "r", seed=3, **roles)
    release = sf.open(tmp_path / "r")
    asked = {"estimator": estimator, "consistent": True}
    by_part = release.sql("SELECT g, s, COUNT(*) AS n FROM release GROUP BY g, s", **asked).rows()
    whole = release.sql("SELECT s, COUNT(*) AS n FROM release GROUP BY s", **asked).rows()
    assert min(row["n"] for row in by_part) >= 0
    for row in whole:
        added = sum(each["n"] for each in by_part if each["s"] == row["s"])
        assert added == pytest.approx(row["n"], abs=1e-6)
