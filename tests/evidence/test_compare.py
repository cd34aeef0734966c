"""Candidates compared: the same for each, failures as rows, nothing left behind."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.audits.catalogue import ROWS
from sfumato.audits.findings import Finding
from sfumato.errors import DataError, UsageError
from sfumato.evidence.accuracy import measure_accuracy, median_figure
from sfumato.evidence.compare import Candidate, Comparison, compare
from sfumato.evidence.compare.candidates import listed, short_names
from sfumato.evidence.compare.comparison import Row
from sfumato.evidence.compare.pages import comparison_page
from sfumato.workloads import WorkloadAnswers
from tests.tables import people

CANDIDATES = [
    "rho-privacy(1/3, 2/3) by uniform",
    "l-diversity(3) by optimal",
    "l-diversity(3) by heterogeneous",
    "l-diversity(100) by optimal",
]
FEW = {"questions": 60, "targets": 200, "fresh": False}


def declared(path: Path) -> sf.Table:
    return sf.read(path, quasi="age,sex,region", sensitive="disease")


@pytest.fixture(scope="module")
def people_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    pq.write_table(people(1200, 3), path)
    return path


@pytest.fixture(scope="module")
def found(people_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    stages: list[tuple[str, int, int]] = []
    out = tmp_path_factory.mktemp("compare") / "report"
    with contextlib.chdir(people_path.parent):
        comparison = compare(
            declared(Path(people_path.name)),
            CANDIDATES,
            out=out,
            progress=lambda *told: stages.append(told),
            **FEW,  # type: ignore[arg-type]
        )
    assert stages[-1] == ("writing the report", 4000, 4000)
    assert any(stage == "heterogeneous: attacking: linkage" for stage, _, _ in stages)
    assert len({done for _, done, _ in stages}) > 20, "it stands still within a candidate"
    assert [done for _, done, _ in stages] == sorted(done for _, done, _ in stages)
    return comparison


@pytest.mark.slow
def test_every_candidate_has_a_row(found: Comparison) -> None:
    names = ["uniform", "l-diversity(3) by optimal", "heterogeneous", "l-diversity(100) by optimal"]
    assert [row.name for row in found.rows] == names
    for row in found.rows[:3]:
        assert row.kept, row.result["audit"]
        assert np.isfinite(row.error.value)
        assert row.strongest is not None
        assert len(row.result["answers"]["estimates"]) == 60
        assert not any(each["exposed"] for each in row.result["attacks"])
    assert found.rows[1].ceiling == pytest.approx(1 / 3)


@pytest.mark.slow
def test_a_failed_candidate_is_a_row_with_its_reason(found: Comparison) -> None:
    failed = found.rows[3]
    assert failed.kept is None
    assert "cannot be kept" in str(failed.failed)
    assert failed.result["nearest"]
    assert "not published" in str(found)
    assert "cannot be kept" in found.page.read_text("utf-8")


@pytest.mark.slow
def test_the_files(found: Comparison) -> None:
    assert sorted(path.name for path in found.out.iterdir()) == [
        "report.html",
        "report.json",
        "workload.sql",
    ]
    assert json.loads(found.data.read_text("utf-8")) == json.loads(json.dumps(found.to_json()))
    assert found.workload.read_text("utf-8").count("SELECT") == 60
    page = found.page.read_text("utf-8")
    assert "Not for publication" in page
    assert page.count("data-chart=") >= 8
    assert found.page.stat().st_size < 3 << 20
    assert found.page.stat().st_mode & 0o077 == 0  # it shows true counts


@pytest.mark.slow
def test_truth_and_errors_are_those_of_the_questions(found: Comparison, people_path: Path) -> None:
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW release AS SELECT * FROM read_parquet('{people_path}')")
    questions = found.workload.read_text("utf-8").splitlines()[1:]
    truth = [connection.execute(sql).fetchall()[0][0] for sql in questions]
    assert truth == list(found.truth)
    for row in found.measured:
        estimates = np.array(row.result["answers"]["estimates"], np.float64)
        mean = float(np.abs(estimates - truth).mean())
        assert row.result["accuracy"]["mean_absolute_error"] == pytest.approx(mean, rel=1e-4)


def test_every_sensitive_column_is_asked_about_and_attacked(tmp_path: Path) -> None:
    """Promises were per column, questions and attacks about the first one alone."""
    work = np.array(["a", "b", "c", "d"])[np.random.default_rng(6).integers(0, 4, 400)]
    table = sf.read(
        people(400, 5).append_column("work", pa.array(work)),
        quasi="age,sex",
        sensitive="disease,work",
        drop="region",
    )
    promise = "disease: l-diversity(3) and work: l-diversity(2)"
    out = tmp_path / "out"
    few: dict[str, Any] = {**FEW, "attacks": ["linkage"]}
    (row,) = compare(table, [promise], out=out, **few).rows
    assert row.kept
    assert {a["column"] for a in row.result["attacks"]} == {"disease", "work"}
    asked = (out / "workload.sql").read_text("utf-8")
    assert min(asked.count('"disease" = '), asked.count('"work" = ')) > 20
    assert any(value.startswith("work: ") for value in row.result["accuracy"]["by_value"])
    assert row.ceiling == pytest.approx(1 / 2)
    (row,) = compare(table, [promise], out=tmp_path / "one", column="work", **few).rows
    assert {a["column"] for a in row.result["attacks"]} == {"work"}
    assert row.ceiling == pytest.approx(1 / 2)


def test_candidates() -> None:
    with pytest.raises(UsageError, match="Cannot read the candidate"):
        Candidate.parse("l-diversity(3) by ")
    with pytest.raises(UsageError, match="no mechanism"):
        Candidate.parse("l-diversity(3) by magic")
    assert listed(["l-diversity(3)", Candidate("l-diversity(3)"), "l-diversity(3) by ring"]) == [
        Candidate("l-diversity(3)"),
        Candidate("l-diversity(3)", "ring"),
    ]
    assert short_names(listed(["l-diversity(3)", "l-diversity(4) by ring"])) == [
        "l-diversity(3)",
        "ring",
    ]


def test_the_interval_of_a_median_covers_it() -> None:
    """Nominal 95 %; of 400 runs at most 30 miss, which an honest interval exceeds once in 300."""
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(400):
        figure = median_figure(rng.exponential(size=75))
        missed += not figure.low <= np.log(2) <= figure.high
    assert missed <= 30


def test_accuracy_leaves_out_what_has_no_answer() -> None:
    truth = np.array([0, 10, 100, 1000])
    estimates = np.array([3.0, 12.0, np.nan, 900.0])
    low, high = np.array([[0.0, np.nan, 1.0, 850.0], [7.0, np.nan, 2.0, 1100.0]])
    answers = WorkloadAnswers(estimates, np.array([2.0, np.nan, 1.0, 60.0]), low, high)
    found = measure_accuracy(truth, answers, ["a", "a", "b", "b"], 1000)
    assert found.mean_absolute_error == pytest.approx((3 + 2 + 100) / 3)
    assert [(each.least, each.questions) for each in found.by_count] == [(1, 1), (301, 1)]
    assert found.by_value == {"a": pytest.approx(0.2), "b": pytest.approx(0.1)}
    assert found.covered == pytest.approx(1.0)
    assert found.median_relative_width == np.inf  # one of two has no interval
    alone = WorkloadAnswers(*(each[3:] for each in (estimates, answers.stderrs, low, high)))
    assert measure_accuracy(truth[3:], alone, ["b"], 1000).median_relative_width == 0.25


@pytest.mark.parametrize(
    ("limit", "said"), [(10, "Every release passed"), (9, "1 checks of the audits failed")]
)
def test_the_page_says_which_checks_failed(limit: int, said: str) -> None:
    """It looked for words that results had before, and so called every release sound."""
    finding = Finding.limited(ROWS, 10, limit)
    accuracy: dict[str, Any] = {"by_count": [], "by_value": {}, "covered": None, "counts_from": 1}
    nothing = {"value": 0.1, "low": 0.1, "high": 0.1}
    result = {
        "accuracy": {**accuracy, "median_relative_error": nothing, "median_relative_width": 0.5},
        "audit": {"findings": [finding.to_json()], "holds": finding.holds},
        "attacks": [],
        "statement": [],
        "caveats": [],
        "attack_problem": None,
        "seconds": {},
    }
    row = Row("uniform", Candidate(CANDIDATES[1].partition(" by ")[0]), result, None, None)
    comparison = Comparison(Path("out"), "people", 9, ("disease",), "some", (), [row], 1.0)
    assert said in comparison_page(comparison)


def test_an_empty_table_is_refused(tmp_path: Path) -> None:
    empty = pa.table({"age": pa.array([], pa.int64()), "s": pa.array([], pa.string())})
    with pytest.raises(DataError, match="no rows"):
        compare(sf.read(empty, quasi="age", sensitive="s"), ["l-diversity(2)"], out=tmp_path)
