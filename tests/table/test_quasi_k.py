"""Merged quasi columns: k people share every combination, and nothing more is lost than need be."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.checks import check
from sfumato.datasets import census
from sfumato.errors import DataError, UsageError
from sfumato.table.merging import MergedAxis, certainty_penalty, classes

PEOPLE = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 9)),
        st.sampled_from(["a", "b", "c", None]),
        st.floats(0, 1, width=16),
    ),
    min_size=4,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(PEOPLE, st.integers(2, 4))
def test_every_combination_has_k_people_and_tells_the_truth(rows: Any, k: int) -> None:
    ages, names, shares = zip(*rows, strict=True)
    frame = pa.table(
        {
            "age": pa.array(ages, pa.int64()),
            "name": pa.array(names, pa.string()),
            "x": pa.array(shares),
            "s": ["?"] * len(rows),
        }
    )
    table = sf.read(frame, quasi="age,name,x", sensitive="s", quasi_k=k)
    assert table.quasi == ("age_low", "age_high", "name", "x_low", "x_high")
    whole = pa.Table.from_batches(table.batches(table.quasi, 7)).to_pylist()
    shown = Counter(tuple(row.values()) for row in whole)
    assert min(shown.values()) >= k
    for row, (age, name, share) in zip(whole, rows, strict=True):
        if row["age_low"] is None:  # missing, alone or with others
            assert row["age_high"] is None
        else:
            assert row["age_low"] <= age <= row["age_high"]
        assert row["x_low"] <= share <= row["x_high"]
        label = row["name"]
        inside = label.strip("{}").split(", ") if label and label[0] == "{" else [label]
        assert ("(missing)" if name is None and len(inside) > 1 else name) in inside


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(20, 60))
def test_the_order_of_people_does_not_matter(seed: int, k: int, rows: int) -> None:
    draw = np.random.default_rng(seed)
    axes = [MergedAxis(8, np.arange(8.0)), MergedAxis(5)]
    raw = np.stack([draw.integers(0, 8, rows), draw.integers(0, 5, rows)])
    places, people = np.unique(raw, axis=1, return_counts=True)
    found = classes(axes, places, people, k)
    assert np.bincount(found, people).min() >= k
    mixed = draw.permutation(places.shape[1])
    again = classes(axes, places[:, mixed], people[mixed], k)
    assert certainty_penalty(axes, places, people, found) == pytest.approx(
        certainty_penalty(axes, places[:, mixed], people[mixed], again), rel=0.5, abs=0.2
    )


def test_penalties_are_those_of_the_definition() -> None:
    draw = np.random.default_rng(3)
    positions = np.array([0.0, 1, 4, 5, 9, 10])
    for axis in (MergedAxis(6), MergedAxis(6, positions)):
        for _ in range(50):
            places = draw.integers(0, 6, draw.integers(1, 6))
            for end, penalty in enumerate(axis.penalties(places), 1):
                held = set(places[:end].tolist())
                if axis.positions is not None:
                    expected = float(np.ptp(positions[list(held)])) / 10
                else:
                    expected = len(held) / 6 if len(held) > 1 else 0.0
                assert penalty == pytest.approx(expected)


def coded(table: pa.Table, names: list[str]) -> tuple[list[MergedAxis], Any, Any]:
    """Axes, distinct combinations and how many people have each."""
    axes, columns = [], []
    for name in names:
        values = table.column(name).combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        domain = values.unique()
        domain = domain.take(pa.compute.sort_indices(domain))
        ordered = pa.types.is_integer(domain.type) or pa.types.is_floating(domain.type)
        positions = domain.cast(pa.float64()).to_numpy() if ordered else None
        axes.append(MergedAxis(len(domain), positions))
        columns.append(pa.compute.index_in(values, value_set=domain).to_numpy())
    places, people = np.unique(np.stack(columns), axis=1, return_counts=True)
    return axes, places.astype(np.int64), people


def test_less_is_lost_than_by_mondrian() -> None:
    """Strict Mondrian (LeFevre and others 2006) loses 0.0768 of these 4,000 people."""
    names = ["age", "gender", "education", "marital", "race", "workclass"]
    axes, places, people = coded(census(4000, 1), names)
    ours = certainty_penalty(axes, places, people, classes(axes, places, people, 5))
    assert ours < 0.8 * 0.0768


ROLES: dict[str, Any] = {
    "quasi": "age,gender,marital",
    "sensitive": "occupation",
    "drop_rest": True,
}


@pytest.mark.parametrize("guarantee", ["l-diversity(5)", "rho-privacy(0.1, 0.4)"])
def test_a_release_is_checked_and_audited(tmp_path: Path, guarantee: str) -> None:
    people = census(3000, 2)
    done = sf.publish(
        people, guarantee, to=tmp_path / "r", receipt=tmp_path / "q",
        quasi_k=5, recode={"age": "top(70)"}, **ROLES,
    )  # fmt: skip
    assert done.manifest.rows == 3000
    assert done.manifest.to_json()["quasi_k"] == {
        "k": 5,
        "columns": {"age": "top(70)", "gender": "", "marital": ""},
    }
    assert any("people share every combination" in note for note in done.notes)
    assert any("merged into ranges and sets" in caveat for caveat in done.manifest.caveats)
    records = pq.read_table(tmp_path / "r" / "records")
    rest = [
        n for n in records.column_names if n not in ("age_low", "age_high", "gender", "marital")
    ]
    records = records.append_column("of", records.column(rest[0]))
    held = check(
        records, quasi="age_low,age_high,gender,marital", sensitive="of", drop=rest,
        require=["k-anonymity(5)"],
    )  # fmt: skip
    assert held.holds
    asked = sf.open(tmp_path / "r")
    surely = asked.sql("SELECT COUNT(*) FROM release WHERE age_low >= 40").value
    perhaps = asked.sql("SELECT COUNT(*) FROM release WHERE age_high >= 40").value
    assert surely <= (people.column("age").to_numpy() >= 40).sum() <= perhaps
    assert sf.audit(people, tmp_path / "r").holds is True
    assert sf.audit(people, tmp_path / "r", receipt=tmp_path / "q").holds is True


def test_what_cannot_be_done_says_so(tmp_path: Path) -> None:
    people = census(100, 1)
    with pytest.raises(UsageError, match="must be a whole number of at least 2"):
        sf.read(people, quasi_k="1.5", **ROLES)
    with pytest.raises(DataError, match="has 100 people: no combination can have 101"):
        sf.read(people, quasi_k=101, **ROLES)
    twice = people.append_column("who", pa.array([n // 2 for n in range(100)]))
    with pytest.raises(DataError, match="people with the same quasi values in all rows"):
        sf.read(twice, quasi_k=5, person="who", **ROLES)
    taken = people.append_column("age_low", people.column("age"))
    with pytest.raises(DataError, match="has a column 'age_low' already"):
        sf.read(taken, quasi_k=5, **{**ROLES, "sensitive": "age_low"})


def test_people_are_counted_whichever_of_their_rows_are_published(tmp_path: Path) -> None:
    """Of 300 people with two rows; 40 of them moved between these."""
    rng = np.random.default_rng(5)
    age, town = rng.integers(20, 60, 300), rng.integers(0, 6, 300)
    moved = np.where(np.arange(300) < 40, (town + 1) % 6, town)
    stays = pa.table(
        {
            "who": np.tile(np.arange(300), 2),
            "age": np.tile(age, 2),
            "town": [f"t{number}" for number in np.concatenate([town, moved])],
            "ill": np.array(list("abcdef"))[rng.integers(0, 6, 600)],
        }
    )
    receipt = tmp_path / "receipt"
    sf.publish(
        stays, "l-diversity(2)", to=tmp_path / "r", quasi="age,town", sensitive="ill",
        person="who", quasi_k=5, left_out=1, receipt=receipt, count_rows="stays",
    )  # fmt: skip
    records = pq.read_table(tmp_path / "r" / "records").to_pylist()
    shown = Counter((row["age_low"], row["age_high"], row["town"]) for row in records)
    assert min(shown.values()) >= 5
    assert len(shown) > 10
    assert sf.audit(stays, tmp_path / "r").holds is True
    assert sf.audit(stays, tmp_path / "r", receipt=receipt).holds is True


def test_people_who_are_left_out_do_not_count() -> None:
    people = pa.table(
        {"age": [1] * 4 + [2] * 4, "ill": ["a", "b", "a", "b", None, "a", None, None]}
    )
    table = sf.read(people, quasi="age", sensitive="ill", missing="drop", quasi_k=2)
    shown = pa.Table.from_batches(table.batches(("age_low", "age_high", "ill"))).to_pylist()
    assert {(r["age_low"], r["age_high"]) for r in shown if r["ill"]} == {(1, 2)}
