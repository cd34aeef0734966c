"""Questions about one of several sensitive columns in shared buckets, and about several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SingularOperator, WeakPromiseWarning
from sfumato.operators import marks
from sfumato.queries import bucketed

ROWS = 3000
ROLES = {"quasi": "age,sex", "sensitive": "job,school"}


def people(seed: int) -> pa.Table:
    """Both sensitive columns go with age, and with each other."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 60, ROWS)
    job = (rng.integers(0, 8, ROWS) + (age > 40) * rng.integers(0, 3, ROWS)) % 8
    school = (job + rng.integers(0, 5, ROWS)) % 6
    sex = rng.choice(["F", "M"], ROWS)
    return pa.table({"age": age, "sex": sex, "job": job.astype(str), "school": school.astype(str)})


def test_intervals_about_one_of_two_columns_hold_and_tell_something(tmp_path: Path) -> None:
    """Intervals are of 95 %. If the answers were independent, of 200 or more fewer than 90 % would
    hold with a chance below 0.003; those of one publication go together, so it is seeded."""
    held, widths = [], []
    for seed in range(3):
        table, to = people(seed), tmp_path / str(seed)
        sf.publish(table, "l-diversity(3)", to=to, mechanism="optimal", seed=seed, **ROLES)
        release, raw = sf.open(to), table.to_pandas()
        for low in range(20, 60, 8):
            group = raw[(raw.age >= low) & (raw.age < low + 16)]
            for name in ("job", "school"):
                sql = (
                    f"SELECT {name}, COUNT(*) AS n FROM release "
                    f"WHERE age >= {low} AND age < {low + 16} GROUP BY {name}"
                )
                for row in release.sql(sql).rows():
                    truth = (group[name] == row[name]).sum()
                    held.append(row["n_low"] - 1e-6 <= truth <= row["n_high"] + 1e-6)
                    widths.append((row["n_high"] - row["n_low"]) / len(group))
    assert len(held) >= 200
    assert np.mean(held) >= 0.9
    assert np.mean(widths) <= 0.5


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> sf.OpenedRelease:
    to = tmp_path_factory.mktemp("several") / "release"
    sf.publish(people(7), "l-diversity(3)", to=to, mechanism="optimal", seed=7, **ROLES)
    return sf.open(to)


def counts(release: sf.OpenedRelease, keys: str, where: str = "age < 40") -> dict[Any, Any]:
    """By key: the answer's row."""
    sql = f"SELECT {keys}, COUNT(*) AS n FROM release WHERE {where} GROUP BY {keys}"
    names = [name.strip() for name in keys.split(",")]
    return {tuple(row[name] for name in names): row for row in release.sql(sql).rows()}


def test_single_questions_groups_and_cross_tables_agree(shared: sf.OpenedRelease) -> None:
    """What is asked of both columns adds up to what is asked of one, because there is one law: but
    for parts of a standard error, by which answers that cannot be are moved."""
    both, jobs = counts(shared, "job, school"), counts(shared, "job")
    table = shared.crosstab("job", "school", where="age < 40").table.to_pylist()
    assert {(row["job"], row["school"]): row["count"] for row in table if row["count"]} == {
        key: row["n"] for key, row in both.items() if row["n"]
    }
    for (job,), row in jobs.items():
        together = sum(cell["n"] for key, cell in both.items() if key[0] == job)
        assert abs(together - row["n"]) <= 0.2 * row["n_stderr"]
        sql = f"SELECT COUNT(*) AS n FROM release WHERE age < 40 AND job = '{job}'"
        (single,) = shared.sql(sql).rows()
        assert single["n"] == pytest.approx(row["n"], abs=0.2 * row["n_stderr"])
        assert (single["n_low"], single["n_high"]) == pytest.approx(
            (row["n_low"], row["n_high"]), rel=1e-6
        )


def test_nothing_that_is_estimated_is_shown_as_known(shared: sf.OpenedRelease) -> None:
    table = people(7).to_pandas()
    known = 0
    for keys in ("sex, job", "age, school", "age, job, school"):
        truth = table.groupby([name.strip() for name in keys.split(",")]).size()
        for key, row in counts(shared, keys, "age > 20").items():
            if row["n_high"] - row["n_low"] < 1e-6:
                known += 1
                assert row["n"] == pytest.approx(truth.get(key, 0) if key[0] != 20 else 0)
    assert known < 500


def test_unbiased_is_unbiased_or_refused(tmp_path: Path) -> None:
    """Four combinations in many buckets: over 12 releases the mean is within 4 standard errors."""
    rng, errors, told = np.random.default_rng(3), [], []
    age = rng.integers(20, 60, ROWS)
    job = rng.integers(0, 3, ROWS)
    school = np.where(rng.random(ROWS) < 0.8, job, rng.integers(0, 3, ROWS))
    roles = {**ROLES, "quasi": "age"}
    table = pa.table({"age": age, "job": job.astype(str), "school": school.astype(str)})
    sql = "SELECT COUNT(*) AS n FROM release WHERE age < 35 AND school = '1'"
    for seed in range(12):
        to = tmp_path / str(seed)
        sf.publish(table, "l-diversity(2)", to=to, mechanism="optimal", seed=seed, **roles)
        (row,) = sf.open(to).sql(sql, estimator="inverse").rows()
        errors.append(row["n"] - ((age < 35) & (school == 1)).sum())
        told.append(row["n_stderr"])
    assert abs(np.mean(errors)) < 4 * np.mean(told) / np.sqrt(12)
    assert 0.4 < np.std(errors) / np.mean(told) < 1.8  # 12 draws: 0.1 % on either side


def test_unbiased_is_refused_where_combinations_are_not_told_apart(
    shared: sf.OpenedRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucketed, "MOST_TOGETHER", 20)
    sql = "SELECT COUNT(*) AS n FROM release WHERE job = '1' AND age < 40"
    with pytest.raises(SingularOperator, match=r"combinations .* 'shrunk'"):
        shared.sql(sql, estimator="inverse")


def test_too_many_marks_are_said_to_be_too_many(
    shared: sf.OpenedRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "MOST_MARKS", 10)
    sql = "SELECT COUNT(*) AS n FROM release WHERE job = '1' AND age < 40"
    with pytest.warns(WeakPromiseWarning, match="what is possible"):
        (row,) = sf.open(shared.path).sql(sql).rows()
    assert row["n_low"] <= row["n"] <= row["n_high"]


def test_averages_of_everybody_scatter_and_may_be_near_zero(tmp_path: Path) -> None:
    """Everybody counts, with one number or another: the number of people is known, the sum not."""
    roles = {"quasi": "age,sex", "sensitive": "job", "drop": "school"}
    sf.publish(people(1), "rho-privacy(0.3, 0.7)", to=tmp_path / "r", mechanism="uniform", **roles)
    for other in (0, 1):
        case = f"AVG(CASE WHEN job = '1' THEN 3 ELSE {other} END)"
        (row,) = sf.open(tmp_path / "r").sql(f"SELECT {case} AS x FROM release").rows()
        assert row["x_low"] < row["x"] < row["x_high"] < 2
        assert row["x_stderr"] > 0
