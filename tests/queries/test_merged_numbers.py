"""Numbers that reconstruction privacy merged are asked by number, where no text is cut in two."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError
from sfumato.queries.recoded import Lumps


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Ages of which only those from 50 up tell anything: two texts are left."""
    draw = np.random.default_rng(7)
    age = draw.integers(40, 60, 20_000)
    ill = np.where(draw.random(20_000) < np.where(age >= 50, 0.6, 0.2), "flu", "none")
    table = pa.table({"age": age, "sex": draw.choice(["F", "M"], 20_000), "ill": ill})
    place = tmp_path_factory.mktemp("merged") / "release"
    sf.publish(
        table,
        "reconstruction-privacy(0.3, 0.3)",
        to=place,
        mechanism="sps",
        quasi=["age", "sex"],
        sensitive="ill",
        seed=3,
    )
    return sf.open(place), age, ill


@pytest.mark.parametrize("where", ["age >= 50", "age > 49", "50 <= age", "age BETWEEN 50 AND 59"])
def test_ranges_at_the_edge_of_what_was_merged(asked, where):
    release, age, ill = asked
    assert len(release.merges["age"]) == 2
    found = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE {where} AND ill = 'flu'").rows()[
        0
    ]
    truth = int(((age >= 50) & (ill == "flu")).sum())
    assert found["n_low"] <= truth <= found["n_high"]
    everybody = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE {where}").rows()[0]
    assert abs(everybody["n"] - (age >= 50).sum()) < 50  # copied groups keep about their size


def test_a_number_inside_is_refused_with_the_edges(asked):
    release, _, _ = asked
    with pytest.raises(
        QueryError, match=r"55 would cut '50\.\.59' in two\. Ask >= or < at one of 40"
    ):
        release.sql("SELECT COUNT(*) FROM release WHERE age >= 55 AND ill = 'flu'")
    with pytest.raises(QueryError, match="would cut"):
        release.sql("SELECT COUNT(*) FROM release WHERE age = 55")


def test_groups_come_in_the_order_of_the_numbers(asked):
    release, _, _ = asked
    rows = release.sql("SELECT age, COUNT(*) FROM release GROUP BY age ORDER BY age DESC").rows()
    assert [row["age"] for row in rows] == ["50..59", "40..49"]


def test_scattered_values_have_no_edge():
    from sqlglot import exp

    ages = Lumps("age", {"20, 40": [20, 40], "30": [30]})
    assert ages.satisfying(exp.EQ, 30.0) == ["30"]
    assert ages.satisfying(exp.NEQ, 30.0) == ["20, 40"]
    with pytest.raises(QueryError, match=r"No number parts what is published: name what"):
        ages.satisfying(exp.GT, 30.0)
