"""Releases whose buckets list several columns: end to end."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import InfeasibleGuarantee, UsageError
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


def test_a_receipt_repeats_it(people: pa.Table, tmp_path: Path) -> None:
    sf.publish(people, "l-diversity(4)", to=tmp_path / "r", receipt=tmp_path / "receipt", **ROLES)
    assert sf.audit(people, tmp_path / "r", receipt=tmp_path / "receipt").holds


def test_what_cannot_be_done_is_one_sentence(people: pa.Table, tmp_path: Path) -> None:
    to = tmp_path / "r"
    with pytest.raises(UsageError, match=r"hides one sensitive column.*Leave the parameters out"):
        sf.publish(
            people, "l-diversity(4)", to=to, mechanism="optimal(objective=two-size)", **ROLES
        )
    with pytest.raises(UsageError, match="hides one sensitive column"):
        sf.publish(people, "l-diversity(4)", to=to, mechanism="optimal(fakes=2)", **ROLES)
    with pytest.raises(UsageError, match="says nothing of combinations"):
        sf.publish(people, "f-privacy(theta=3, limits=j0:0.5)", to=to, joint=True, **ROLES)
    with pytest.raises(InfeasibleGuarantee, match="above its ceiling"):
        sf.publish(people, "l-diversity(6)", to=to, **ROLES)
    rare = people.set_column(3, "school", pa.array(["x"] * 900 + ["y"] * 600 + ["z"] * 500))
    with pytest.raises(InfeasibleGuarantee, match=r"column 'job'.*'l-diversity\(2\)'") as refused:
        sf.publish(rare, "l-diversity(6)", to=to, **ROLES)
    assert refused.value.nearest == "l-diversity(2)"  # of job alone it would be 4
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
    assert opened.manifest.plan.blocks
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
    for size in np.unique(sizes[: begin[2]]):
        here = [low + np.flatnonzero(sizes[low:high] == size) for low, high in pairwise(begin[:3])]
        for one, other in zip(*here, strict=False):
            moved[[one, other]] = other, one
    listed = listed.set_column(0, "bucket", pa.array(moved[first].astype(np.int32)))
    listed = listed.sort_by([(name, "ascending") for name in listed.column_names[:-1]])
    pq.write_table(listed.replace_schema_metadata(), forged / "sensitive.parquet")
    entry = FileEntry.of(forged / "sensitive.parquet")
    manifest["files"]["sensitive.parquet"] = {"sha256": entry.sha256, "bytes": entry.bytes}
    (forged / "manifest.json").write_text(json.dumps(manifest))
    found = sf.audit(people, forged)
    failed = {finding.check.name for finding in found.findings if finding.holds is False}
    assert failed & {"members", "room"}


def test_local_buckets_limit_combinations_and_refuse_fakes(
    people: pa.Table, tmp_path: Path
) -> None:
    sf.publish(people, "l-diversity(2)", to=tmp_path / "r", mechanism="local(min=150)", joint=True,
               **ROLES)  # fmt: skip
    verdict = sf.audit(people, tmp_path / "r")
    assert verdict.holds, [f for f in verdict.findings if f.holds is False]
    with pytest.raises(UsageError, match="local has no parameter 'fakes'"):
        sf.publish(people, "l-diversity(2)", to=tmp_path / "f", mechanism="local(fakes=2)", **ROLES)
