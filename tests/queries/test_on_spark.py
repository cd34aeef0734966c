"""The same questions to the same releases, here and on Spark: the same answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.queries import OpenedRelease, open_release

WAYS = {
    "uniform": "rho-privacy(0.2, 0.5)",
    "fine-grain": "fine-rho-privacy(theta=3)",
    "general": "fine-rho-privacy(theta=3)",
    "partitioned": "rho-privacy(0.2, 0.5)",
    "splu": "small-sum(groups=3)",
    "sps": "reconstruction-privacy(0.3, 0.3)",
    "resample": "rho-privacy(0.2, 0.5)",
    "optimal": "l-diversity(3)",
    "two-size": "l-diversity(3)",
    "optimal(fakes=1)": "l-diversity(3)",
}
QUESTIONS = (
    "SELECT COUNT(*) FROM release WHERE sex = 'F'",
    "SELECT disease, COUNT(*) FROM release GROUP BY disease ORDER BY count DESC LIMIT 5 OFFSET 1",
    "SELECT sex, COUNT(*) FILTER (WHERE disease = 'd01'), COUNT(*) FROM release GROUP BY sex",
    "SELECT COUNT(*) FROM release WHERE sex = 'F' OR disease IN ('d01', 'd02') OR city IS NULL",
    "SELECT city, disease, COUNT(*) FROM release GROUP BY ALL".replace("ALL", "1, 2"),
    "SELECT upper(city) AS u, COUNT(*) FROM release WHERE disease LIKE 'd0%' GROUP BY u "
    "HAVING count > 10",
)
NUMBERS = (
    "SELECT age // 10 * 10 AS years, AVG(score), SUM(age) FROM release WHERE disease = 'd03' "
    "GROUP BY years",
    "SELECT AVG(age), SUM(score) FILTER (WHERE disease < 'd05'), COUNT(score) FROM release",
    "SELECT disease, AVG(CASE WHEN disease = 'd01' THEN age ELSE score END) FROM release "
    "WHERE age BETWEEN 25 AND 45 GROUP BY disease",
)

Published = Callable[[str], tuple[OpenedRelease, OpenedRelease]]


def people() -> pa.Table:
    rng = np.random.default_rng(3)
    rows = 1500
    return pa.table(
        {
            "age": pa.array(rng.integers(20, 50, rows), pa.int16()),
            "sex": np.array(["F", "M"])[rng.integers(0, 2, rows)],
            "city": pa.array(
                [["Oslo", "oslo", None, "Ærø", ""][i] for i in rng.integers(0, 5, rows)]
            ),
            "score": pa.array(rng.normal(size=rows).round(2), mask=rng.random(rows) < 0.1),
            "disease": np.array([f"d{i:02d}" for i in rng.integers(0, 12, rows)]),
        }
    )


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, split: Any, spark: Any) -> Published:
    """A release by a mechanism asked here, and the same in parts asked on Spark."""
    made: dict[str, tuple[OpenedRelease, OpenedRelease]] = {}

    def publish(way: str) -> tuple[OpenedRelease, OpenedRelease]:
        if way not in made:
            folder = tmp_path_factory.mktemp("way")
            columns = "sex,city" if way == "sps" else "age,sex,city,score"
            table = sf.read(
                people(),
                quasi=columns,
                sensitive="disease",
                drop="age,score" if way == "sps" else "",
            )
            sf.publish(table, WAYS[way], to=folder / "whole", mechanism=way)
            parts = split(folder / "whole", folder / "split")
            made[way] = open_release(folder / "whole"), open_release(parts, engine=spark)
        return made[way]

    return publish


def assert_alike(expected: pa.Table, found: pa.Table, note: str = "") -> None:
    """Equal to 1e-9, of the same types, with the same values missing."""
    assert expected.schema == found.schema, note
    assert expected.num_rows == found.num_rows, note
    for name in expected.column_names:
        one, other = (table.column(name).combine_chunks() for table in (expected, found))
        if pa.types.is_floating(one.type):
            assert one.is_null().equals(other.is_null()), (note, name)
            # estimates near 0 are differences of numbers as large as the table
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * 1500, err_msg=note)
        else:
            assert one.equals(other), (note, name, one, other)


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_release(published: Published, way: str) -> None:
    here, there = published(way)
    for sql in (*QUESTIONS, *(NUMBERS if way != "sps" else ())):
        assert_alike(here.sql(sql).table, there.sql(sql).table, sql)
    sql = "SELECT sex, disease, COUNT(*) FROM release GROUP BY sex, disease"
    for wish in ({"keys": True}, {"consistent": True}, {"confidence": 0.5}):
        if way == "resample" and "consistent" in wish:
            continue
        assert_alike(here.sql(sql, **wish).table, there.sql(sql, **wish).table, f"{wish}")  # type: ignore[arg-type]
    for estimator in {"splu": ("paper", "em"), "uniform": ("em",), "optimal": ("inverse",)}.get(
        way, ()
    ):
        answers = [each.sql(sql, estimator=estimator).table for each in (here, there)]
        assert_alike(*answers, estimator)
