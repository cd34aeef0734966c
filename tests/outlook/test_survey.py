"""The first look at a table: right counts, bounded, and no single record."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from sfumato.errors import DataError
from sfumato.outlook.suggestions import SurveyedColumn
from sfumato.outlook.survey import MOST_BARS, survey


def columns_of(table: pa.Table) -> dict[str, SurveyedColumn]:
    return {column.name: column for column in survey(table).columns}


def some_table(rows: int = 3000) -> pa.Table:
    rng = np.random.default_rng(5)
    day = datetime.date(2020, 1, 1)
    return pa.table(
        {
            "person": pa.array([f"p{k:05d}" for k in range(rows)]),
            "number": pa.array(rng.permutation(rows)),
            "age": pa.array(rng.integers(16, 94, rows), pa.int16()),
            "weight": pa.array(rng.normal(70, 10, rows)),
            "sex": pa.array(np.where(rng.random(rows) < 0.5, "F", "M")),
            "smokes": pa.array(rng.random(rows) < 0.2),
            "zip": pa.array([f"{z:05d}" for z in rng.integers(0, 400, rows)]),
            "seen": pa.array(
                [day + datetime.timedelta(days=int(d)) for d in rng.integers(0, 900, rows)]
            ),
            "when": pa.array(
                [datetime.datetime(2020, 1, 1, hour) for hour in rng.integers(0, 24, rows)]
            ),
            "nothing": pa.nulls(rows),
            "some": pa.array([None if k % 3 else "x" for k in range(rows)]),
            "list": pa.array([[1, 2]] * rows),
            "odd": pa.array([float("nan"), float("inf"), -1.0] * (rows // 3)),
        }
    )


def test_counts_are_right() -> None:
    table = some_table()
    seen = columns_of(table)
    for name in ("person", "number", "age", "sex", "smokes", "zip", "seen"):
        column = table.column(name)
        assert seen[name].nulls == column.null_count
        assert seen[name].distinct == len(column.unique())
    sex = table.column("sex").to_pylist()
    assert dict(seen["sex"].bars.bars) == {"F": sex.count("F"), "M": sex.count("M")}
    for name, column in seen.items():
        shown = sum(count for _, count in column.bars.bars) + column.bars.others
        assert shown == table.num_rows - column.nulls, name
        assert len(column.bars.bars) <= MOST_BARS
    ages = np.array(table.column("age"))
    label, count = seen["age"].bars.bars[0]
    first, last = map(int, label.split(" … "))
    assert count == int(((ages >= first) & (ages <= last)).sum())
    assert sum(count for _, count in seen["age"].bars.bars) == table.num_rows
    assert seen["some"].nulls == 2000
    assert seen["list"].bars.bars == ()


def test_what_identifies_people_is_not_shown() -> None:
    seen = columns_of(some_table())
    for name in ("person", "number", "weight"):
        assert seen[name].bars.bars == (), name
    text = str(survey(some_table()).to_json())
    assert "p00017" not in text


def test_suggestions_are_suggestions() -> None:
    seen = columns_of(some_table())
    roles = {name: column.suggestion.role if column.suggestion else None
             for name, column in seen.items()}  # fmt: skip
    assert roles["person"] == "key"
    assert roles["sex"] == roles["age"] == roles["zip"] == "quasi"
    assert roles["nothing"] == "drop"
    assert [name for name, role in roles.items() if role == "sensitive"] == ["smokes"]


STAYS = pa.table(
    {
        "row": range(900),
        "encounter": [17 * n + 3 for n in range(900)],
        "patient_nbr": [100_003 * (n // 2) + 7 for n in range(900)],
        "gender": ["f", "m", "m"] * 300,
        "country": ["here"] * 900,
        "diag_1": [f"{n * n % 97}" for n in range(900)],
        "diag_2": [f"{n * n % 89}" for n in range(900)],
        "diag_3": [f"{n * n % 83}" for n in range(900)],
        "admission": ["a", "b", "c"] * 300,
    }
)


def test_suggestions_do_not_lead_astray() -> None:
    """Neither the row number nor the stay is a person; the patient number that repeats is."""
    told = {name: column.suggestion for name, column in columns_of(STAYS).items()}
    roles = {name: found.role if found else None for name, found in told.items()}
    assert roles == {
        "row": "drop", "encounter": "drop", "patient_nbr": "person", "gender": "quasi",
        "country": "drop", "diag_1": "sensitive", "diag_2": "drop", "diag_3": "drop",
        "admission": "quasi",
    }  # fmt: skip
    found = told["patient_nbr"]
    assert found is not None
    assert found.why == "An identifier that repeats: 450 people in 900 rows?"
    once = {n: c.suggestion for n, c in columns_of(STAYS.drop(["patient_nbr"])).items()}
    assert (once["row"] and once["row"].role) == "drop"
    assert (once["encounter"] and once["encounter"].role) == "key"


def test_tables_that_cannot_be_shown(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no rows"):
        survey(pa.table({"a": pa.array([], pa.int64())}))
    wide = pa.table({f"c{k}": [1] for k in range(1001)})
    with pytest.raises(DataError, match="1,001 columns"):
        survey(wide)
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(DataError, match="same name"):
        survey(twice)


def test_long_values_are_cut_and_numbers_without_spread_are_shown() -> None:
    seen = columns_of(pa.table({"text": ["x" * 500] * 60, "one": [7] * 60, "few": [1.5, 2.5] * 30}))
    ((label, count),) = seen["text"].bars.bars
    assert len(label) == 80
    assert count == 60
    assert seen["one"].bars.bars == (("7", 60),)
    assert seen["few"].bars.bars == (("1.5", 30), ("2.5", 30))


def test_the_command_line_looks_too(cli: Any, people_file: Path) -> None:
    shown = cli("describe", people_file)
    assert shown.code == 0, shown.err
    assert "disease  string  0        8          sensitive?" in shown.out
    assert "Nothing is taken from the suggestions" in shown.out
    told = cli("describe", people_file, "--json").json
    assert told["columns"] == [column.to_json() for column in survey(people_file).columns]


def test_odd_types_and_small_tables() -> None:
    rows = 90
    day = datetime.date
    table = pa.table(
        {
            "length": pa.array([datetime.timedelta(seconds=k) for k in range(rows)]),
            "inside": pa.array([{"a": k} if k else None for k in range(rows)]),
            "wide": pa.array([decimal.Decimal(k) for k in range(rows)], pa.decimal256(50, 2)),
            "huge": pa.array([2**64 - 1 - k // 3 for k in range(rows)], pa.uint64()),
            "far": pa.array(
                [day(1 + (k // 3) * 333, 1, 1) for k in range(rows - 2)] + [day.max] * 2
            ),
            "extreme": pa.array([1.7e308 * (-1) ** k * (k // 3) / 30 for k in range(rows)]),
            "when": pa.array([datetime.time(k // 4) for k in range(rows)]),
        }
    )
    seen = columns_of(table)
    assert seen["inside"].nulls == 1
    assert seen["huge"].distinct == 30
    for name in ("length", "inside", "wide"):
        assert seen[name].bars.bars == ()
    assert seen["huge"].bars.bars == ()  # too large to tell apart as plain numbers
    assert sum(count for _, count in seen["far"].bars.bars) == rows
    assert seen["far"].bars.bars[-1][0].endswith("9999-12-31")
    assert len(seen["when"].bars.bars) == 23
    # the few people of a small table are not named either
    few = columns_of(pa.table({"name": ["Ann", "Bob", "Cid"], "sex": ["F", "M", "F"]}))
    assert few["name"].bars.bars == ()
