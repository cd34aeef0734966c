"""Releases whose buckets list several columns, or people with several rows: end to end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.mechanisms.buckets.local_shared import LocalSharedPlan
from sfumato.release import FileEntry

ROLES = {"quasi": "age,sex", "sensitive": "job,school"}


@pytest.fixture(scope="module")
def people() -> pa.Table:
    rng = np.random.default_rng(1)
    job = rng.choice(8, 2000, p=[0.2, 0.2, 0.15, 0.15, 0.1, 0.1, 0.07, 0.03])
    school = (job + rng.choice(4, 2000)) % 7
    return pa.table({
        "age": rng.integers(20, 90, 2000), "sex": rng.choice(["F", "M"], 2000),
        "job": [f"j{code}" for code in job], "school": [f"s{code}" for code in school],
    })  # fmt: skip


@pytest.fixture(scope="module")
def release(people: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("shared") / "release"
    sf.publish(people, "l-diversity(4)", to=to, **ROLES)
    return to


@pytest.fixture(scope="module")
def stays() -> pa.Table:
    rng = np.random.default_rng(2)
    who = np.repeat(np.arange(600), rng.integers(1, 6, 600))
    own = rng.choice(9, 600)[who]
    ill = np.where(rng.random(len(who)) < 0.4, own, rng.choice(9, len(who)))
    return pa.table({
        "who": who, "age": 20 + who % 60, "ward": rng.choice(4, len(who)),
        "ill": [f"i{code}" for code in ill],
    })  # fmt: skip


def publish_stays(
    stays: pa.Table, to: Path, promise: str = "l-diversity(2)", rows: int = 3
) -> Path:
    sf.publish(stays, promise, to=to, quasi="age,ward", sensitive="ill", person="who",
               rows_per_person=rows)  # fmt: skip
    return to


def test_every_column_keeps_its_ceiling(people: pa.Table, release: Path) -> None:
    listed = pq.read_table(release / "sensitive.parquet").to_pandas()
    sizes = listed.groupby("bucket")["count"].sum()
    for column in ("job", "school"):
        held = listed.groupby(["bucket", column], observed=True)["count"].sum()
        assert (held * 4 <= sizes.reindex(held.index.get_level_values(0)).to_numpy()).all()
    together = listed.groupby(["job", "school"], observed=True)["count"].sum()
    assert together.to_dict() == people.to_pandas().groupby(["job", "school"]).size().to_dict()
    manifest = json.loads((release / "manifest.json").read_text())
    assert any("holds for whoever sees all of them" in said for said in manifest["caveats"])
    assert sf.audit(people, release).holds


@pytest.mark.parametrize("joint", [False, True])
def test_joint_ceilings_hold_for_combinations(
    people: pa.Table, tmp_path: Path, joint: bool
) -> None:
    sf.publish(people, "beta-likeness(3)", to=tmp_path / "r", joint=joint, **ROLES)
    verdict = sf.audit(people, tmp_path / "r")
    assert verdict.holds, verdict
    looked = [finding for finding in verdict.findings if " and " in (finding.about or "")]
    assert bool(looked) == joint
    listed = pq.read_table(tmp_path / "r" / "sensitive.parquet").to_pandas()
    listed["size"] = listed.groupby("bucket")["count"].transform("sum")
    share = listed.groupby(["job", "school"], observed=True)["count"].transform("sum") / 2000
    held = listed["count"] / listed["size"]
    assert bool((held <= 4 * share + 1e-12).all()) == joint


def test_questions_about_one_column_and_about_both(people: pa.Table, release: Path) -> None:
    """Exact without a condition; all values of a condition add up; intervals hold the truth."""
    opened = sf.open(release)
    frame = people.to_pandas()
    for sql, true in (
        ("job = 'j1'", (frame.job == "j1").sum()),
        ("job = 'j1' AND school = 's2'", ((frame.job == "j1") & (frame.school == "s2")).sum()),
    ):
        row = opened.sql(f"SELECT COUNT(*) AS n FROM release WHERE {sql}").rows()[0]
        assert row["n"] == pytest.approx(true, abs=1e-6)
    grouped = opened.sql(
        "SELECT job, school, COUNT(*) AS n FROM release WHERE age < 50 GROUP BY job, school"
    ).rows()
    assert sum(row["n"] for row in grouped) == pytest.approx((frame.age < 50).sum(), abs=1e-3)
    young = frame[frame.age < 50].groupby(["job", "school"]).size()
    inside = [
        row["n_low"] <= young.get((row["job"], row["school"]), 0) <= row["n_high"]
        for row in grouped
    ]
    assert len(grouped) == frame.groupby(["job", "school"]).ngroups
    assert np.mean(inside) >= 0.75
    mixed = opened.sql(
        "SELECT AVG(age) AS a FROM release WHERE job = 'j1' OR school = 's0'"
    ).rows()[0]
    true = frame[(frame.job == "j1") | (frame.school == "s0")].age.mean()
    assert abs(mixed["a"] - true) < 6 * mixed["a_stderr"]
    none = opened.sql(
        "SELECT COUNT(*) AS n FROM release WHERE job = 'j0' AND school = 's6'"
    ).rows()[0]
    assert none["n"] == pytest.approx(0)


def changed(release: Path, to: Path, change: object) -> Path:
    """A copy whose list says something else, with hashes that fit."""
    import shutil

    shutil.copytree(release, to)
    path = to / "sensitive.parquet"
    table = pq.read_table(path)
    pq.write_table(change(table), path, store_schema=False)  # type: ignore[operator]
    manifest = json.loads((to / "manifest.json").read_text())
    entry = FileEntry.of(path)
    manifest["files"]["sensitive.parquet"] = {"sha256": entry.sha256, "bytes": entry.bytes}
    (to / "manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return to


def test_an_exchanged_combination_is_found(people: pa.Table, release: Path, tmp_path: Path) -> None:
    """Both columns keep their counts; only who has which together is false."""

    def exchange(table: pa.Table) -> pa.Table:
        school = table.column("school").combine_chunks()
        order = np.arange(len(table))
        order[0::2], order[1::2] = order[1::2].copy(), order[0::2][: len(order[1::2])].copy()
        return table.set_column(table.column_names.index("school"), "school", school.take(order))

    verdict = sf.audit(people, changed(release, tmp_path / "r", exchange))
    assert not verdict.holds
    failed = {finding.check.name for finding in verdict.findings if finding.holds is False}
    assert failed & {"bucket-histogram", "members", "room"}


@pytest.mark.parametrize("rows", [2, 3])
def test_people_stand_in_one_bucket_with_all_rows(
    stays: pa.Table, tmp_path: Path, rows: int
) -> None:
    to = publish_stays(stays, tmp_path / "r", rows=rows)
    listed = pq.read_table(to / "sensitive.parquet").to_pandas()
    for _, bucket in listed.groupby("bucket"):
        people = bucket.holder.nunique()
        assert bucket.groupby("holder")["count"].sum().nunique() == 1
        assert (2 * bucket.groupby("ill", observed=True).holder.nunique() <= people).all()
    verdict = sf.audit(stays, to)
    assert verdict.holds, verdict
    assert {"uneven-buckets", "torn-people"} <= {f.check.name for f in verdict.findings}
    row = sf.open(to).sql("SELECT COUNT(*) AS n FROM release WHERE ill = 'i1'").rows()[0]
    assert row["n"] == pytest.approx(listed[listed.ill == "i1"]["count"].sum())


def test_a_person_in_two_buckets_is_found(stays: pa.Table, tmp_path: Path) -> None:
    """The audit follows whom their quasi columns single out."""
    alone = stays.set_column(1, "age", pa.array(stays["who"].to_numpy() + 1000))
    to = publish_stays(alone, tmp_path / "r")
    path = to / "records.parquet"
    records = pq.read_table(path)
    bucket = records.column("bucket").to_numpy().copy()
    frame = records.to_pandas()
    twice = frame[frame.groupby("age").age.transform("size") > 1]
    one = twice.index[0]
    other = twice.index[(twice.bucket != twice.bucket.iloc[0])
                        & (twice.ward == twice.ward.iloc[0])][0]  # fmt: skip
    bucket[[one, other]] = bucket[[other, one]]
    records = records.set_column(records.column_names.index("bucket"), "bucket", pa.array(bucket))
    pq.write_table(records, path, store_schema=False)
    manifest = json.loads((to / "manifest.json").read_text())
    entry = FileEntry.of(path)
    manifest["files"]["records.parquet"] = {"sha256": entry.sha256, "bytes": entry.bytes}
    (to / "manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    failed = {f.check.name for f in sf.audit(alone, to).findings if f.holds is False}
    assert "torn-people" in failed


def test_local_buckets_of_people_with_several_rows(
    stays: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut by what is alike in all rows of a person, and by nothing else; an audit notices rows of a
    person in two blocks."""
    monkeypatch.setattr(LocalSharedPlan, "predicted_error", lambda self: 0.0)
    roles = {"quasi": "age,ward", "sensitive": "ill", "person": "who", "rows_per_person": 2}
    done = sf.publish(stays, "l-diversity(2)", to=tmp_path / "r", mechanism="local(min=100)",
                      **roles)  # fmt: skip
    cuts = [each["column"] for each in done.manifest.plan["blocks"] if "column" in each]
    assert set(cuts) == {"age"}
    assert "All rows of a person lie in one block: they are alike in age" in str(
        done.manifest.statement
    )
    listed = pq.read_table(tmp_path / "r" / "sensitive.parquet").to_pandas()
    for _, bucket in listed.groupby("bucket"):
        assert (2 * bucket.groupby("ill", observed=True).holder.nunique()
                <= bucket.holder.nunique()).all()  # fmt: skip
    verdict = sf.audit(stays, tmp_path / "r")
    assert verdict.holds, verdict
    sql = "SELECT COUNT(*) AS n FROM release WHERE ill = 'i1'"
    row = sf.open(tmp_path / "r").sql(sql).rows()[0]
    assert row["n"] == pytest.approx(listed[listed.ill == "i1"]["count"].sum())
    age = stays["age"].to_numpy().copy()
    (changed_person,) = np.flatnonzero(np.bincount(stays["who"].to_numpy()) > 3)[:1]
    age[np.flatnonzero(stays["who"].to_numpy() == changed_person)[0]] = 79 if age[0] < 50 else 20
    other = stays.set_column(1, "age", pa.array(age))
    failed = {f.check.name for f in sf.audit(other, tmp_path / "r").findings if f.holds is False}
    assert "divided-people" in failed
    with pytest.raises(UsageError, match=r"names ward\. Quasi columns that can be cut: age\."):
        sf.publish(stays, "l-diversity(2)", to=tmp_path / "s", mechanism="local(columns=ward)",
                   **roles)  # fmt: skip


