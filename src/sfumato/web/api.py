"""Signing in, watching a promise and asking a release; what all handlers share."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sfumato.guarantees import DEFAULT_PROMISE
from sfumato.version import __version__
from sfumato.web.answers import Refusal, answer
from sfumato.web.asked import AskedPreview, AskedPromise, AskedQuestion, checked
from sfumato.web.bodies import read_object
from sfumato.web.commands import publish_command
from sfumato.web.guard import NO_SESSION
from sfumato.web.jobs import Jobs
from sfumato.web.places import Roots
from sfumato.web.sessions import HEADER, Sessions
from sfumato.web.state import StateFolder, is_identifier, read_json
from sfumato.web.workers import Workers

_LONG = 3600.0  # seconds for reading a whole table
_LOOK_UP = 0.25  # seconds between two looks whether anybody still waits
_UNSEEN = re.compile(r"[\x00-\x1f\x7f]")


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


@dataclass(eq=False)
class Services:
    """What all handlers use: the state folder, the files to choose from, workers and jobs."""

    settings: Settings
    state: StateFolder
    roots: Roots
    workers: Workers
    jobs: Jobs
    sessions: Sessions
    _promises: list[dict[str, Any]] | None = None
    _reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    _asking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(4))

    async def ask(self, task: str, given: dict[str, Any], keep: str) -> Any:
        """A short task, by a worker that stays for the next one."""
        async with self._asking:
            return await self.workers.run(task, given, seconds=self.settings.timeout, keep=keep)

    async def read(self, task: str, given: dict[str, Any]) -> Any:
        """A task that reads a whole table, by a worker of its own."""
        async with self._reading:
            return await self.workers.run(task, given, seconds=_LONG)

    async def promises(self) -> list[dict[str, Any]]:
        if self._promises is None:
            self._promises = await self.ask("catalogue", {}, "predict")
        return self._promises

    def kept(self, kind: str, identifier: object) -> dict[str, Any]:
        """A table or a profile that was chosen before."""
        content = None
        if is_identifier(identifier):
            content = read_json(self.state.file(kind, str(identifier)))
        if not isinstance(content, dict):
            raise Refusal(404, "That table is not known here any more. Choose it again.")
        return content


Handler = Callable[..., Awaitable[Any]]


def answering(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """What is asked at an address: a handler is given the services and the path's identifier, and
    gives back what JSON holds, or a response of its own."""

    async def answered(request: Request) -> Response:
        found = await handler(request.app.state.services, request, **request.path_params)
        return found if isinstance(found, Response) else answer(found)

    return answered


async def unless_gone(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
    """Wait for work, and stop it when nobody waits for its answer any more."""
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait({task}, timeout=_LOOK_UP))[0]:
            if await request.is_disconnected():
                break
        else:
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    raise Refusal(400, "Nobody waited for the answer.")


async def show_state(services: Services, request: Request) -> Any:
    explored = services.settings.release
    return {
        "version": __version__,
        "roots": services.roots.to_json(),
        "upload_limit": services.settings.upload_limit,
        "release": None if explored is None else explored.name,
        "promises": await services.promises(),
        "default_promise": DEFAULT_PROMISE,
    }


async def show_files(services: Services, request: Request) -> Any:
    parameters = request.query_params
    return services.roots.listing(parameters.get("root"), parameters.get("folder"))


def shown_name(text: object, otherwise: str) -> str:
    """A name from outside, for showing: no control characters, and not too long."""
    cleaned = _UNSEEN.sub("", text).strip() if isinstance(text, str) else ""
    return (cleaned or otherwise)[:200]


async def show_profile(services: Services, request: Request, identifier: str) -> Any:
    kept = services.kept("profiles", identifier)
    return {"profile": identifier, **kept["shown"]}


async def show_command(services: Services, request: Request, identifier: str) -> Any:
    """What the page does as a command to copy."""
    table = services.kept("profiles", identifier)["declared"]
    promise: AskedPromise = checked(dict(request.query_params), AskedPromise)
    return {"command": publish_command(table, promise.guarantee, promise.mechanism or None)}


async def predict(services: Services, request: Request) -> Any:
    asked: AskedPreview = await read_object(request, AskedPreview)
    services.kept("profiles", asked.profile)
    file = services.state.file("profiles", asked.profile)
    task = {"file": str(file), **asked.words(), "exact": asked.exact}
    # exact plans take seconds: they must not make the next quick answer wait
    keep = "plan" if asked.exact else "predict"
    return await unless_gone(request, services.ask("predict", task, keep))


def _explored(services: Services) -> Path:
    if services.settings.release is None:
        raise Refusal(404, "This server was started without a release: sfumato serve RELEASE.")
    return services.settings.release


async def show_release(services: Services, request: Request) -> Any:
    """The release that the server was started with, by itself."""
    task = {"release": str(_explored(services))}
    return await unless_gone(request, services.ask("explore", task, "query"))


async def query(services: Services, request: Request) -> Any:
    asked: AskedQuestion = await read_object(request, AskedQuestion)
    release = _explored(services) if asked.release else services.jobs.release(asked.job)
    ways = {"confidence": asked.confidence, "estimator": asked.estimator or None}
    task = {"sql": asked.sql, **ways}
    given = {"release": str(release), **task}
    found = await unless_gone(request, services.ask("query", given, "query"))
    # an answer carries its question: whoever asked twice knows which one this answers
    return {**found, "asked": {**task, "number": asked.number}}


# -- sessions ------------------------------------------------------------------------------------


async def sign_in(services: Services, request: Request) -> Any:
    body = await read_object(request)
    token = body.get("token")
    secret = services.sessions.open(token if isinstance(token, str) else None)
    if secret is None:
        raise Refusal(401, NO_SESSION)
    return {"session": secret}


async def sign_out(services: Services, request: Request) -> Any:
    services.sessions.close(request.headers.get(HEADER))
    return {}


async def new_link(services: Services, request: Request) -> Any:
    return {"token": services.sessions.renew()}


async def new_ticket(services: Services, request: Request) -> Any:
    """For a release or a report, which the browser fetches by its address alone."""
    body = await read_object(request)
    path = body.get("path")
    if not isinstance(path, str) or not path.startswith("/api/jobs/"):
        raise Refusal(400, "A ticket is for what a job made.")
    return {"ticket": services.sessions.ticket(path)}
