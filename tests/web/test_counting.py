"""Counting the columns is a job: with a share and time left, cancelled, found again, forgotten."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.pace import Pace
from sfumato.web.jobs import COUNTS, Jobs
from sfumato.web.places import stamp
from sfumato.web.state import StateFolder, read_json
from sfumato.web.tasks import TASKS
from sfumato.web.workers import TaskFailed, Workers
from tests.web.test_going_on import uploaded

ROLES = {"age": "quasi", "sex": "quasi", "region": "quasi", "disease": "sensitive"}


@pytest.mark.parametrize(("person", "passes"), [(None, 1), ("age", 3)])
def test_every_pass_tells_its_share(tmp_path: Path, person: str | None, passes: int) -> None:
    """Four row groups: the share grows with each, and the time left is known before the end."""
    rows = 400
    people = pa.table({"age": [k // 2 for k in range(rows)], "disease": ["flu", "cold"] * 200})
    path, out, told = tmp_path / "people.parquet", tmp_path / "profile.json", []
    pq.write_table(people, path, row_group_size=rows // 4)
    roles = {"age": "quasi" if person is None else "person", "disease": "sensitive"}
    table = {"path": str(path), "label": "people", "stamp": stamp(path), "options": {}}
    asked = {"table": {**table, "roles": roles}, "out": str(out)}
    pace, left = Pace("starting", 0.0), []

    def progress(stage: str, done: int, total: int) -> None:
        told.append((stage, done, total))
        pace.tell(stage, done, total, float(len(told)))
        left.append(pace.left(float(len(told))))

    seen = {"table": "0" * 16, "rows": rows}
    assert TASKS[COUNTS](**asked, seen=seen, progress=progress) == {"profile": "profile"}
    counting = [each for each in told if each[0].startswith("counting")]
    shares = [done / total for _, done, total in counting]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert {total for _, _, total in counting} == {passes * rows}
    assert len(set(shares)) > 4
    assert left[2] is not None, "after two of four row groups nobody knows how long it takes"
    assert read_json(out)["shown"]["rows"] == rows // (1 if person is None else 2)


def test_the_last_counting_of_a_table_is_found_again_and_goes_with_it(site: Any) -> None:
    """By another tab, or after a reload; the one before it is gone, and no upload stays for it."""

    def counting() -> dict[str, Any]:
        (job,) = [job for job in site.client.get("/api/jobs").json() if job.get("table") == table]
        return dict(job)

    table = uploaded(site, "counted.csv")["table"]
    first = site.counted(table, ROLES)["profile"]
    assert site.client.delete(f"/api/jobs/{counting()['id']}").status_code == 200
    assert site.client.get(f"/api/profiles/{first}").status_code == 200, "somebody looks at it"
    site.counted(table, {**ROLES, "sex": "drop"})
    job = counting()
    last = job["summary"]["profile"]
    assert site.client.get(f"/api/profiles/{last}").json()["roles"]["sex"] == "drop"
    assert "flu" not in str(job), "counts are kept in one place"
    assert site.client.delete(f"/api/tables/{table}").status_code == 200
    assert site.client.get(f"/api/jobs/{job['id']}").status_code == 404
    for profile in (first, last):
        assert site.client.get(f"/api/profiles/{profile}").status_code == 404


class _Waits:
    """Workers that count until they are stopped, or fail."""

    def __init__(self) -> None:
        self.asked, self.stopped = asyncio.Event(), 0

    async def fresh(self) -> Any:
        return self

    async def ask(self, task: str, given: dict[str, Any], report: Any) -> Any:
        report("counting", 1, 4)
        if given["fails"]:
            raise TaskFailed({"error": "No."})
        self.asked.set()
        await asyncio.Event().wait()

    async def stop(self, worker: Any) -> None:
        self.stopped += 1


def test_counting_waits_for_no_other_job_and_can_be_cancelled(tmp_path: Path) -> None:
    async def story() -> None:
        workers = _Waits()
        jobs = Jobs(state, workers, at_once=1)  # type: ignore[arg-type]
        jobs.new("publish", "long", {}, {"fails": False})
        await workers.asked.wait()
        workers.asked.clear()
        job = jobs.new(COUNTS, "counts", {"table": "a"}, {"fails": False})
        await workers.asked.wait()
        assert (jobs.get(job.id).state, jobs.get(job.id).total) == ("running", 4)
        assert (await jobs.cancel(job.id)).state == "cancelled"
        assert workers.stopped == 1
        failed = jobs.new(COUNTS, "counts", {"table": "a"}, {"fails": True})
        await jobs.replaced(failed)
        assert [each.id for each in jobs.all() if each.kind == COUNTS] == [failed.id]
        async for now in jobs.watch(failed.id):
            assert now is not None
        assert jobs.get(failed.id).error == "No."
        await jobs.close()

    state = StateFolder(tmp_path / "state")
    asyncio.run(asyncio.wait_for(story(), 60))
    state.close()


def test_old_counts_are_forgotten_with_their_upload(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    upload = state.path / "uploads" / ("0" * 16) / "data.csv"
    upload.parent.mkdir()
    upload.write_text("raw")

    async def story() -> None:
        jobs = Jobs(state, Workers(state, 0), 1)
        given = {"table": {"path": str(upload)}}
        job = jobs.new(COUNTS, "counts", {"table": "a"}, given)
        await jobs.cancel(job.id)
        jobs.forget_unused(3600.0)
        assert upload.exists()
        assert jobs.get(job.id)
        jobs.forget_unused(-1.0)
        assert jobs.all() == []
        assert not upload.exists()
        await jobs.close()

    asyncio.run(asyncio.wait_for(story(), 60))
    state.close()