def test_few_people_with_many_rows_show_fewer(tmp_path: Path) -> None:
    """Three people with three rows cannot hide among three: they show two rows each."""
    rng = np.random.default_rng(5)
    who = np.repeat(np.arange(303), [2] * 300 + [3] * 3)
    stays = pa.table({"who": who, "ward": rng.choice(4, len(who)),
                      "ill": [f"i{code}" for code in rng.choice(12, len(who))]})  # fmt: skip
    done = sf.publish(stays, "l-diversity(4)", to=tmp_path / "r", quasi="ward", sensitive="ill",
                      person="who", rows_per_person=3)  # fmt: skip
    assert done.manifest.person is not None
    assert done.manifest.person.shown == (1, 2, 2)
    assert done.manifest.person.withheld == 3
    assert sf.audit(stays, tmp_path / "r").holds


def test_a_receipt_repeats_it(people: pa.Table, stays: pa.Table, tmp_path: Path) -> None:
    sf.publish(people, "l-diversity(4)", to=tmp_path / "r", receipt=tmp_path / "receipt", **ROLES)
    assert sf.audit(people, tmp_path / "r", receipt=tmp_path / "receipt").holds
    sf.publish(stays, "l-diversity(2)", to=tmp_path / "s", receipt=tmp_path / "second",
               quasi="age,ward", sensitive="ill", person="who", rows_per_person=2)  # fmt: skip
    assert sf.audit(stays, tmp_path / "s", receipt=tmp_path / "second").holds


