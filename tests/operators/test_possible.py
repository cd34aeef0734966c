"""No answer is outside what is possible, whatever the table, the release and the question."""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf

RELEASES = {
    "uniform": "rho-privacy(0.4, 0.6)",
    "fine-grain": "fine-rho-privacy(theta=2)",
    "partitioned": "rho-privacy(0.4, 0.6)",
    "splu": "small-sum(2)",
    "sps(merge=none)": "reconstruction-privacy(0.3, 0.3)",
    "optimal": "l-diversity(2)",
    "optimal(fakes=1)": "l-diversity(2)",
    "optimal(objective=two-size)": "l-diversity(2)",
    "optimal(objective=multi-size)": "l-diversity(2)",
    "local(min=60)": "l-diversity(2)",
    "heterogeneous": "l-diversity(2)",
    "ring": "l-diversity(2)",
    "burel": "beta-likeness(1)",
}
SEVERAL = ("uniform", "fine-grain", "splu", "optimal", "local(min=60)")
RANGES = ("heterogeneous", "ring", "burel")
KNOWN = (
    "optimal",
    "optimal(objective=two-size)",
    "optimal(objective=multi-size)",
    "local",
    *RANGES,
)  # shows how many have a value
CONDITIONS = ("age >= 0", "age < 30", "sex = 'F'", "age BETWEEN 25 AND 44 AND sex = 'M'")
VALUES = ("ill = 'i1'", "ill IN ('i0', 'i2')", "ill <> 'i3'", "ill = 'i1' AND job = 'a'")
KEYS = ("sex", "age // 10", "sex, age // 20")
ROUNDING = 1e-6


def people(seed: int) -> pa.Table:
    """Some hundred people, whose illness goes more or less with age and sex, and work with it."""
    draw = np.random.default_rng(seed)
    rows, values = int(draw.integers(120, 400)), int(draw.integers(4, 8))
    age, sex = draw.integers(20, 60, rows), draw.choice(["F", "M"], rows)
    shares = draw.dirichlet(np.full(values, 5.0))
    tilt = np.exp(draw.normal(0, draw.uniform(0, 2), (2, values)))
    chances = shares * np.where((age < 35)[:, None], tilt[0], tilt[1])
    chances = np.clip(chances / chances.sum(axis=1, keepdims=True), 0.02, 0.3)
    ill = np.array([draw.choice(values, p=each / each.sum()) for each in chances])
    job = np.array(list("abc"))[(ill + draw.integers(0, 2, rows)) % 3]
    return pa.table({"age": age, "sex": sex, "ill": [f"i{value}" for value in ill], "job": job})


def inside(row: dict[str, float], name: str, least: float, most: float) -> None:
    """An answer and its interval, if there are any."""
    if row[name] is not None:
        ends = [least, row[f"{name}_low"], row[name], row[f"{name}_high"], most]
        assert all(low <= high + ROUNDING for low, high in pairwise(ends)), (name, ends)


def added(rows: list[dict[str, Any]], key: str) -> dict[str, float]:
    """What the counts of every key add up to."""
    totals: dict[str, float] = {}
    for row in rows:
        totals[row[key]] = totals.get(row[key], 0.0) + row["n"]
    return totals


@pytest.mark.parametrize(
    ("mechanism", "several"),
    [*((name, False) for name in RELEASES), *((name, True) for name in SEVERAL)],
)
@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
@settings(max_examples=3, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    condition=st.sampled_from(CONDITIONS),
    value=st.sampled_from(VALUES),
    key=st.sampled_from(KEYS),
)
def test_answers_are_possible(
    mechanism: str, several: bool, seed: int, condition: str, value: str, key: str
) -> None:
    table, ranges = people(seed), mechanism in RANGES
    columns = ["ill", "job"] if several else ["ill"]
    value = value if several else value.replace("job = 'a'", "age < 40")
    table = table.select(["age", "sex", *columns])
    with tempfile.TemporaryDirectory() as folder:
        try:
            sf.publish(table, RELEASES[mechanism], to=Path(folder, "r"), mechanism=mechanism,
                       quasi=["age", "sex"], sensitive=columns, seed=seed)  # fmt: skip
        except sf.InfeasibleGuarantee:
            return
        release = sf.open(Path(folder, "r"))

        def ask(select: str, rest: str = "", where: str = condition) -> list[dict[str, Any]]:
            return list(release.sql(f"SELECT {select} FROM release WHERE {where} {rest}").rows())

        (whole,) = ask("COUNT(*) AS n")
        by_value = ask("ill, COUNT(*) AS n", "GROUP BY ill")
        value = "ill = 'i1'" if ranges and "age" in value else value  # not both in one condition
        share = f"COUNT(*) FILTER (WHERE {value}) / COUNT(*)"
        ratio = f"COUNT(*) FILTER (WHERE {value}) / COUNT(*) FILTER (WHERE ill = 'i0')"
        parts = ask(f"{share} AS s, {ratio} AS r")
        totals = Counter(table["ill"].to_pylist())
        known = mechanism.startswith(KNOWN)
        for row in by_value:
            inside(row, "n", 0.0, min(whole["n_high"], totals[row["ill"]] if known else np.inf))
        for row in parts:
            inside(row, "s", 0.0, 1.0)
            inside(row, "r", 0.0, np.inf)
        if ranges:
            return
        assert added(by_value, "ill").keys() <= totals.keys()
        assert sum(row["n"] for row in by_value) == pytest.approx(whole["n"], abs=1e-4)
        for row in ask(f"AVG(age) AS a, {share} AS s", f"AND {value} GROUP BY sex"):
            inside(row, "a", 20, 59)
            inside(row, "s", 0.0, 1.0)
        for row in ask("MEDIAN(age) AS m", f"AND {value} GROUP BY sex"):
            inside(row, "m", 20, 59)
        cells = ask(f"{key}, ill, COUNT(*) AS n", f"GROUP BY {key}, ill", "age > 0")
    if known:
        assert added(cells, "ill") == pytest.approx(dict(totals), abs=1e-4)


def test_a_value_that_some_of_a_group_are_asked_for_is_not_that_of_the_group(
    tmp_path: Path,
) -> None:
    """Who is asked depends on both columns: what all of a group have was shown for some of it."""
    sf.publish(people(3), "rho-privacy(0.4, 0.6)", to=tmp_path / "r", mechanism="uniform",
               quasi=["age", "sex"], sensitive=["ill", "job"], seed=3)  # fmt: skip
    counted = "COUNT(*) FILTER (WHERE CASE WHEN age < {age} THEN ill END = 'i0') AS n"
    release = sf.open(tmp_path / "r")
    young, everybody = (
        {row["sex"]: row["n"] for row in release.sql(f"SELECT sex, {asked} FROM release "
                                                      "GROUP BY sex").rows()}
        for asked in (counted.format(age=25), "COUNT(*) FILTER (WHERE ill = 'i0') AS n")
    )  # fmt: skip
    assert all(young[sex] < everybody[sex] / 2 for sex in ("F", "M"))
