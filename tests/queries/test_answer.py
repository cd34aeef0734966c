"""Answers for the eye and for other tools."""

from __future__ import annotations

import datetime
import json
import math

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.errors import QueryError
from sfumato.queries import Answer, OpenedRelease, ask
from sfumato.queries.answer import estimate_text


def answer(columns: dict[str, object], *aggregates: str) -> Answer:
    return Answer(pa.table(columns), aggregates, 0.95)


GROUPED = {
    "disease": ["flu", None],
    "count": [12345.6, -3.2],
    "count_stderr": [61.2, 2.25],
    "count_low": [12225.6, -7.6],
    "count_high": [12465.6, 1.2],
}


def test_tables_are_aligned_with_thousands_separators() -> None:
    assert repr(answer(GROUPED, "count")).splitlines() == [
        "disease                                  count",
        "─────────  ───────────────────────────────────",
        "flu        12,346 ± 61 (95 %: 12,226 … 12,466)",
        "(missing)        -3.2 ± 2.2 (95 %: -7.6 … 1.2)",
    ]


def test_html_is_escaped() -> None:
    shown = answer({**GROUPED, "disease": ["<b>", None]}, "count")._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert shown.count("<tr>") == 3


def test_long_tables_are_cut() -> None:
    rows = {"k": list(range(100))} | {
        name: [1.0] * 100 for name in ("c", "c_stderr", "c_low", "c_high")
    }
    shown = repr(answer(rows, "c"))
    assert shown.endswith("… and 40 more rows")
    assert len(shown.splitlines()) == 63


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((1204.0, 61.2, 1084.0, 1324.0), "1,204 ± 61 (95 %: 1,084 … 1,324)"),
        ((-0.04, 61.0, -120.0, 120.0), "0 ± 61 (95 %: -120 … 120)"),
        ((238.0, 9.8, 154.2, 245.4), "238.0 (95 %: 154.2 … 245.4)"),  # an error that misleads
        ((0.5, 0.00123, 0.4976, 0.5024), "0.5000 ± 0.0012 (95 %: 0.4976 … 0.5024)"),
        ((1e6, 0.0, 1e6, 1e6), "1,000,000"),
        ((41.25, 0.0, 41.25, 41.25), "41.25"),
        ((None, None, None, None), "(none)"),
        ((math.nan, math.nan, math.nan, math.nan), "nan"),
        ((math.inf, 0.0, math.inf, math.inf), "inf"),
    ],
)
def test_numbers_show_the_digits_that_mean_something(
    numbers: tuple[float, float, float, float], text: str
) -> None:
    assert estimate_text(*numbers, 0.95) == text


def test_one_number_is_a_number(release: OpenedRelease) -> None:
    found = ask(release, "SELECT COUNT(*) FROM release WHERE disease = 'flu'")
    assert (found.value, found.stderr, found.low, found.high) == (4, 0, 4, 4)
    assert str(found) == "4"
    assert math.isnan(ask(release, "SELECT AVG(age) FROM release WHERE age > 99").value)
    with pytest.raises(QueryError, match="not one number"):
        _ = ask(release, "SELECT city, COUNT(*) FROM release GROUP BY city").value


def test_other_libraries_take_it_as_it_is(release: OpenedRelease) -> None:
    found = ask(release, "SELECT city, COUNT(*) FROM release GROUP BY city")
    assert found.columns == ["city", "count", "count_stderr", "count_low", "count_high"]
    assert pa.table(found).equals(found.to_arrow())
    assert pl.DataFrame(found).shape == (5, 5)
    assert isinstance(found.to_pandas(), pd.DataFrame)
    assert len(found) == 5


def test_json_has_columns_and_rows() -> None:
    found = answer({"d": [datetime.date(2026, 11, 15)], "c": [math.inf]}, "c").to_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == {
        "columns": ["d", "c"],
        "rows": [{"d": "2026-11-15", "c": "inf"}],
        "estimator": None,
    }
