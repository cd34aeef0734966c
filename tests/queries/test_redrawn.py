"""Values drawn anew tell how many have a value, and of a condition only what is possible."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf

DRAW = np.random.default_rng(4)
AGES = DRAW.integers(20, 80, 2_000)
ILL = np.where(DRAW.random(2_000) < np.where(AGES > 60, 0.5, 0.05), "flu", "none")


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    place = tmp_path_factory.mktemp("redrawn") / "release"
    sf.publish(
        pa.table({"age": AGES, "ill": ILL}),
        "rho-privacy(0.3, 0.6)",
        to=place,
        mechanism="resample",
        quasi="age",
        sensitive="ill",
        seed=2,
    )
    return sf.open(place)


def row(release, sql):
    with pytest.warns(sf.errors.WeakPromiseWarning, match="all that is possible"):
        (found,) = release.sql(sql).rows()
    return found


def test_everybody_is_known_up_to_the_draws(release):
    found = row(release, "SELECT COUNT(*) AS n FROM release WHERE ill = 'flu'")
    assert found["n_stderr"] is None
    share = found["n"] / 2_000
    half = 1.96 * (2_000 * share * (1 - share)) ** 0.5
    assert found["n_high"] - found["n_low"] == pytest.approx(2 * half, rel=0.02)
    assert found["n_low"] <= (ILL == "flu").sum() <= found["n_high"]


@pytest.mark.parametrize(("low", "high"), [(61, 79), (20, 60), (20, 24), (20, 78)])
def test_a_condition_ends_at_what_is_possible(release, low, high):
    """Half of the old have the flu, where the release shows a sixth of everybody."""
    where = f"age BETWEEN {low} AND {high}"
    inside = (low <= AGES) & (high >= AGES)
    for ill in ("flu", "none"):
        found = row(release, f"SELECT COUNT(*) AS n FROM release WHERE {where} AND ill = '{ill}'")
        everybody = row(release, f"SELECT COUNT(*) AS n FROM release WHERE ill = '{ill}'")
        matching = int(inside.sum())
        assert found["n_high"] == pytest.approx(min(matching, everybody["n_high"]))
        least = max(matching - (2_000 - everybody["n_low"]), 0.0)
        assert found["n_low"] == pytest.approx(min(least, found["n"]))
        assert found["n_low"] <= (inside & (ill == ILL)).sum() <= found["n_high"]


def test_sums_and_averages_have_no_interval(release):
    found = row(release, "SELECT SUM(age) AS s, AVG(age) AS a FROM release WHERE ill = 'flu'")
    assert {found[f"{name}{end}"] for name in "sa" for end in ("_stderr", "_low", "_high")} == {
        None
    }
    assert found["a"] > 0
