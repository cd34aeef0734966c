"""Jobs: from the first click to the download; cancelled ones; those of a dead server."""

from __future__ import annotations

import io
import json
import signal
import stat
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import DataError
from sfumato.web.state import StateFolder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that takes some seconds to publish."""
    folder = tmp_path_factory.mktemp("large")
    some = pa.table(
        {
            "age": pa.array([20 + k % 60 for k in range(10_000)], pa.int64()),
            "disease": pa.array([f"illness {k * k % 37}" for k in range(10_000)]),
        }
    )
    with pq.ParquetWriter(folder / "large.parquet", some.schema) as writer:
        for _ in range(120):
            writer.write_table(some)
    return folder


LARGE_ROLES = {"age": "quasi", "disease": "sensitive"}


def test_from_table_to_download(site: Any, tmp_path: Path) -> None:
    table = site.table("people.parquet")
    assert table["rows"] == 2000
    columns = {column["name"]: column for column in table["columns"]}
    assert columns["disease"]["suggestion"]["role"] == "sensitive"
    assert columns["disease"]["distinct"] == 6
    assert sum(bar["count"] for bar in columns["disease"]["histogram"]["bars"]) == 2000
    assert columns["age"]["histogram"]["kind"] == "bins"
    again = site.client.get(f"/api/tables/{table['table']}").json()
    assert again == table | {"draft": None}
    roles = {"age": "quasi", "sex": "quasi", "region": "drop", "disease": "sensitive"}
    profile = site.counted(table["table"], roles)
    allowed = {each["promise"]: each for each in profile["allowed"]}
    assert allowed["l-diversity"]["limit"].startswith("From 'l-diversity(3)'")
    for each in allowed.values():
        assert each["allowed"], each
        answer = site.post("/api/predict", profile=profile["profile"], guarantee=each["example"])
        assert answer.status_code == 200, answer.text
        seen = answer.json()
        assert seen["feasible"], seen
        assert len(seen["ceilings"]) == 6
        assert seen["errors"]
        assert seen["statement"]
        assert seen["does_not_protect"]
    job = site.start(kind="publish", profile=profile["profile"], guarantee="l-diversity(3)")
    with site.client.stream("GET", f"/api/jobs/{job['id']}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in stream.iter_lines() if line.startswith("data: ")]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert events[-1]["state"] == "done"
    summary = events[-1]["summary"]
    assert summary["rows"] == 2000
    assert str(site.data) not in json.dumps(events)
    assert str(site.state) not in json.dumps(events)
    answer = site.client.get(f"/api/jobs/{job['id']}/release.zip")
    zipfile.ZipFile(io.BytesIO(answer.content)).extractall(tmp_path)
    (folder,) = tmp_path.iterdir()
    own = sf.open(folder).sql("SELECT disease, COUNT(*) FROM release GROUP BY disease")
    told = site.post(
        "/api/query",
        job=job["id"],
        sql="SELECT disease, COUNT(*) FROM release GROUP BY disease",
        estimator="",  # the page's usual one
    ).json()
    assert told["rows"] == own.to_json()["rows"]
    assert [each["value"] for each in told["estimates"]] == [row["count"] for row in own.rows()]
    assert sf.audit(site.data / "people.parquet", folder).holds


def test_an_infeasible_promise(site: Any, release: dict[str, Any]) -> None:
    profile = release["profile"]
    seen = site.post("/api/predict", profile=profile, guarantee="l-diversity(5)").json()
    assert seen["feasible"] is False
    assert seen["witness"] == "'angina'"
    assert seen["nearest"] == "l-diversity(3)"
    job = site.wait(site.start(kind="publish", profile=profile, guarantee="l-diversity(5)"))
    assert job["state"] == "failed"
    assert job["summary"] == {"witness": "'angina'", "nearest": "l-diversity(3)"}
    assert [path.name for path in (site.state / "jobs" / job["id"]).iterdir()] == ["job.json"]
    for path in ("release.zip", "report"):
        assert site.client.get(f"/api/jobs/{job['id']}/{path}").status_code in (400, 404)
    assert site.post("/api/query", job=job["id"], sql="SELECT 1").status_code == 400


def test_a_table_that_changed_is_not_published(site: Any) -> None:
    place = site.data / "changing.parquet"
    pq.write_table(pa.table({"age": [1, 2, 3] * 20, "disease": ["a", "b", "c"] * 20}), place)
    profile = site.profile("changing.parquet", LARGE_ROLES)
    pq.write_table(pa.table({"age": [1, 2, 3] * 20, "disease": ["a", "b", "d"] * 20}), place)
    job = site.wait(site.start(kind="publish", profile=profile, guarantee="l-diversity(2)"))
    assert job["state"] == "failed"
    assert "has changed" in job["error"]


def test_removing_a_job_removes_its_files(site: Any) -> None:
    job = site.published()
    folder = site.state / "jobs" / job["id"]
    assert (folder / "release" / "manifest.json").is_file()
    assert site.client.delete(f"/api/jobs/{job['id']}").json() == {}
    assert not folder.exists()
    assert site.client.get(f"/api/jobs/{job['id']}").status_code == 404


def test_the_state_is_private(site: Any, release: dict[str, Any]) -> None:
    assert stat.S_IMODE(site.state.stat().st_mode) == 0o700
    for path in (site.state / "jobs" / release["id"]).rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or path.is_dir(), path


def test_two_servers_do_not_share_a_state(site: Any) -> None:
    with pytest.raises(DataError, match="Another server"):
        StateFolder(site.state)


def leftovers(state: Path) -> list[str]:
    """What workers have written that is no record of a job."""
    return sorted(
        str(path.relative_to(state))
        for room in ("temp", "jobs")
        for path in (state / room).rglob("*")
        if path.is_file() and path.name != "job.json"
    )


@pytest.mark.slow
def test_cancel_two_jobs_and_a_restart(
    program: Callable[..., Any], alive: Callable[[int], bool], large: Path
) -> None:
    """Cancel kills and cleans; a third job waits; a killed server leaves no worker and no file."""
    server = program(large)
    profile = server.profile("large.parquet", LARGE_ROLES)
    publish = {"kind": "publish", "profile": profile, "guarantee": "l-diversity(3)"}
    finished = server.wait(server.start(**publish))
    assert finished["state"] == "done", finished
    kept = leftovers(server.state)

    jobs = [server.start(**publish) for _ in range(3)]
    for job in jobs[:2]:
        server.wait(job, lambda found: found["state"] == "running" and found["done"] > 0)
    assert server.job(jobs[2]["id"])["state"] == "waiting"
    end = time.monotonic() + 60
    while leftovers(server.state) == kept and time.monotonic() < end:
        time.sleep(0.005)
    assert leftovers(server.state) != kept
    for job in (jobs[2], *jobs[:2]):
        answer = server.post(f"/api/jobs/{job['id']}/cancel")
        assert answer.json()["state"] == "cancelled"
    assert leftovers(server.state) == kept
    assert server.post(f"/api/jobs/{finished['id']}/cancel").json()["state"] == "done"

    last = server.start(**publish)
    server.wait(last, lambda found: found["state"] == "running" and found["done"] > 0)
    workers = server.workers()
    assert workers
    server.stop(signal.SIGKILL)
    end = time.monotonic() + 20
    while any(map(alive, workers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(alive, workers))

    again = program(large, port=int(server.port))
    found = {job["id"]: job for job in again.client.get("/api/jobs").json()}
    assert found[last["id"]]["state"] == "failed"
    assert "server stopped" in found[last["id"]]["error"]
    assert {found[job["id"]]["state"] for job in jobs} == {"cancelled"}
    assert found[finished["id"]]["state"] == "done"
    assert leftovers(again.state) == kept
    sql = "SELECT COUNT(*) FROM release"
    answer = again.post("/api/query", job=finished["id"], sql=sql).json()
    assert answer["estimates"][0]["value"] == pytest.approx(1_200_000)
    # and one that is asked to stop marks what it stops
    last = again.start(**publish)
    again.wait(last, lambda found: found["state"] == "running")
    workers = again.workers()
    again.stop()
    assert not any(map(alive, workers))
    record = json.loads((again.state / "jobs" / last["id"] / "job.json").read_text())
    assert record["state"] == "failed"
    assert leftovers(again.state) == kept


def test_who_leaves_stops_the_work(
    program: Callable[..., Any], alive: Callable[[int], bool], large: Path
) -> None:
    """A page that is closed while a table is read does not leave a worker behind."""
    pa.csv.write_csv(pq.read_table(large / "large.parquet"), large / "slow.csv")
    server = program(large)
    before = set(server.workers())
    with pytest.raises(httpx.ReadTimeout):
        server.client.post(
            "/api/tables", json={"source": {"root": "0", "path": "slow.csv"}}, timeout=0.3
        )
    end = time.monotonic() + 30
    while (set(server.workers()) & before) and time.monotonic() < end:
        time.sleep(0.05)
    assert not set(server.workers()) & before
    assert list((server.state / "tables").iterdir()) == []  # it was stopped, not finished