def test_what_cannot_be_done_is_one_sentence(people: pa.Table, tmp_path: Path) -> None:
    to = tmp_path / "r"
    with pytest.raises(UsageError, match="Use the mechanism 'optimal', which hides several"):
        sf.publish(people, "l-diversity(4)", to=to, mechanism="two-size", **ROLES)
    with pytest.raises(UsageError, match="one sensitive column and one row"):
        sf.publish(people, "l-diversity(4)", to=to, mechanism="optimal(fakes=2)", **ROLES)
    with pytest.raises(UsageError, match="says nothing of combinations"):
        sf.publish(people, "f-privacy(theta=3, limits=j0:0.5)", to=to, joint=True, **ROLES)
    with pytest.raises(InfeasibleGuarantee, match="above its ceiling"):
        sf.publish(people, "l-diversity(6)", to=to, **ROLES)
    with pytest.raises(InfeasibleGuarantee, match="Leave max_size out"):
        sf.publish(people, "beta-likeness(1)", to=to, mechanism="optimal(max_size=3)", **ROLES)
    assert not to.exists()


@pytest.fixture(scope="module")
def local(people: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("local") / "release"
    sf.publish(people, "l-diversity(2)", to=to, mechanism="local(min=150)", **ROLES)
    return to


def test_local_buckets_keep_every_column(people: pa.Table, local: Path) -> None:
    """Blocks are cut, every column has the table's ceilings inside them, and answers know both:
    of 16 questions intervals miss more than 3 with a chance below 1 %; the draws repeat."""
    opened = sf.open(local)
    assert opened.manifest.plan["blocks"]
    assert "People are mixed inside" in opened.manifest.statement[0]
    listed = pq.read_table(local / "sensitive.parquet").to_pandas()
    sizes = listed.groupby("bucket")["count"].sum()
    for column in ("job", "school"):
        held = listed.groupby(["bucket", column])["count"].sum()
        assert (2 * held <= held.index.get_level_values("bucket").map(sizes)).all()
    verdict = sf.audit(people, local)
    assert verdict.holds, verdict
    frame, missed = people.to_pandas(), 0
    for number in range(8):
        asked = f"job = 'j{number}' AND age < 50"
        for sql, more in ((asked, True), (f"{asked} AND school = 's2'", frame.school == "s2")):
            row = opened.sql(f"SELECT COUNT(*) AS n FROM release WHERE {sql}").rows()[0]
            true = ((frame.job == f"j{number}") & (frame.age < 50) & more).sum()
            missed += not row["n_low"] <= true <= row["n_high"]
    assert missed <= 3


def test_an_audit_finds_a_local_release_with_exchanged_lists(
    people: pa.Table, local: Path, tmp_path: Path
) -> None:
    """Lists of two blocks change places: people would have others' values."""
    forged = shutil.copytree(local, tmp_path / "forged")
    listed = pq.read_table(forged / "sensitive.parquet")
    first = np.asarray(listed.column("bucket"))
    manifest = json.loads((forged / "manifest.json").read_text())
    begin = np.cumsum([0] + [each["buckets"] for each in manifest["plan"]["blocks"]
                             if "buckets" in each])  # fmt: skip
    sizes = np.bincount(first, np.asarray(listed.column("count"))).astype(int)
    moved = np.arange(len(sizes))
    for one, other in zip(range(begin[1]), range(begin[1], begin[2]), strict=False):
        if sizes[one] == sizes[other]:
            moved[[one, other]] = other, one
    listed = listed.set_column(0, "bucket", pa.array(moved[first].astype(np.int32)))
    listed = listed.sort_by([(name, "ascending") for name in listed.column_names[:-1]])
    pq.write_table(listed.replace_schema_metadata(), forged / "sensitive.parquet")
    entry = FileEntry.of(forged / "sensitive.parquet")
    manifest["files"]["sensitive.parquet"] = {"sha256": entry.sha256, "bytes": entry.bytes}
    (forged / "manifest.json").write_text(json.dumps(manifest))
    found = sf.audit(people, forged)
    failed = {finding.check.name for finding in found.findings if finding.result.value == "fails"}
    assert failed & {"members", "room"}


def test_local_buckets_limit_combinations_and_refuse_fakes(
    people: pa.Table, tmp_path: Path
) -> None:
    sf.publish(people, "l-diversity(2)", to=tmp_path / "r", mechanism="local(min=150)", joint=True,
               **ROLES)  # fmt: skip
    assert sf.audit(people, tmp_path / "r").holds
    with pytest.raises(UsageError, match="fakes are listed beside the values of one"):
        sf.publish(people, "l-diversity(2)", to=tmp_path / "f", mechanism="local(fakes=2)", **ROLES)
