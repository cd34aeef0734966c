"""Jobs: from the first click to the download; cancelled ones; those of a dead server."""

from __future__ import annotations

import asyncio
import errno
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
    assert allowed["l-diversity"]["limit"].startswith("l up to 3")
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
    ).json()
    assert told["rows"] == own.to_json()["rows"]
    assert [each["value"] for each in told["estimates"]] == [row["count"] for row in own.rows()]
    assert sf.audit(site.data / "people.parquet", folder).holds


def test_the_sketch_says_so_and_the_plan_can_be_asked_for(site: Any) -> None:
    profile = site.profile("people.parquet")
    # whole plans also try local buckets, which are sharper here: a sketch says that it did not
    asked = {"profile": profile, "guarantee": "l-diversity(2)", "mechanism": "optimal"}
    quick = site.post("/api/predict", **asked).json()
    exact = site.post("/api/predict", **asked, exact=True).json()
    assert quick["quick"]
    assert not exact["quick"]
    for first, second in zip(quick["errors"], exact["errors"], strict=True):
        assert first["count"] == second["count"]
        assert first["error"] == pytest.approx(second["error"], rel=0.15)


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
    for path in ("release.zip", "report", "evidence"):
        assert site.client.get(f"/api/jobs/{job['id']}/{path}").status_code in (400, 404)
    assert site.post("/api/query", job=job["id"], sql="SELECT 1").status_code == 400


@pytest.mark.slow
def test_a_comparison(site: Any) -> None:
    candidates = [{"guarantee": "rho-privacy(0.35, 0.6)"}, {"guarantee": "l-diversity(9)"}]
    profile = site.profile("more/others.parquet")
    job = site.wait(site.start(kind="compare", profile=profile, candidates=candidates))
    assert job["state"] == "done", job
    kept, impossible = job["summary"]["candidates"]
    assert kept["feasible"]
    assert kept["kept"]
    assert 0 < kept["error"] < 1
    assert not impossible["feasible"]
    assert impossible["reason"]
    assert site.client.get(f"/api/jobs/{job['id']}/report").status_code == 200


def test_leaving_out_many_people_has_to_be_asked_for(site: Any) -> None:
    ill = ["none"] * 40 + ["a", "b", "c", "d"] * 5
    pq.write_table(pa.table({"age": list(range(60)), "disease": ill}), site.data / "half.parquet")
    asked = {"kind": "publish", "profile": site.profile("half.parquet", LARGE_ROLES)}
    job = site.wait(site.start(**asked, guarantee="beta-likeness(3)"))
    assert job["state"] == "failed"
    assert "promises nothing about 40 of 60 people" in job["error"]
    job = site.wait(site.start(**asked, guarantee="beta-likeness(3)", left_out="0.7"))
    assert job["state"] == "done", job
    assert any("alone with their quasi values" in note for note in job["summary"]["notes"])
    bad = site.post("/api/jobs", **asked, guarantee="beta-likeness(3)", left_out=[1])
    assert bad.status_code == 400


def test_a_table_that_changed_is_not_published(site: Any) -> None:
    place = site.data / "changing.parquet"
    pq.write_table(pa.table({"age": [1, 2, 3] * 20, "disease": ["a", "b", "c"] * 20}), place)
    profile = site.profile("changing.parquet", LARGE_ROLES)
    pq.write_table(pa.table({"age": [1, 2, 3] * 20, "disease": ["a", "b", "d"] * 20}), place)
    job = site.wait(site.start(kind="publish", profile=profile, guarantee="l-diversity(2)"))
    assert job["state"] == "failed"
    assert "has changed" in job["error"]


def test_a_machine_that_gives_no_process(
    site: Any, release: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfumato.web.workers import Workers

    async def none_left(self: Workers) -> None:
        raise OSError(errno.EAGAIN, "told in the system's own words")

    monkeypatch.setattr(Workers, "fresh", none_left)
    job = site.start(kind="publish", profile=release["profile"], guarantee="l-diversity(2)")
    failed = site.wait(job)
    assert failed["state"] == "failed"
    assert failed["error"].startswith("The system refused: Resource temporarily unavailable")
    answer = site.post("/api/tables", source={"root": "0", "path": "people.parquet"})
    assert answer.status_code == 500
    assert "own words" not in answer.text


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


def test_old_uploads_are_forgotten_unless_a_job_uses_them(locked: Any) -> None:
    site = locked
    assert site.enter(site.sessions.token).status_code == 200
    site.client.headers.update(site.own)
    content = b"age,disease\n" + b"30,flu\n41,ulcer\n" * 20
    kept, lost = (
        site.client.put("/api/uploads", params={"name": "a.csv"}, content=content).json()["source"]
        for _ in range(2)
    )
    table = site.post("/api/tables", source=kept).json()["table"]
    profile = site.counted(table, LARGE_ROLES)["profile"]
    job = site.wait(site.start(kind="publish", profile=profile, guarantee="l-diversity(2)"))
    assert job["state"] == "done", job

    from sfumato.web.jobs import Jobs
    from sfumato.web.workers import Workers

    class Place(StateFolder):
        def __init__(self, path: Path) -> None:  # no lock: the site holds it
            self.path = path

    async def forget(age: float) -> None:
        Jobs(Place(site.state), Workers(Place(site.state), 0), 1).forget_unused(age)

    asyncio.run(forget(3600.0))
    assert (site.state / "uploads" / lost["upload"]).exists()
    asyncio.run(forget(0.0))
    assert not (site.state / "uploads" / lost["upload"]).exists()
    assert (site.state / "uploads" / kept["upload"] / "data.csv").exists()
    assert (site.state / "profiles" / f"{profile}.json").exists()
    assert not (site.state / "tables" / f"{table}.json").exists()


def test_jobs_of_another_version_are_left_alone(tmp_path: Path) -> None:
    from sfumato.web.jobs import Jobs
    from sfumato.web.workers import Workers

    state = StateFolder(tmp_path / "state")
    strange = state.path / "jobs" / ("a" * 16)
    broken = state.path / "jobs" / ("b" * 16)
    for folder in (strange, broken):
        folder.mkdir()
    (strange / "job.json").write_text('{"from": "the future"}')
    (broken / "job.json").write_text("{")

    async def read() -> list[Any]:
        return Jobs(state, Workers(state, 0), 1).all()

    assert asyncio.run(read()) == []
    assert strange.exists()
    assert not broken.exists()
    state.close()
