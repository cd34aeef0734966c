"""Workloads: seeded, saved as SQL, and answered by one join as `query` answers them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import DataError, UsageError, WeakPromiseWarning
from sfumato.mechanisms import MECHANISMS, parse_mechanism
from sfumato.release import Release
from sfumato.workloads import (
    CountQuestion,
    SizeClass,
    Workload,
    generate_workload,
    people_of,
    release_answers,
    size_classes,
    true_counts,
)

PROMISES = {
    "uniform": "rho-privacy(0.3, 0.6)",
    "fine-grain": "fine-rho-privacy(theta=3)",
    "partitioned": "rho-privacy(0.1, 0.3)",
    "splu": "small-sum(3)",
    "sps(merge=none)": "reconstruction-privacy(0.3, 0.3)",
    "optimal": "l-diversity(3)",
    "optimal(fakes=1)": "l-diversity(3)",
    "local(min=200)": "l-diversity(3)",
    "optimal(objective=multi-size)": "l-diversity(3)",
    "optimal(objective=two-size)": "f-privacy(theta=2, floor=0.05)",
    "heterogeneous": "l-diversity(3)",
    "ring": "l-diversity(3)",
    "burel": "beta-likeness(2)",
}
People = Callable[..., pa.Table]


def declared(frame: pa.Table) -> sf.Table:
    return sf.read(frame, quasi=["age", "sex", "region"], sensitive="disease")


@pytest.fixture
def table(people: People) -> sf.Table:
    """1,500 people, every 50th without a region."""
    frame = people(1500)
    regions = frame.column("region").to_pylist()
    regions[::50] = [None] * len(regions[::50])
    return declared(frame.set_column(2, "region", pa.array(regions)))


def some_questions(table: sf.Table) -> Workload:
    people = people_of(table)
    questions = [*generate_workload(people, count=18, seed=3).questions]
    value, other = people.sensitive["disease"].to_pylist()[:2]
    # nobody is 200 years old: a condition that no record satisfies
    questions.append(CountQuestion({"age": 200}, "disease", value))
    questions.append(CountQuestion({"region": None, "sex": "F"}, "disease", value))
    questions.append(CountQuestion({}, "disease", other))
    return Workload(tuple(questions), "some")


def asked(release: Any, question: CountQuestion) -> list[float]:
    """What `query` says: the estimate, its standard error, the ends of its interval."""
    row = release.sql(question.sql()).rows()[0]
    shown = [row[name] for name in ("count", "count_stderr", "count_low", "count_high")]
    return [math.nan if number is None else float(number) for number in shown]


def test_every_mechanism_is_tried() -> None:
    assert {parse_mechanism(text).name for text in PROMISES} == set(MECHANISMS)


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
@pytest.mark.parametrize("mechanism", PROMISES)
def test_a_join_answers_as_query_does(mechanism: str, table: sf.Table, tmp_path: Path) -> None:
    sf.publish(table, PROMISES[mechanism], to=tmp_path / "r", mechanism=mechanism, seed=5)
    workload = some_questions(table)
    found = release_answers(workload, tmp_path / "r")
    opened = sf.open(tmp_path / "r")
    for place, question in enumerate(workload.questions):
        parts = [part[place] for part in (found.estimates, found.stderrs, found.low, found.high)]
        said = asked(opened, question)
        assert parts[:2] == pytest.approx(said[:2], rel=1e-7, abs=1e-7, nan_ok=True), question.sql()
        # ends are found by halving, all those of a batch together
        assert parts[2:] == pytest.approx(said[2:], rel=1e-3, abs=1e-3, nan_ok=True), question.sql()


def test_true_counts_are_those_of_sql(table: sf.Table) -> None:
    import duckdb

    workload = some_questions(table)
    records = pa.Table.from_batches(table.batches(("age", "sex", "region", "disease")))
    connection = duckdb.connect()
    connection.register("release", records)
    truth = [connection.execute(q.sql()).fetchall()[0][0] for q in workload.questions]
    assert true_counts(workload, people_of(table)).tolist() == truth


def test_a_seed_repeats_and_a_file_keeps(table: sf.Table, tmp_path: Path) -> None:
    people = people_of(table)
    one, same = (generate_workload(people, count=30, seed=7) for _ in range(2))
    other = generate_workload(people, count=30, seed=8)
    texts = [[q.sql() for q in w.questions] for w in (one, same, other)]
    assert texts[0] == texts[1] != texts[2]
    assert len(set(texts[0])) == len(texts[0])
    one.save(tmp_path / "w.sql")
    header, *statements = (tmp_path / "w.sql").read_text().splitlines()
    assert "conjunctions(count=30, seed=7" in header
    assert statements == [f"{text};" for text in texts[0]]


def test_small_and_large_counts_are_kept_apart(people: People) -> None:
    coded = people_of(declared(people(12_000)))
    sizes = size_classes(coded.rows)
    for size in sizes:
        workload = generate_workload(coded, count=8, seed=2, classes=[size])
        truth = true_counts(workload, coded)
        assert len(truth) == 8
        assert size.least <= truth.min() <= truth.max() <= size.most
    truth = true_counts(generate_workload(coded, count=24, seed=2), coded)
    assert [int(size.holds(truth).sum()) for size in sizes] == [8, 8, 8]


def test_classes_that_a_table_lacks_leave_their_share_to_others(table: sf.Table) -> None:
    people = people_of(table)
    vast = SizeClass("vast", 10**6, 10**7)
    found = generate_workload(people, count=10, classes=[vast, SizeClass("small", 1, 10)])
    assert len(found) == 10


def test_values_of_all_types_can_be_asked_again() -> None:
    import datetime

    frame = pa.table(
        {
            "born": [datetime.date(1990, 1, 1), datetime.date(1991, 2, 3), None, None],
            "height": [1.5, 1.6, 1.7, float("nan")],
            "left": [True, False, None, True],
            "name's": ["it's", 'a "b"', "c;--", None],
            "cost": [-1, 2, 3, -4],
        }
    )
    table = sf.read(frame, quasi=["born", "height", "left", "name's"], sensitive="cost")
    people = people_of(table)
    questions = [
        CountQuestion({name: value}, "cost", cost)
        for name, domain in people.quasi.items()
        for value, cost in zip(domain.to_pylist(), (-4, -1, 2, 3), strict=False)
    ]
    workload = Workload(tuple(questions), "types")
    import duckdb

    connection = duckdb.connect()
    connection.register("release", frame)
    truth = [connection.execute(q.sql()).fetchall()[0][0] for q in questions]
    assert true_counts(workload, people).tolist() == truth


def test_merged_values_are_taken_as_evenly_filled(people: People, tmp_path: Path) -> None:
    table = declared(people(1500))
    promise = "reconstruction-privacy(0.3, 0.3)"
    sf.publish(table, promise, to=tmp_path / "r", mechanism="sps", seed=1)
    merged = Release(tmp_path / "r").plan.merges["region"]
    whole = next(each for each in merged if len(each.values) > 1)
    part = CountQuestion({"region": whole.values[0]}, "disease", "flu")
    label = CountQuestion({"region": whole.label}, "disease", "flu")
    found = release_answers(Workload((part, label), ""), tmp_path / "r")
    estimate, stderr, *_ = asked(sf.open(tmp_path / "r"), label)
    assert 0 < found.estimates[0] < found.estimates[1]
    assert found.estimates[1] == pytest.approx(estimate)
    assert found.stderrs[1] == pytest.approx(stderr)
    assert math.isnan(found.stderrs[0])


def test_what_cannot_be_asked_is_said(table: sf.Table, tmp_path: Path) -> None:
    people = people_of(table)
    with pytest.raises(UsageError, match="a count of at least 1"):
        generate_workload(people, count=0)
    with pytest.raises(UsageError, match="is no sensitive column"):
        generate_workload(people, column="age")
    with pytest.raises(DataError, match="too few records"):
        generate_workload(people, classes=[SizeClass("vast", 10**9, 10**9)], count=2)
    sf.publish(table, "rho-privacy(0.3, 0.6)", to=tmp_path / "r", mechanism="uniform", seed=1)
    foreign = Workload((CountQuestion({}, "disease", "plague"),), "")
    with pytest.raises(UsageError, match="asks for 'plague'"):
        release_answers(foreign, tmp_path / "r")
    with pytest.raises(UsageError, match="asks for 'plague'"):
        true_counts(foreign, people)


def test_a_value_that_stands_everywhere_has_no_answer(tmp_path: Path) -> None:
    """Half of the records in groups of two: decoys tell nothing about them (errata S3)."""
    frame = pa.table({"age": [1, 2] * 200, "s": ["a", "b", "a", "c"] * 100})
    table = sf.read(frame, quasi="age", sensitive="s")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPromiseWarning)
        sf.publish(table, "small-sum(2)", to=tmp_path / "r", mechanism="splu", seed=1)
    workload = Workload((CountQuestion({"age": 1}, "s", "a"),), "")
    assert math.isnan(release_answers(workload, tmp_path / "r").estimates[0])
