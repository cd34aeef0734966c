"""Where a newcomer asks for what is not there: the answer says what is, and why."""

from __future__ import annotations

import datetime
import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.mechanisms import GONE, parse_mechanism

ROLES = ("--quasi", "age,sex,region", "--sensitive", "disease")


@pytest.mark.parametrize("text", ["k-anonymity(5)", "t-closeness(0.2)", "differential-privacy(1)"])
def test_other_guarantees_lead_to_the_nearest(
    cli: Any, people_file: Path, tmp_path: Path, text: str
) -> None:
    out = tmp_path / "release"
    done = cli("publish", people_file, *ROLES, "--guarantee", text, "--out", out)
    assert done.code == 2
    assert f"There is no guarantee '{text.partition('(')[0]}': it " in done.err
    nearest = re.search(r"Nearest: '([^']+)'", done.err)
    assert nearest is not None
    sf.parse_guarantee(nearest[1])
    assert not out.exists()


def test_no_l_diversity_says_what_can_be_done(tmp_path: Path) -> None:
    half = pa.table({"age": [20, 30, 40, 50, 60], "ill": ["no", "no", "no", "flu", "HIV"]})
    table = sf.read(half, quasi="age", sensitive="ill")
    with pytest.raises(sf.InfeasibleGuarantee) as caught:
        sf.publish(table, "l-diversity(2)", to=tmp_path / "release")
    message = str(caught.value)
    assert "no l-diversity can be kept" in message
    assert "recode the column" in message
    (text,) = re.findall(r'"(l-diversity\([^"]*\))"', message)
    assert text == "l-diversity(2, open='no')"
    sf.publish(table, text, to=tmp_path / "open")  # what is pointed to works here


def test_advice_lists_what_cannot_be_kept_and_why(only: Callable[..., None]) -> None:
    rng = np.random.default_rng(5)
    ill = np.where(rng.random(4000) < 0.7, "no", np.array(["flu", "HIV"])[rng.integers(0, 2, 4000)])
    people = pd.DataFrame({"sex": np.array(["F", "M"])[rng.integers(0, 2, 4000)], "ill": ill})
    found = sf.advise(people, quasi="sex", sensitive="ill")
    refused = {option.family: option.refused for option in found.options if option.refused}
    assert "more than half of the records" in refused["l-diversity"]
    assert refused["l-diversity"] in str(found)
    assert html.escape(refused["l-diversity"]) in found._repr_html_()
    only("l-diversity")
    nothing = sf.advise(people, quasi="sex", sensitive="ill")
    assert nothing.recommended is None
    assert nothing.why.endswith("None of these guarantees can be kept here; the table says why.")


def test_a_frame_can_be_described_as_it_is() -> None:
    frame = pd.DataFrame({"age": [30, 41, 52], "ill": ["no", "yes", "no"]})
    told = sf.describe(frame)
    assert told.rows == 3
    assert "sensitive?" in str(told)
    named = sf.describe(frame, quasi="age", sensitive="ill")
    assert [table.name for table in named.tables] == ["Columns", "Histogram", "Possible"]
    with pytest.raises(sf.UsageError, match="Say what the columns are"):
        sf.describe(frame, "l-diversity(2)")


def test_json_of_the_command_line_is_that_of_the_answer(cli: Any, tmp_path: Path) -> None:
    """Instants, numbers and missing values alike."""
    days = [datetime.datetime(2026, 1, 1), datetime.datetime(2026, 2, 1, 12), None] * 40
    people = pa.table({"day": days, "cost": [1.5, None, 2.5] * 40, "ill": ["no", "yes"] * 60})
    pq.write_table(people, tmp_path / "people.parquet")
    sf.publish(
        people, "rho-privacy(0.6, 0.9)", quasi="day,cost", sensitive="ill", to=tmp_path / "r"
    )
    sql = "SELECT day, cost, COUNT(*), AVG(cost) FROM release GROUP BY day, cost"
    printed = cli("query", tmp_path / "r", sql, "--json").json
    answer = sf.open(tmp_path / "r").sql(sql)
    assert printed == answer.to_json()
    assert {row["day"] for row in printed["rows"]} == {
        "2026-01-01T00:00:00",
        "2026-02-01T12:00:00",
        None,
    }


@pytest.mark.parametrize("gone", GONE)
def test_a_mechanism_that_left_names_another(gone: str) -> None:
    with pytest.raises(sf.UsageError, match=rf"'{gone}' left in 0\.4: name '") as refused:
        parse_mechanism(gone)
    parse_mechanism(str(refused.value).split("'")[-2])
