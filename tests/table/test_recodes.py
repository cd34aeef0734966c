"""Recodes: what they make of values, and that everything after the table knows only that."""

from __future__ import annotations

import datetime
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import DataError, QueryError
from sfumato.table.recodes import RECODES, Recode, Recodes
from sfumato.table.sources import find_source


def recoded(values: Any, text: str) -> list[Any]:
    source, _ = Recodes.of(text).apply(find_source(pa.table({"c": values})), "c")
    found = pa.chunked_array(
        [batch.column(0) for batch in source.batches(["c"], 3)]
    ).combine_chunks()
    plain = found.dictionary_decode() if pa.types.is_dictionary(found.type) else found
    assert plain.type == source.schema.field("c").type
    return list(plain.to_pylist())


DAY = datetime.date(2026, 11, 15)
GOLDEN = [
    ([0, 17, 18, None, 90], "bins(0, 18, inf)", ["[0, 18)"] * 2 + ["[18, inf)", None, "[18, inf)"]),
    ([2.5, -2.5, 7.4, None], "round(5)", [5.0, 0.0, 5.0, None]),
    ([1, 2, 3, -1, -3], "round(0.5)", [1.0, 2.0, 3.0, -1.0, -3.0]),
    ([2**62 + 3, -(2**62) - 3], "round(10)", [2**62 + 6, -(2**62) - 6]),
    ([1, 95, None], "top(90)", [1, 90, None]),
    ([1, 95, None], "bottom(18.5)", [18.5, 95.0, None]),
    ([float("nan"), 1.0], "top(0.5)", [None, 0.5]),
    ([DAY, None], "year", [2026, None]),
    ([datetime.datetime(5, 2, 3)], "month", ["0005-02"]),
    (["428.0", "V2", None], "prefix(3)", ["428", "V2", None]),
    ([10115, 80331], "prefix(2)", ["10", "80"]),
    (["a", "b", "c"], "groups(a:x;b:x;*:rest)", ["x", "x", "rest"]),
    (["a"] * 4 + ["b", "c"], "rare(2)", ["a"] * 4 + ["other"] * 2),
    (["a"] * 4 + ["b"] * 3 + ["c"], "rare(2, other=else)", ["a"] * 4 + ["else"] * 4),
    # 250 alone would show how few it is: 428 joins it
    (["4280", "4281", "250"] * 2, "prefix(3) then rare(3)", ["other"] * 6),
]  # fmt: skip


@pytest.mark.parametrize(("values", "text", "expected"), GOLDEN)
def test_what_becomes_of_values(values: list[Any], text: str, expected: list[Any]) -> None:
    found = recoded(values, text)
    assert [None if isinstance(v, float) and math.isnan(v) else v for v in found] == expected
    if all(isinstance(value, str | None) for value in values):
        coded = pa.array(values).dictionary_encode()
        assert recoded(coded, text) == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20), st.integers(1, 10**6))
def test_rounding_is_exact(numbers: list[int], step: int) -> None:
    inside = [n for n in numbers if abs(n) < 2**63 - 2 * step] or [0]
    expected = [(2 * n + step) // (2 * step) for n in inside]
    assert recoded(pa.array(inside, pa.int64()), f"round({step})") == [e * step for e in expected]


@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.integers(1, 9), min_size=1),
    st.integers(2, 9),
)
def test_no_merged_value_is_rarer_than_said(counts: dict[str, int], people: int) -> None:
    values = [value for value, count in counts.items() for _ in range(count)]
    found = recoded(values, f"rare({people}, other=!)")
    shown = {value: found.count(value) for value in found}
    alone = set(shown) == {"!"}  # everybody together may be fewer
    assert alone or min(shown.values()) >= people
    assert all(shown[v] == counts[v] for v in shown if v != "!")  # nobody else was touched


@given(
    st.lists(st.tuples(st.sampled_from("abcdef!"), st.integers(0, 6)), min_size=1),
    st.integers(2, 4),
)
@settings(max_examples=40)
def test_rare_counts_people_and_not_their_rows(rows: list[tuple[str, int]], least: int) -> None:
    texts, who = map(list, zip(*rows, strict=True))
    source = find_source(pa.table({"c": texts, "who": who}))
    kept = Recode.of(f"rare({least}, other=!)").fitted(source, "c", "who").kept
    people = {text: {p for t, p in rows if t == text} for text in texts}
    rest = {p for t, p in rows if t not in kept}
    assert all(len(people[text]) >= least for text in kept)
    assert not kept or not rest or len(rest) >= least


def test_a_value_of_one_person_with_many_visits_does_not_stay() -> None:
    """Nor does one whose people are left out, for want of a sensitive value."""
    ill = ["flu"] * 60 + ["HIV"] * 30 + ["cold"] * 30
    stays = pa.table({
        "who": [*range(60), *[99] * 30, *range(100, 130)], "ward": ill,
        "ill": [*ill[:90], *[None] * 29, "cold"],
    })  # fmt: skip
    roles = {"quasi": "ward", "sensitive": "ill", "recode": {"ward": "rare(20)"}}
    by_row = sf.read(stays, **roles, drop="who", missing="value")
    assert by_row.rows.domains["ward"].to_pylist() == ["HIV", "cold", "flu"]
    by_person = sf.read(stays, **roles, person="who", missing="value")
    assert by_person.rows.domains["ward"].to_pylist() == ["flu", "other"]
    dropped = sf.read(stays, **roles, drop="who", missing="drop")
    assert dropped.rows.domains["ward"].to_pylist() == ["flu", "other"]


