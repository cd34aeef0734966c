"""Starting, watching and cancelling jobs, and taking home what they made."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from sfumato.errors import DataError
from sfumato.web.answers import Refusal, answer
from sfumato.web.api import Services, is_share, promise_of, services_of, shown_name
from sfumato.web.bodies import read_object
from sfumato.web.jobs import ABOUT, CARDS, COUNTS, Job
from sfumato.web.state import read_json
from sfumato.web.tables_api import count_columns

MOST_CANDIDATES = 8
MOST_WAITING = 50
MOST_ATTACKS = 20
_CHUNK = 1 << 20
# a report carries its own scripts: it runs alone, without this server's rights
REPORT_POLICY = (
    "sandbox allow-scripts allow-modals; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'"
)


async def list_jobs(request: Request) -> Response:
    return answer([job.to_json() for job in services_of(request).jobs.all()])


async def start_job(request: Request) -> Response:
    services = services_of(request)
    body = await read_object(request)
    if sum(job.state in ("waiting", "running") for job in services.jobs.all()) >= MOST_WAITING:
        raise Refusal(409, "Too many jobs wait already. Cancel some, or wait.")
    starters = {
        "publish": _publish,
        "compare": _compare,
        "evidence": _evidence,
        COUNTS: count_columns,
        CARDS: _cards,
    }
    kind = body.get("kind")
    if not isinstance(kind, str) or kind not in starters:
        raise Refusal(400, f"A job is one of: {', '.join(starters)}.")
    job = starters[kind](services, body)
    if kind in ABOUT:  # what was counted before is of no use any more
        await services.jobs.replaced(job)
    return answer(job.to_json())


def _publish(services: Services, given: dict[str, Any]) -> Job:
    kept = services.kept("profiles", given.get("profile"))
    promise = promise_of(given)
    label = kept["declared"]["label"]
    short = promise["guarantee"] if ":" not in (promise["guarantee"] or "") else "by column"
    name = shown_name(given.get("name"), f"{label}, {short}")
    left_out = given.get("left_out") or None
    if left_out is not None and not (isinstance(left_out, str) and len(left_out) <= 20):
        raise Refusal(400, "The share of people who may be left out is a number such as 0.5.")
    return services.jobs.new(
        "publish",
        name,
        {"profile": given["profile"], **promise, "table_label": label},
        {
            "table": kept["declared"],
            **promise,
            "left_out": left_out,
            "out": "{folder}/release",
        },
    )


def _compare(services: Services, given: dict[str, Any]) -> Job:
    kept = services.kept("profiles", given.get("profile"))
    listed = given.get("candidates")
    if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_CANDIDATES:
        raise Refusal(400, f"Compare between 1 and {MOST_CANDIDATES} candidates.")
    if not all(isinstance(candidate, dict) for candidate in listed):
        raise Refusal(400, "A candidate is a guarantee and, where wanted, a mechanism.")
    candidates = [promise_of(candidate) for candidate in listed]
    label = kept["declared"]["label"]
    return services.jobs.new(
        "compare",
        shown_name(given.get("name"), f"{label}, {len(candidates)} candidates"),
        {"profile": given["profile"], "candidates": candidates, "table_label": label},
        {"table": kept["declared"], "candidates": candidates, "out": "{folder}/report"},
    )


def _evidence(services: Services, given: dict[str, Any]) -> Job:
    published = _finished(services, given.get("job"), "publish")
    label = published.asked["table_label"]
    attacks, targets = given.get("attacks") or None, given.get("targets") or None
    if attacks is not None and not (
        isinstance(attacks, list)
        and len(attacks) <= MOST_ATTACKS
        and all(isinstance(attack, str) and len(attack) <= 100 for attack in attacks)
    ):
        raise Refusal(400, "Attacks are a list of names, for example linkage or corruption(2).")
    whole = isinstance(targets, int) and not isinstance(targets, bool)
    if targets is not None and not (whole and 1 <= targets <= 10**9):
        raise Refusal(400, "The number of people to attack is a whole number from 1 on.")
    return services.jobs.new(
        "evidence",
        shown_name(given.get("name"), f"Evidence for {published.name}"),
        {"job": published.id, "table_label": label},
        {
            "table": published.given["table"],
            "release": str(services.jobs.folder(published) / "release"),
            "out": "{folder}/report",
            "attacks": attacks,
            "targets": targets,
            "names": {
                "table_name": shown_name(given.get("table_name"), "") or None,
                "author": shown_name(given.get("author"), "") or None,
                "release_name": published.name,
            },
        },
    )


def _cards(services: Services, given: dict[str, Any]) -> Job:
    """Three promises for an error of counts, protected values and who might look."""
    kept = services.kept("profiles", given.get("profile"))
    error, guarded = given.get("error", 0.1), given.get("guarded", [])
    if not is_share(error):
        raise Refusal(400, "The error of a count is a number between 0 and 1: 0.1 is 10 %.")
    if not isinstance(guarded, list) or not all(isinstance(value, str) for value in guarded):
        raise Refusal(400, "Values that need most protection are a list of texts.")
    readers = {"guarded": guarded, "anybody": given.get("anybody") is True}
    return services.jobs.new(
        CARDS,
        f"Three promises for {kept['declared']['label']}",
        {"profile": given["profile"], "wished": float(error), **readers},
        {"table": kept["declared"], "error": float(error), **readers},
    )


def _finished(services: Services, identifier: object, *kinds: str) -> Job:
    job = services.jobs.get(identifier)
    if job.kind not in kinds or job.state != "done":
        raise DataError("That job has not finished with a result of this kind.")
    return job


async def show_job(request: Request) -> Response:
    return answer(services_of(request).jobs.get(request.path_params["id"]).to_json())


async def cancel_job(request: Request) -> Response:
    return answer((await services_of(request).jobs.cancel(request.path_params["id"])).to_json())


async def remove_job(request: Request) -> Response:
    await services_of(request).jobs.remove(request.path_params["id"])
    return answer({})


async def job_events(request: Request) -> Response:
    jobs = services_of(request).jobs
    jobs.get(request.path_params["id"])

    async def events() -> AsyncIterator[str]:
        async for job in jobs.watch(request.path_params["id"]):
            yield ": still here\n\n" if job is None else f"data: {json.dumps(job.to_json())}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


async def download(request: Request) -> Response:
    services = services_of(request)
    job = _finished(services, request.path_params["id"], "publish")
    stem = f"release-{safe_stem(job.asked['table_label'])}-{job.id[:6]}"
    pieces = zipped(services.jobs.folder(job) / "release", stem)
    headers = {"Content-Disposition": f'attachment; filename="{stem}.zip"'}
    return StreamingResponse(pieces, media_type="application/zip", headers=headers)


def safe_stem(label: str) -> str:
    """A file name that no system takes for anything else.

    >>> safe_stem("=cmd|calc!A0.csv"), safe_stem("../../people.parquet")
    ('cmd_calc_A0', 'people')
    """
    stem = re.sub(r"[^A-Za-z0-9]+", "_", Path(label.replace("\\", "/")).stem).strip("_")
    return stem[:60] or "table"


class _Pipe:
    """A file that zipfile writes to and that is read as it grows."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []

    def write(self, piece: bytes) -> int:
        self._waiting.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        """Nothing waits that could be written earlier."""

    def taken(self) -> bytes:
        piece, self._waiting = b"".join(self._waiting), []
        return piece


def zipped(folder: Path, stem: str) -> Iterator[bytes]:
    """A release as one zip file, stored (Parquet is compressed already), piece by piece."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(f"{stem}/{path.relative_to(folder).as_posix()}")
            entry.external_attr = 0o644 << 16
            large = path.stat().st_size > 1 << 31
            with path.open("rb") as source, archive.open(entry, "w", force_zip64=large) as target:
                while piece := source.read(_CHUNK):
                    target.write(piece)
                    yield pipe.taken()
    yield pipe.taken()


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
    return services.jobs.folder(_finished(services, job.id, "evidence", "compare")) / "report"


async def show_report(request: Request) -> Response:
    services = services_of(request)
    page = _report_of(services, services.jobs.get(request.path_params["id"])) / "report.html"
    return FileResponse(
        page, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY}
    )


async def show_evidence(request: Request) -> Response:
    services = services_of(request)
    job = services.jobs.get(request.path_params["id"])
    evidence = read_json(_report_of(services, job) / "evidence.json")
    if evidence is None:
        raise Refusal(404, "This job has no evidence.")
    return answer(evidence)
