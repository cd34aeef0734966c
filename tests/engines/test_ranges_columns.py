"""Ranges and sets with several sensitive columns: end to end, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import UsageError, WeakPromiseWarning
from sfumato.evidence.penalty import release_penalty
from sfumato.operators.estimator import Forms, Moments, Statistic
from sfumato.operators.ranges import RangeEstimator, ShareSums

ROLES = {"quasi": "age,sex", "sensitive": "job,school"}


@pytest.fixture(scope="module")
def people() -> pa.Table:
    rng = np.random.default_rng(1)
    age = rng.integers(20, 90, 600)
    job = np.where(rng.random(600) < 0.3, age // 15 % 6, rng.choice(6, 600))
    school = np.where(rng.random(600) < 0.5, job % 5, rng.choice(5, 600))
    return pa.table({
        "age": age, "sex": rng.choice(["F", "M"], 600),
        "job": [f"j{code}" for code in job], "school": [f"s{code}" for code in school],
    })  # fmt: skip


@pytest.fixture(scope="module")
def folder(people: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of classes, and its receipt."""
    to = tmp_path_factory.mktemp("columns")
    sf.publish(people, "l-diversity(3)", to=to / "r", mechanism="burel", receipt=to / "t", **ROLES)
    return to


def test_rows_show_every_column_and_say_so(people: pa.Table, folder: Path) -> None:
    records = pq.read_table(folder / "r" / "records.parquet")
    assert records.column_names == ["age_low", "age_high", "sex", "job", "school"]
    frame = people.to_pandas()
    together = records.to_pandas().groupby(["job", "school"]).size()
    assert together.to_dict() == frame.groupby(["job", "school"]).size().to_dict()
    told = sf.open(folder / "r").manifest
    assert len(told.statement) == 2
    assert any("holds for whoever sees all of them" in said for said in told.caveats)
    assert any("often finds the others beside it" in said for said in told.caveats)
    assert 0 < release_penalty(folder / "r").whole < 0.5


def test_audits_judge_every_column_and_tell_of_combinations(
    people: pa.Table, folder: Path, tmp_path: Path, mutate: Any
) -> None:
    verdict = sf.audit(people, folder / "r", receipt=folder / "t")
    assert verdict.holds, verdict
    judged = {f.column: f.value for f in verdict.findings if f.check.name == "group-share"}
    assert set(judged) == {"job", "school"}
    together = [f for f in verdict.findings if f.check.name == "together"]
    assert [f.column for f in together] == ["job and school"]
    assert 0 < together[0].value <= min(judged.values())
    unseen = sf.audit(people, folder / "r")
    assert [f.column for f in unseen.findings if f.check.name == "promise"] == ["job", "school"]

    def exchanged(table: pa.Table) -> pa.Table:
        """Schools that change places: every column keeps its counts, combinations do not."""
        school = table.column("school").combine_chunks().take(pa.array(np.roll(np.arange(600), 1)))
        return table.set_column(table.column_names.index("school"), "school", school)

    bad = mutate(folder / "r", tmp_path / "bad", records=exchanged)
    failed = {
        (f.check.name, f.column)
        for f in sf.audit(people, bad, receipt=folder / "t").findings
        if f.holds is False
    }
    assert ("value-counts", "job and school") in failed
    assert ("sources", None) in failed
    assert not {("value-counts", "job"), ("value-counts", "school")} & failed


def test_a_joint_promise_limits_combinations(people: pa.Table, tmp_path: Path) -> None:
    sf.publish(people, "beta-likeness(2)", to=tmp_path / "r", mechanism="burel", joint=True,
               receipt=tmp_path / "t", **ROLES)  # fmt: skip
    verdict = sf.audit(people, tmp_path / "r", receipt=tmp_path / "t")
    assert verdict.holds, verdict
    judged = [f.column for f in verdict.findings if f.check.name == "group-share"]
    assert judged == ["job", "school", "job and school"]
    said = sf.open(tmp_path / "r").manifest.statement
    assert said[-1] == "The promise holds for what the columns job, school tell together."
    # the same groups under a promise about combinations that they do not keep
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    manifest["guarantee"] = "beta-likeness(1/4)"
    (tmp_path / "r" / "manifest.json").write_text(json.dumps(manifest))
    found = sf.audit(people, tmp_path / "r", receipt=tmp_path / "t").findings
    assert "job and school" in {f.column for f in found if f.holds is False}


def test_questions_about_one_column_and_about_both(people: pa.Table, folder: Path) -> None:
    """Exact without quasi conditions. With one, 60 intervals of 95 %: fewer than 50 would hold by
    chance in one of 10,000 runs, were they right and independent."""
    opened, frame = sf.open(folder / "r"), people.to_pandas()
    for where in ("job = 'j1'", "job = 'j1' AND school = 's2'", "school = 's0' OR job = 'j0'"):
        row = opened.sql(f"SELECT COUNT(*) AS n FROM release WHERE {where}").rows()[0]
        true = frame.query(where.replace("=", "==").replace("AND", "and").replace("OR", "or"))
        assert row["n"] == row["n_low"] == row["n_high"] == len(true)
    held = []
    for most in (40, 65):
        young = frame[frame.age < most].groupby(["job", "school"]).size()
        answers = opened.sql(
            f"SELECT job, school, COUNT(*) AS n FROM release WHERE age < {most} "
            "GROUP BY job, school"
        ).rows()
        assert len(answers) == frame.groupby(["job", "school"]).ngroups == 30
        total = opened.sql(f"SELECT COUNT(*) AS n FROM release WHERE age < {most}").rows()[0]["n"]
        assert sum(row["n"] for row in answers) == pytest.approx(total)
        held += [
            row["n_low"] <= young.get((row["job"], row["school"]), 0) <= row["n_high"]
            for row in answers
        ]
    assert sum(held) >= 50
    asked = "SELECT COUNT(*) AS n FROM release WHERE age < 50 AND school = 's1' AND job = 'j1'"
    with pytest.warns(WeakPromiseWarning, match="evenly filled"):
        filled = opened.sql(asked, estimator="uniform").rows()[0]
    assert filled["n"] > 0
    assert filled["n_stderr"] is None