@pytest.mark.parametrize("name", RECODES)
def test_text_forms_are_read_back(name: str, tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    path.write_text('"a, (b); c:d","x,y",z\n*,rest,all\n', encoding="utf-8")
    text = RECODES[name].example.replace("@file.csv", f"@{path}")
    read = Recodes.of(text)
    assert Recodes.of(str(read)) == read
    assert "@" not in str(read)  # a manifest must not name a file
    if name == "groups":
        assert recoded(["a, (b); c:d", "q"], str(read)) == ["x,y", "rest"]
        assert recoded(["a, (b); c:d", "q"], text.replace("level=1", "level=2")) == ["z", "all"]


def people(rows: int = 4000) -> pa.Table:
    draw = np.random.default_rng(5)
    age = draw.integers(18, 97, rows)
    return pa.table(
        {
            "age": age,
            "income": draw.integers(0, 100, rows),
            "since": pa.array(draw.integers(0, 700, rows).astype("int32")).cast(pa.date32()),
            "zip": [f"0{n}" for n in draw.integers(1000, 1099, rows)],
            "icd": [f"{n / 10:.1f}" for n in draw.integers(1000, 1060, rows)],
        }
    )


RECODE = {
    "age": "top(90) then bins(18, 30, 60, 90)",
    "income": "top(80) then round(10)",
    "since": "month",
    "zip": "prefix(4)",
    "icd": "prefix(3) then rare(50)",
}
ROLES: dict[str, Any] = {"quasi": ["age", "income", "since", "zip"], "sensitive": "icd"}


@pytest.mark.parametrize("guarantee", ["l-diversity(3)", "rho-privacy(0.3, 0.6)"])
def test_a_release_knows_only_recoded_values(tmp_path: Path, guarantee: str) -> None:
    table = people()
    done = sf.publish(
        table, guarantee, to=tmp_path / "r", recode=RECODE, receipt=tmp_path / "q", **ROLES
    )
    assert {c.name: c.recode for c in done.manifest.columns} == RECODE
    release = sf.open(tmp_path / "r")
    ages = table.column("age").to_numpy()

    def count(condition: str) -> float:
        return float(release.sql(f"SELECT COUNT(*) FROM release WHERE {condition}").value)

    assert count("age >= 30") == (ages >= 30).sum()
    assert count("60 > age") == (ages < 60).sum()
    assert count("age BETWEEN 30 AND 90") == (ages >= 30).sum()
    assert count("NOT age >= 100") == 4000
    assert count("since >= '1971-01'") > 0
    assert count("zip = '0105'") > 0
    for asked, told in [
        ("age >= 40", r"40 would cut .* in two. Ask >= or < at one of 18, 30, 60, or name"),
        ("age > 30", "would cut .* in two"),
        ("income > 90", r"recoded \(top\(80\) then round\(10\)\) and holds numbers from 0 to 80"),
        ("zip = '01052'", "Did you mean '0105'.* The column was recoded: prefix\\(4\\)"),
    ]:  # fmt: skip
        with pytest.raises(QueryError, match=told):
            count(asked)
    groups = release.sql("SELECT age, COUNT(*) FROM release GROUP BY age ORDER BY age DESC")
    assert [row["age"] for row in groups.to_json()["rows"]] == ["[60, 90]", "[30, 60)", "[18, 30)"]
    assert sf.audit(table, tmp_path / "r").holds is True
    assert sf.audit(table, tmp_path / "r", receipt=tmp_path / "q").holds is True


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_spark_recodes_where_the_frame_is(tmp_path: Path, spark: Any) -> None:
    table = people(600)
    frame = spark.createDataFrame(table.to_pandas())
    sf.publish(frame, "l-diversity(3)", to=tmp_path / "r", recode=RECODE, **ROLES)
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert {c["name"]: c["recode"] for c in manifest["columns"]} == RECODE
    local = sf.publish(table, "l-diversity(3)", to=tmp_path / "l", recode=RECODE, **ROLES)
    files = sorted((tmp_path / "r").glob("records*/*.parquet")) or [
        tmp_path / "r/records/part-00000.parquet"
    ]
    told = pa.concat_tables(pq.read_table(f) for f in files)
    ours = pq.read_table(tmp_path / "l" / "records")
    for name in ROLES["quasi"]:
        assert sorted(map(str, told.column(name).to_pylist())) == sorted(
            map(str, ours.column(name).to_pylist())
        )
    assert local.manifest.rows == manifest["rows"]
    assert sf.audit(table, tmp_path / "r").holds is True


def test_groups_that_lack_a_value_say_how_many_not_which() -> None:
    with pytest.raises(DataError, match=r"Column 'icd' has values without a group, in 50 of 50"):
        sf.read(
            people(50), quasi=[], sensitive="icd", drop_rest=True, recode={"icd": "groups(a:b)"}
        )
