"""Empty groups, where they are asked for."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

from sfumato.errors import QueryError
from sfumato.operators import Uniform
from sfumato.queries import OpenedRelease, ask

from .conftest import MakeRelease


def test_every_combination_appears(release: OpenedRelease) -> None:
    sql = (
        "SELECT city, disease, COUNT(*), SUM(age), AVG(age) FROM release WHERE age > 40 "
        "GROUP BY city, disease"
    )
    plain, filled = ask(release, sql).rows(), ask(release, sql, keys=True).rows()
    assert len(filled) == 5 * 4
    there = {(row["city"], row["disease"]): row for row in plain}
    for row in filled:
        expected = there.get((row["city"], row["disease"]))
        if expected is not None:
            assert row == expected
        else:
            numbers = [v for name, v in row.items() if name.startswith(("count", "sum"))]
            assert numbers == [0.0] * 8
            assert [v for name, v in row.items() if name.startswith("avg")] == [None] * 4


def test_integers_of_a_range_are_listed_missing_included(release: OpenedRelease) -> None:
    rows = ask(release, "SELECT age, COUNT(*) FROM release GROUP BY age", keys=True).rows()
    assert [row["age"] for row in rows] == [*range(20, 66), None]
    assert sum(row["count"] for row in rows) == 10


def test_having_order_and_limit_come_after(release: OpenedRelease) -> None:
    answer = ask(
        release,
        "SELECT city, COUNT(*) FROM release WHERE disease = 'HIV' GROUP BY city "
        "HAVING COUNT(*) = 0 ORDER BY city DESC LIMIT 2",
        keys=True,
    )
    assert [row["city"] for row in answer.rows()] == ["it's", "Oslo"]


def test_without_keys_there_is_one_group(release: OpenedRelease) -> None:
    assert ask(release, "SELECT COUNT(*) FROM release", keys=True).value == 10


def test_a_sum_of_missing_values_is_not_an_empty_group(release: OpenedRelease) -> None:
    rows = ask(
        release, "SELECT city, SUM(score) FROM release WHERE age = 58 GROUP BY city", keys=True
    ).rows()
    sums = {row["city"]: row["sum_score"] for row in rows}
    assert sums == {"Rome": None, "Oslo": 0, "Lima": 0, "it's": 0, None: 0}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT age // 10 AS d, COUNT(*) FROM release GROUP BY d",
            'The key "age" // 10 is an expression, so its values cannot be listed. Group by plain '
            "columns, or leave `keys` out.",
        ),
        (
            "SELECT score, COUNT(*) FROM release GROUP BY score",
            "The values of column 'score' are not listed in the release, so empty groups cannot be "
            "shown. Group by another column, or leave `keys` out.",
        ),
    ],
)
def test_keys_that_cannot_be_listed_are_refused(
    sql: str, message: str, release: OpenedRelease
) -> None:
    with pytest.raises(QueryError) as caught:
        ask(release, sql, keys=True)
    assert str(caught.value) == message


def test_too_many_are_refused(make_release: MakeRelease) -> None:
    table = pa.table({"a": [0, 3_000], "b": [0, 3_000], "c": [0, 10**6], "s": ["x", "y"]})
    release = make_release(table, ["s"], {"s": Uniform(2, Fraction(1, 2))})
    with pytest.raises(QueryError, match="9,006,001 combinations; at most 1,000,000"):
        ask(release, "SELECT COUNT(*) FROM release GROUP BY a, b", keys=True)
    with pytest.raises(QueryError, match="ranges over 1,000,001 numbers; at most 100,000"):
        ask(release, "SELECT COUNT(*) FROM release GROUP BY c", keys=True)
