"""Questions about one of several sensitive columns in shared buckets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf

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


def test_averages_of_everybody_scatter_and_may_be_near_zero(tmp_path: Path) -> None:
    """Everybody counts, with one number or another: the number of people is known, the sum not."""
    roles = {"quasi": "age,sex", "sensitive": "job", "drop": "school"}
    sf.publish(people(1), "rho-privacy(0.3, 0.7)", to=tmp_path / "r", mechanism="uniform", **roles)
    for other in (0, 1):
        case = f"AVG(CASE WHEN job = '1' THEN 3 ELSE {other} END)"
        (row,) = sf.open(tmp_path / "r").sql(f"SELECT {case} AS x FROM release").rows()
        assert row["x_low"] < row["x"] < row["x_high"] < 2
        assert row["x_stderr"] > 0
