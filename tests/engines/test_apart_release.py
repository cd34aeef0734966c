"""Releases whose sensitive columns have buckets of their own: end to end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.app import _whole_program
from sfumato.errors import BundleError, QueryError, UsageError
from sfumato.learn import NaiveBayes
from sfumato.mechanisms.buckets.plan import BucketedPlan
from sfumato.release import ApartRelease, FileEntry

ROLES = {"quasi": "age,sex,place", "sensitive": "job,school"}
APART = "optimal(buckets=apart)"


def made(linked: float, rows: int = 800) -> pa.Table:
    rng = np.random.default_rng(1)
    job = rng.choice(6, rows, p=[0.25, 0.2, 0.2, 0.15, 0.12, 0.08])
    school = np.where(rng.random(rows) < linked, job % 5, rng.choice(5, rows))
    return pa.table({
        "age": rng.integers(20, 90, rows), "sex": rng.choice(["F", "M"], rows),
        "place": rng.integers(0, 40, rows), "job": [f"j{code}" for code in job],
        "school": [f"s{code}" for code in school],
    })  # fmt: skip


@pytest.fixture(scope="module")
def people() -> pa.Table:
    return made(0.5)


@pytest.fixture(scope="module")
def release(people: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("apart") / "release"
    sf.publish(people, "beta-likeness(1)", to=to, mechanism=APART, **ROLES)
    return to


def resealed(release: Path, to: Path, **changed: object) -> Path:
    """A copy whose manifest fits its files again, as whoever forges a release would write it."""
    manifest = json.loads((release / "manifest.json").read_text())
    manifest |= changed
    for name in manifest["files"]:
        entry = FileEntry.of(to / name)
        manifest["files"][name] = {"sha256": entry.sha256, "bytes": entry.bytes}
    (to / "manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return to


def test_records_show_a_bucket_for_every_column(people: pa.Table, release: Path) -> None:
    opened = sf.open(release)
    assert isinstance(opened, ApartRelease)
    records = pq.read_table(release / "records.parquet")
    assert records.column_names == ["age", "sex", "place", "bucket_job", "bucket_school"]
    for place, column in enumerate(("job", "school"), 1):
        listed = pq.read_table(release / f"sensitive_{place}.parquet").to_pandas()
        sizes = listed.groupby("bucket")["count"].sum()
        held = records.to_pandas()[f"bucket_{column}"].value_counts()
        assert (sizes.sort_index() == held.sort_index()).all()
        raw = people.to_pandas()[column].value_counts()
        assert (listed.groupby(column)["count"].sum() == raw.sort_index()).all()
        shares = listed["count"] / listed["bucket"].map(sizes)
        assert (shares <= listed[column].map(2 * raw / len(people)) + 1e-12).all()


def test_statement_and_audit_tell_what_all_columns_tell(people: pa.Table, release: Path) -> None:
    told = sf.open(release).manifest.statement
    assert any("Together the columns job, school tell more" in each for each in told)
    verdict = sf.audit(people, release)
    assert verdict.holds, verdict
    together = [each for each in verdict.findings if each.check.name == "together"]
    assert [each.column for each in together] == ["job", "school"]
    judged = {each.column for each in verdict.findings if each.check.name == "ceilings"}
    assert judged == {"job", "school"}
    assert "dealt-apart" in {each.check.name for each in verdict.findings}


def test_an_audit_finds_each_lie(people: pa.Table, release: Path, tmp_path: Path) -> None:
    silent = shutil.copytree(release, tmp_path / "silent")
    told = json.loads((release / "manifest.json").read_text())["statement"]
    resealed(release, silent, statement=[each for each in told if "Together" not in each])
    found = sf.audit(people, silent)
    assert not found.holds
    assert [f.check.name for f in found.findings if f.result.value == "fails"][-1:] == ["words"]

    # the rarest job of other buckets in exchange for what the first one holds, until it exceeds
    gathered = shutil.copytree(release, tmp_path / "gathered")
    schema = pq.read_schema(gathered / "sensitive_1.parquet")
    listed = pq.read_table(gathered / "sensitive_1.parquet").to_pandas()
    held = listed.pivot_table(index="bucket", columns="job", values="count", fill_value=0)
    held = held.astype(int)
    first, rare, size = held.index[0], held.sum().idxmin(), int(held.iloc[0].sum())
    for bucket in held.index[1:]:
        given = held.loc[first].drop(rare).idxmax()
        if held.at[bucket, rare]:
            held.loc[[first, bucket], rare] += [1, -1]
            held.loc[[first, bucket], given] += [-1, 1]
        if held.at[first, rare] / size > 2 * held[rare].sum() / len(people):
            break
    forged = held.stack().rename("count").reset_index()
    forged = forged[forged["count"] > 0][listed.columns]
    pq.write_table(
        pa.Table.from_pandas(forged, schema=schema, preserve_index=False).replace_schema_metadata(),
        gathered / "sensitive_1.parquet",
    )
    found = sf.audit(people, resealed(release, gathered))
    failed = [f for f in found.findings if f.result.value == "fails"]
    assert ("ceilings", "job") in {(f.check.name, f.column) for f in failed}


def test_deals_that_follow_one_another_are_found(
    people: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slots by rank instead of by a permutation: both columns then follow the table's order."""

    def in_order(self: BucketedPlan, codes: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        return self.bucket_at(codes, ranks)

    monkeypatch.setattr(BucketedPlan, "bucket_of", in_order)
    sf.publish(people, "beta-likeness(1)", to=tmp_path / "r", mechanism=APART, **ROLES)
    failed = {f.check.name for f in sf.audit(people, tmp_path / "r").findings
              if f.result.value == "fails"}  # fmt: skip
    assert {"dealt-apart", "dealing"} <= failed


def test_all_people_of_a_value_are_counted_exactly(people: pa.Table, release: Path) -> None:
    rows = sf.open(release).sql("SELECT job, COUNT(*) AS n FROM release GROUP BY job").rows()
    truth = people.to_pandas().job.value_counts()
    assert all(abs(row["n"] - truth[row["job"]]) < 1e-6 for row in rows)


def test_combinations_are_answered_with_intervals(people: pa.Table, release: Path) -> None:
    """30 combinations within one condition: 95 % intervals miss more than 6 with a chance of
    0.1 % if they were independent; here the draws are repeatable."""
    frame = people.to_pandas()
    opened, held = sf.open(release), 0
    asked = "SELECT job, school, COUNT(*) AS n FROM release WHERE sex = 'F' GROUP BY job, school"
    rows = opened.sql(asked).rows()
    assert len(rows) == 30
    for row in rows:
        true = (frame.sex == "F") & (frame.job == row["job"]) & (frame.school == row["school"])
        held += row["n_low"] <= true.sum() <= row["n_high"]
    assert held >= 24
    total = sum(row["n"] for row in rows)
    assert abs(total - (frame.sex == "F").sum()) < 1e-6
    for estimator in ("inverse", "uniform"):
        assert len(opened.sql(asked, estimator=estimator).rows()) == 30
    # a sum over the other column is the column's own
    mean = opened.sql("SELECT AVG(age) AS a FROM release WHERE job = 'j0' AND school = 's0'")
    assert 40 < mean.rows()[0]["a"] < 70


def test_the_default_holds_for_who_sees_all_columns(people: pa.Table, tmp_path: Path) -> None:
    """Shared where columns hang together, with what apart would gain told; apart where not even
    the table's own chance dependence reaches a ceiling."""
    done = sf.publish(people, "beta-likeness(1)", to=tmp_path / "shared", **ROLES)
    assert done.manifest.kind == "bucketed"
    assert "buckets=apart" in done.offer
    assert "knows how the columns hang together" in done.offer
    codes = np.array([(j, s) for j in range(6) for s in range(5)] * 20)
    apart = pa.table({"age": np.arange(600) % 50, "job": [f"j{j}" for j in codes[:, 0]],
                      "school": [f"s{s}" for s in codes[:, 1]]})  # fmt: skip
    done = sf.publish(apart, "beta-likeness(1)", to=tmp_path / "apart", quasi="age",
                      sensitive="job,school", mechanism="optimal")  # fmt: skip
    assert done.manifest.kind == "bucketed-apart"
    assert not any("Together" in each for each in done.manifest.statement)
    assert sf.audit(apart, tmp_path / "apart").holds


def test_what_apart_does_not_promise_is_refused(people: pa.Table, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="promises nothing about what columns"):
        sf.publish(people, "beta-likeness(1)", to=tmp_path / "j", mechanism=APART, joint=True,
                   **ROLES)  # fmt: skip
    with pytest.raises(UsageError, match="must be one of shared, apart"):
        sf.publish(people, "beta-likeness(1)", to=tmp_path / "o", mechanism="optimal(buckets=own)",
                   **ROLES)  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_attacks_reports_and_learners_go_column_by_column(people: pa.Table, release: Path) -> None:
    found = sf.attack(people, release, attacks="definetti", targets=50, fresh=False)
    assert [outcome.column for outcome in found] == ["job", "school"]
    with pytest.raises(UsageError, match="buckets of their own"):
        sf.attack(people, release, attacks="intersection", others=[release])
    with pytest.raises(QueryError, match="sensitive"):
        sf.open(release).complete(1)
    learned = NaiveBayes().fit(sf.open(release), target="job")
    assert len(learned.classes_) == 6


def test_a_damaged_folder_is_refused(release: Path, tmp_path: Path) -> None:
    bad = shutil.copytree(release, tmp_path / "bad")
    plan = json.loads((bad / "manifest.json").read_text())["plan"]
    del plan["columns"]["school"]
    with pytest.raises(BundleError, match="needs 'columns'"):
        sf.open(resealed(release, bad, plan=plan))
    stray = shutil.copytree(release, tmp_path / "stray")
    records = pq.read_table(stray / "records.parquet")
    moved = pa.array(np.full(len(records), 10**6), pa.int32())
    pq.write_table(records.set_column(4, "bucket_school", moved), stray / "records.parquet")
    with pytest.raises(BundleError, match="in a bucket that lists no values"):
        sf.open(resealed(release, stray))


def test_command_line_and_receipt(people: pa.Table, tmp_path: Path) -> None:
    pq.write_table(people, tmp_path / "people.parquet")
    roles = ["--quasi", "age,sex,place", "--sensitive", "job,school"]
    run = CliRunner().invoke(_whole_program(), [
        "publish", str(tmp_path / "people.parquet"), *roles, "--guarantee", "beta-likeness(1)",
        "--mechanism", APART, "--out", str(tmp_path / "r"), "--receipt", str(tmp_path / "receipt"),
    ])  # fmt: skip
    assert run.exit_code == 0, run.output
    paths = [str(tmp_path / name) for name in ("people.parquet", "r", "receipt")]
    again = CliRunner().invoke(_whole_program(), ["audit", *paths[:2], "--receipt", paths[2]])
    assert again.exit_code == 0, again.output


def test_crosstabs_of_two_sensitive_columns(people: pa.Table, tmp_path: Path) -> None:
    """Dealt apart, columns that hang together are found to; dealt together, nothing is tested."""
    for name in ("apart", "shared"):
        sf.publish(people, "l-diversity(2)", to=tmp_path / name, **ROLES,
                   mechanism=f"optimal(buckets={name})")  # fmt: skip
    found = sf.open(tmp_path / "apart").crosstab("job", "school")
    assert found.test.p_value < 1e-6
    shared = sf.open(tmp_path / "shared")
    assert "dealt by both" in str(shared.crosstab("job", "school"))
    assert shared.crosstab("school", "sex").test.p_value > 1e-3  # sexes were drawn
