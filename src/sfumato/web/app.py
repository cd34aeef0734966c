"""The application: routes, and how errors are told."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
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
from sfumato.web import api, jobs_api, tables_api
from sfumato.web.answers import Refusal, in_page_words, problem
from sfumato.web.api import Settings
from sfumato.web.guard import Guard
from sfumato.web.jobs import Jobs, NoSuchJob
from sfumato.web.places import Roots
from sfumato.web.sessions import Sessions
from sfumato.web.state import StateFolder
from sfumato.web.workers import Workers

ROUTES: dict[str, api.Handler] = {
    "POST /api/session": api.sign_in,
    "DELETE /api/session": api.sign_out,
    "POST /api/session/link": api.new_link,
    "POST /api/tickets": api.new_ticket,
    "GET /api/state": api.show_state,
    "GET /api/files": api.show_files,
    "PUT /api/uploads": tables_api.take_upload,
    "DELETE /api/uploads/{identifier}": tables_api.forget_upload,
    "POST /api/preview": tables_api.preview_table,
    "GET /api/tables": tables_api.list_tables,
    "POST /api/tables": tables_api.choose_table,
    "GET /api/tables/{identifier}": tables_api.show_table,
    "DELETE /api/tables/{identifier}": tables_api.forget_table,
    "POST /api/tables/{identifier}/draft": tables_api.keep_draft,
    "GET /api/profiles/{identifier}": api.show_profile,
    "GET /api/profiles/{identifier}/command": api.show_command,
    "POST /api/predict": api.predict,
    "GET /api/release": api.show_release,
    "POST /api/query": api.query,
    "GET /api/jobs": jobs_api.list_jobs,
    "POST /api/jobs": jobs_api.start_job,
    "GET /api/jobs/{identifier}": jobs_api.show_job,
    "DELETE /api/jobs/{identifier}": jobs_api.remove_job,
    "GET /api/jobs/{identifier}/events": jobs_api.job_events,
    "POST /api/jobs/{identifier}/cancel": jobs_api.cancel_job,
    "GET /api/jobs/{identifier}/release.zip": jobs_api.download,
    "GET /api/jobs/{identifier}/report": jobs_api.show_report,
}


def build(
    settings: Settings, sessions: Sessions, state: StateFolder, hosts: Sequence[str]
) -> ASGIApp:
    """The application behind its guard. `hosts` are the names it answers to, with the port."""
    roots = Roots(settings.data)

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        workers = Workers(state, settings.memory_limit)
        jobs = Jobs(state, workers, settings.jobs)
        app.state.services = api.Services(settings, state, roots, workers, jobs, sessions)
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
            *(
                Route(path, api.answering(handler), methods=[method])
                for (method, path), handler in ((r.split(), h) for r, h in ROUTES.items())
            ),
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
        return problem(400, str(error), **error.details)
    if isinstance(error, SfumatoError):
        status = 404 if isinstance(error, NoSuchJob) else 400
        return problem(status, in_page_words(error.with_flags))
    if isinstance(error, HTTPException):
        sentence = "There is nothing at this address, or not for this method."
        return problem(error.status_code, sentence)
    return problem(500, unexpected(error))
