"""Starting, watching and cancelling jobs, and taking home what they made."""

from __future__ import annotations

import asyncio
import json
import re
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, StreamingResponse

from sfumato.web.answers import Refusal
from sfumato.web.api import Services, shown_name
from sfumato.web.asked import (
    AskedCards,
    AskedCounts,
    AskedEvidence,
    AskedJob,
    checked,
)
from sfumato.web.bodies import read_object
from sfumato.web.jobs import ABOUT, CARDS, Job
from sfumato.web.state import new_identifier, remove
from sfumato.web.tables_api import count_columns

MOST_WAITING = 50
# a report carries its own scripts: it runs alone, without this server's rights
REPORT_POLICY = (
    "sandbox allow-scripts allow-modals; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'"
)


async def list_jobs(services: Services, request: Request) -> Any:
    return [job.to_json() for job in services.jobs.all()]


async def start_job(services: Services, request: Request) -> Any:
    body = await read_object(request)
    asked = checked(body, AskedJob)
    if sum(job.state in ("waiting", "running") for job in services.jobs.all()) >= MOST_WAITING:
        raise Refusal(409, "Too many jobs wait already. Cancel some, or wait.")
    job = _job(services, asked, body)
    if job.kind in ABOUT:  # what was counted before is of no use any more
        await services.jobs.replaced(job)
    return job.to_json()


def _job(services: Services, asked: AskedJob, body: dict[str, Any]) -> Job:
    """What the page shows of a job, and what its task is given."""
    if isinstance(asked, AskedCounts):
        return count_columns(services, asked, body)
    new = services.jobs.new
    if isinstance(asked, AskedEvidence):
        published = services.jobs.finished(asked.job, "publish")
        names = {
            "table_name": shown_name(asked.table_name, "") or None,
            "author": shown_name(asked.author, "") or None,
            "release_name": published.name,
        }
        return new(
            "evidence",
            shown_name(asked.name, f"Evidence for {published.name}"),
            {"job": published.id, "table_label": published.asked["table_label"]},
            {
                "table": published.given["table"],
                "release": str(services.jobs.release(published.id)),
                "out": "{folder}/report",
                "attacks": asked.attacks or None,
                "targets": asked.targets,
                "names": names,
            },
        )
    table = services.kept("profiles", asked.profile)["declared"]
    label, shown = table["label"], {"profile": asked.profile}
    if isinstance(asked, AskedCards):
        readers = {"guarded": asked.guarded, "anybody": asked.anybody}
        task = {"table": table, "error": asked.error, **readers}
        name = f"Three promises for {label}"
        return new(CARDS, name, {**shown, "wished": asked.error, **readers}, task)
    shown["table_label"] = label
    promise = asked.words()
    short = asked.guarantee if ":" not in asked.guarantee else "by column"
    task = {
        "table": table,
        **promise,
        "left_out": asked.left_out or None,
        "out": "{folder}/release",
    }
    return new("publish", shown_name(asked.name, f"{label}, {short}"), {**shown, **promise}, task)


async def show_job(services: Services, request: Request, identifier: str) -> Any:
    return services.jobs.get(identifier).to_json()


async def cancel_job(services: Services, request: Request, identifier: str) -> Any:
    return (await services.jobs.cancel(identifier)).to_json()


async def remove_job(services: Services, request: Request, identifier: str) -> Any:
    await services.jobs.remove(identifier)
    return {}


async def job_events(services: Services, request: Request, identifier: str) -> Any:
    jobs = services.jobs
    jobs.get(identifier)

    async def events() -> AsyncIterator[str]:
        async for job in jobs.watch(identifier):
            yield ": still here\n\n" if job is None else f"data: {json.dumps(job.to_json())}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


async def download(services: Services, request: Request, identifier: str) -> Any:
    job = services.jobs.finished(identifier, "publish")
    stem = f"release-{safe_stem(job.asked['table_label'])}-{job.id[:6]}"
    path = services.state.folder("temp", new_identifier())
    await asyncio.to_thread(_zip, services.jobs.release(job.id), path, stem)
    tidy = BackgroundTask(remove, path)
    return FileResponse(path, media_type="application/zip", filename=f"{stem}.zip", background=tidy)


def _zip(folder: Path, to: Path, stem: str) -> None:
    """A release as one file, stored: Parquet is compressed already."""
    with zipfile.ZipFile(to, "w", strict_timestamps=False) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.write(path, f"{stem}/{path.relative_to(folder).as_posix()}")


def safe_stem(label: str) -> str:
    """A file name that no system takes for anything else.

    >>> safe_stem("=cmd|calc!A0.csv"), safe_stem("../../people.parquet")
    ('cmd_calc_A0', 'people')
    """
    stem = re.sub(r"[^A-Za-z0-9]+", "_", Path(label.replace("\\", "/")).stem).strip("_")
    return stem[:60] or "table"


def _report_of(services: Services, job: Job) -> Path:
    """The folder of a job's report; for a release, that of its newest evidence."""
    if job.kind == "publish":
        reports = [
            evidence_job
            for evidence_job in services.jobs.all()
            if evidence_job.kind == "evidence"
            and evidence_job.state == "done"
            and evidence_job.asked["job"] == job.id
        ]
        if not reports:
            raise Refusal(404, "This release has no report yet. Audit it first.")
        job = reports[0]
    return services.jobs.folder(services.jobs.finished(job.id, "evidence")) / "report"


async def show_report(services: Services, request: Request, identifier: str) -> Any:
    page = _report_of(services, services.jobs.get(identifier)) / "report.html"
    return FileResponse(
        page, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY}
    )
