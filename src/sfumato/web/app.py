"""The application: routes, and how errors are told."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from sfumato.errors import SfumatoError
from sfumato.processes import TaskFailed, unexpected
from sfumato.web import api, jobs_api, session_api, tables_api
from sfumato.web.answers import Refusal, in_page_words, problem
from sfumato.web.guard import Guard
from sfumato.web.jobs import Jobs, NoSuchJob
from sfumato.web.places import Roots
from sfumato.web.sessions import Sessions
from sfumato.web.state import StateFolder
from sfumato.web.workers import Workers


@dataclass(frozen=True)
class Settings:
    """How a server is run."""

    state: Path
    data: Sequence[Path] = ()
    upload_limit: int = 2 * 10**9
    memory_limit: int = 0  # bytes per worker; 0 for no limit
    timeout: float = 120.0  # seconds that a question may take
    release: Path | None = None  # to be explored
    jobs: int = 2


def build(
    settings: Settings, sessions: Sessions, state: StateFolder, hosts: Sequence[str]
) -> ASGIApp:
    """The application behind its guard. `hosts` are the names it answers to, with the port."""
    roots = Roots(settings.data)

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        workers = Workers(state, settings.memory_limit)
        jobs = Jobs(state, workers, settings.jobs)
        app.state.services = api.Services(
            state,
            roots,
            workers,
            jobs,
            sessions,
            settings.upload_limit,
            settings.timeout,
            settings.release,
        )
        jobs.forget_unused()
        workers.warm_up()
        try:
            yield
        finally:
            await jobs.close()
            await workers.close()

    inside = Starlette(
        routes=[
            Route("/", index, methods=["GET"]),
            Mount("/static", StaticFiles(packages=[("sfumato.web", "static")])),
            Mount("/vendor", StaticFiles(packages=[("sfumato.pages", "vendor")])),
            Route("/api/session", session_api.sign_in, methods=["POST"]),
            Route("/api/session", session_api.sign_out, methods=["DELETE"]),
            Route("/api/session/link", session_api.new_link, methods=["POST"]),
            Route("/api/tickets", session_api.new_ticket, methods=["POST"]),
            Route("/api/state", api.show_state, methods=["GET"]),
            Route("/api/files", api.show_files, methods=["GET"]),
            Route("/api/uploads", tables_api.take_upload, methods=["PUT"]),
            Route("/api/preview", tables_api.preview_table, methods=["POST"]),
            Route("/api/tables", tables_api.list_tables, methods=["GET"]),
            Route("/api/tables", tables_api.choose_table, methods=["POST"]),
            Route("/api/tables/{id}", tables_api.show_table, methods=["GET"]),
            Route("/api/tables/{id}", tables_api.forget_table, methods=["DELETE"]),
            Route("/api/tables/{id}/draft", tables_api.keep_draft, methods=["POST"]),
            Route("/api/profiles/{id}", api.show_profile, methods=["GET"]),
            Route("/api/profiles/{id}/commands", api.show_commands, methods=["GET"]),
            Route("/api/predict", api.predict, methods=["POST"]),
            Route("/api/beside", api.show_beside, methods=["POST"]),
            Route("/api/release", api.show_release, methods=["GET"]),
            Route("/api/query", api.query, methods=["POST"]),
            Route("/api/jobs", jobs_api.list_jobs, methods=["GET"]),
            Route("/api/jobs", jobs_api.start_job, methods=["POST"]),
            Route("/api/jobs/{id}", jobs_api.show_job, methods=["GET"]),
            Route("/api/jobs/{id}", jobs_api.remove_job, methods=["DELETE"]),
            Route("/api/jobs/{id}/events", jobs_api.job_events, methods=["GET"]),
            Route("/api/jobs/{id}/cancel", jobs_api.cancel_job, methods=["POST"]),
            Route("/api/jobs/{id}/release.zip", jobs_api.download, methods=["GET"]),
            Route("/api/jobs/{id}/report", jobs_api.show_report, methods=["GET"]),
            Route("/api/jobs/{id}/evidence", jobs_api.show_evidence, methods=["GET"]),
        ],
        exception_handlers=dict.fromkeys(
            (Refusal, TaskFailed, SfumatoError, HTTPException, Exception), _told
        ),
        lifespan=life,
    )
    return Guard(inside, sessions, hosts)


async def index(request: Request) -> Response:
    return FileResponse(Path(__file__).with_name("static") / "index.html")


async def _told(request: Request, error: Exception) -> Response:
    """An error in a sentence, whoever raised it."""
    if isinstance(error, Refusal):
        return problem(error.status, str(error))
    if isinstance(error, TaskFailed):
        details = {key: value for key, value in error.told.items() if key != "error"}
        return problem(400, str(error), **details)
    if isinstance(error, SfumatoError):
        status = 404 if isinstance(error, NoSuchJob) else 400
        return problem(status, in_page_words(error.with_flags))
    if isinstance(error, HTTPException):
        sentence = "There is nothing at this address, or not for this method."
        return problem(error.status_code, sentence)
    return problem(500, unexpected(error))