def test_heterogeneous_keeps_beta_likeness_of_combinations(
    people: pa.Table, tmp_path: Path
) -> None:
    sf.publish(people, "beta-likeness(2)", to=tmp_path / "r", mechanism="heterogeneous",
               receipt=tmp_path / "t", **ROLES)  # fmt: skip
    verdict = sf.audit(people, tmp_path / "r", receipt=tmp_path / "t")
    assert verdict.holds, verdict
    judged = {f.column for f in verdict.findings if f.check.name == "match-share"}
    assert judged == {"job", "school"}
    row = sf.open(tmp_path / "r").sql(
        "SELECT COUNT(*) AS n FROM release WHERE age < 50 AND job = 'j1' AND school = 's1'"
    ).rows()[0]  # fmt: skip
    frame = people.to_pandas()
    true = ((frame.age < 50) & (frame.job == "j1") & (frame.school == "s1")).sum()
    assert row["n_low"] <= true <= row["n_high"]


def test_the_command_line_publishes_asks_audits_and_attacks(
    people: pa.Table, tmp_path: Path, cli: Any
) -> None:
    pq.write_table(people, tmp_path / "people.parquet")
    release, trace = str(tmp_path / "r"), str(tmp_path / "t")
    assert cli(
        "publish", str(tmp_path / "people.parquet"), "--quasi", "age,sex", "--sensitive",
        "job,school", "--guarantee", "l-diversity(2)", "--mechanism", "burel", "--receipt", trace,
        "--out", release,
    ).code == 0  # fmt: skip
    asked = cli("query", release, "SELECT job, COUNT(*) FROM release WHERE age < 40 GROUP BY job")
    assert asked.code == 0
    assert "j5" in asked.out
    assert cli("audit", str(tmp_path / "people.parquet"), release, "--receipt", trace).code == 0
    attacked = cli(
        "attack", str(tmp_path / "people.parquet"), release, "--targets", "50", "--no-fresh"
    )
    assert attacked.code == 0
    assert "school" in attacked.out


@pytest.mark.parametrize(
    ("promise", "way", "roles", "words"),
    [
        ("l-diversity(2)", "ring", {}, "keeps 'l-diversity\\(2\\)' for one sensitive column"),
        ("l-diversity(2)", "heterogeneous", {}, "Use 'burel', 'optimal' or 'local'"),
        ("l-diversity(2)", "burel(classes=curve)", {}, "knows one sensitive column"),
        (
            "l-diversity(2)",
            "burel",
            {"person": "who", "rows_per_person": 2},
            "one row of each person",
        ),
        ("l-diversity(2)", "ring", {"joint": True}, "does not keep 'l-diversity"),
    ],
)
def test_what_is_refused_says_why(
    people: pa.Table, tmp_path: Path, promise: str, way: str, roles: dict[str, Any], words: str
) -> None:
    table = people.append_column("who", pa.array(np.arange(600) // 2))
    given = {"drop": "who"} if "person" not in roles else {}
    with pytest.raises(UsageError, match=words):
        sf.publish(table, promise, to=tmp_path / "r", mechanism=way, **ROLES, **given, **roles)
    assert not (tmp_path / "r").exists()


def test_one_row_of_a_person_may_have_several_columns(people: pa.Table, tmp_path: Path) -> None:
    table = people.append_column("who", pa.array(np.arange(600) // 2))
    done = sf.publish(table, "l-diversity(2)", to=tmp_path / "r", mechanism="burel", person="who",
                      rows_per_person=1, **ROLES)  # fmt: skip
    assert done.manifest.rows == 300
    assert len(pq.read_table(tmp_path / "r" / "records.parquet")) == 300


def test_a_count_that_is_certain_ends_at_the_count() -> None:
    """Sixty-one people for certain, whose shares add up to a rounding less than that."""
    nothing, certain = np.zeros(1), np.array([61.0])
    summed = np.array([61.0 - 7e-15])
    shares = ShareSums(summed, *[nothing] * 5, certain, certain)
    moments = Moments(1, np.array([0]), (np.array([0]),), {("n",): summed, ("n", "n"): summed})
    forms = Forms.of(np.arange(1), np.array([[0]]), np.array([0, 1]))
    asked = Statistic("n", "n", np.ones((1, 1)), np.ones((1, 1), np.bool_))
    totals = RangeEstimator(1, {"n": shares}).estimate(moments).read(forms, [asked])
    low, high = totals.interval(totals.values[0], nothing, 1.96, [1.0])
    assert totals.variance([1.0])[0] == 0
    assert low[0] <= 61 <= high[0]
