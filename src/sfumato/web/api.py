"""Choosing a table, giving roles, watching a promise, asking a release."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sfumato.errors import DataError
from sfumato.table_options import ROLES, TABLE_OPTIONS
from sfumato.version import __version__
from sfumato.web.answers import Refusal, answer
from sfumato.web.bodies import read_object, save_body
from sfumato.web.jobs import Jobs
from sfumato.web.places import Roots, check_name, stamp
from sfumato.web.sessions import Sessions
from sfumato.web.state import (
    StateFolder,
    is_identifier,
    new_identifier,
    read_json,
    remove,
    write_json,
)
from sfumato.web.workers import Workers

_LONG = 3600.0  # seconds for reading a whole table
_LOOK_UP = 0.25  # seconds between two looks whether anybody still waits
_UNSEEN = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(eq=False)
class Services:
    """What all handlers use: the state folder, the files to choose from, workers and jobs."""

    state: StateFolder
    roots: Roots
    workers: Workers
    jobs: Jobs
    sessions: Sessions
    upload_limit: int
    timeout: float
    release: Path | None = None  # that is explored
    _promises: list[dict[str, Any]] | None = None
    _reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    _asking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(4))

    async def ask(self, task: str, given: dict[str, Any], keep: str) -> Any:
        """A short task, by a worker that stays for the next one."""
        async with self._asking:
            return await self.workers.run(task, given, seconds=self.timeout, keep=keep)

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
        found = None
        if is_identifier(identifier):
            found = read_json(self.state.file(kind, str(identifier)))
        if not isinstance(found, dict):
            raise Refusal(404, "That table is not known here any more. Choose it again.")
        return found


def services_of(request: Request) -> Services:
    found: Services = request.app.state.services
    return found


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


async def show_state(request: Request) -> Response:
    services = services_of(request)
    return answer(
        {
            "version": __version__,
            "roots": services.roots.to_json(),
            "upload_limit": services.upload_limit,
            "release": None if services.release is None else services.release.name,
            "promises": await services.promises(),
        }
    )


async def show_files(request: Request) -> Response:
    given = request.query_params
    listing = services_of(request).roots.listing(given.get("root"), given.get("folder"))
    return answer(listing)


async def take_upload(request: Request) -> Response:
    services = services_of(request)
    given = shown_name(request.query_params.get("name"), "upload")
    name = given.replace("\\", "/").rsplit("/", 1)[-1]
    ending = check_name(name)
    identifier = new_identifier()
    folder = services.state.folder("uploads", identifier)
    folder.mkdir(mode=0o700)
    try:
        # the name that the client gave is only ever shown
        written = await save_body(request, folder / f"data{ending}", services.upload_limit)
        if not written:
            raise Refusal(400, f"The file {name!r} is empty.")
        write_json(folder / "upload.json", {"name": name, "file": f"data{ending}"})
    except BaseException:
        remove(folder)
        raise
    return answer({"source": {"upload": identifier}})


def shown_name(text: object, otherwise: str) -> str:
    """A name from outside, for showing: no control characters, and not too long."""
    given = _UNSEEN.sub("", text).strip() if isinstance(text, str) else ""
    return (given or otherwise)[:200]


def _place(services: Services, source: object) -> tuple[Path, str]:
    """The file behind a source, and how to call it."""
    if isinstance(source, dict) and "upload" in source:
        if is_identifier(source["upload"]):
            folder = services.state.folder("uploads", source["upload"])
            kept = read_json(folder / "upload.json")
            if isinstance(kept, dict):
                return folder / kept["file"], kept["name"]
        raise Refusal(404, "That upload is not here any more. Send the file again.")
    if isinstance(source, dict):
        path = services.roots.file(source.get("root"), source.get("path"))
        return path, path.name
    raise Refusal(400, "Name a source: a root and a path, or an upload.")


async def choose_table(request: Request) -> Response:
    services = services_of(request)
    given = await read_object(request)
    known: dict[str, Any] = {}
    if "table" in given:  # the same file, read in another way
        known = services.kept("tables", given["table"])
        path, label = Path(known["path"]), known["label"]
    else:
        path, label = _place(services, given.get("source"))
    identifier = new_identifier()
    before = stamp(path)
    reads = _options(
        {option.name: given.get(option.name) for option in TABLE_OPTIONS if option.reads}
    )
    reads = {**known.get("options", {}), **reads}
    task = {"path": str(path), "label": label, "options": reads}
    seen = await unless_gone(request, services.read("look", task))
    shown = {"table": identifier, **seen}
    kept = {"path": str(path), "label": label, "stamp": before, "shown": shown, "options": reads}
    write_json(services.state.file("tables", identifier), kept)
    return answer(shown)


async def forget_table(request: Request) -> Response:
    """Remove a table's upload and every count of it, at once; releases stay."""
    services = services_of(request)
    kept = services.kept("tables", request.path_params["id"])
    services.jobs.forget_table(Path(kept["path"]))
    return answer({})


async def show_table(request: Request) -> Response:
    return answer(services_of(request).kept("tables", request.path_params["id"])["shown"])


async def give_roles(request: Request) -> Response:
    services = services_of(request)
    table = services.kept("tables", request.path_params["id"])
    given = await read_object(request)
    roles = given.get("roles")
    if not isinstance(roles, dict) or not all(role in ROLES for role in roles.values()):
        raise Refusal(400, f"Give every column a role: {', '.join(ROLES)}.")
    identifier = new_identifier()
    out = services.state.file("profiles", identifier)
    declared = {
        "path": table["path"],
        "label": table["label"],
        "stamp": table["stamp"],
        "roles": roles,
        "options": table["options"] | _options(given),
    }
    task = {"table": declared, "out": str(out), "table_id": table["shown"]["table"]}
    shown = await unless_gone(request, services.read("profile", task))
    return answer({"profile": identifier, **shown})


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """What the command line's flags would say, as texts; the roles of columns are given apart."""
    options: dict[str, Any] = {}
    for option in TABLE_OPTIONS:
        if option.name in ROLES or option.names_files or given.get(option.name) in (None, ""):
            continue
        said = given[option.name]
        if option.form == "switch":
            if not isinstance(said, bool):
                raise Refusal(400, f"{option.name!r} must be true or false.")
            options[option.name] = said
            continue
        if option.form == "columns":
            if not isinstance(said, list) or not all(isinstance(each, str) for each in said):
                raise Refusal(400, f"{option.name!r} must be a list of columns.")
        elif option.form == "each":
            if not isinstance(said, dict) or not all(isinstance(v, str) for v in said.values()):
                raise Refusal(400, f"{option.name!r} must give a text for each column.")
        elif not isinstance(said, str):
            raise Refusal(400, f"{option.name!r} must be a text.")
        options[option.name] = said
    return options


async def show_profile(request: Request) -> Response:
    identifier = request.path_params["id"]
    kept = services_of(request).kept("profiles", identifier)
    return answer({"profile": identifier, **kept["shown"]})


def promise_of(given: dict[str, Any]) -> dict[str, str | None]:
    """The promise and the mechanism that a request names."""
    guarantee, mechanism = given.get("guarantee"), given.get("mechanism") or None
    if not isinstance(guarantee, str) or not isinstance(mechanism, str | None):
        raise Refusal(400, "Name a guarantee, for example l-diversity(3).")
    if len(guarantee) > 100_000 or len(mechanism or "") > 1000:
        raise Refusal(400, "That promise is too long.")
    return {"guarantee": guarantee, "mechanism": mechanism}


async def predict(request: Request) -> Response:
    services = services_of(request)
    given = await read_object(request)
    services.kept("profiles", given.get("profile"))
    file = services.state.file("profiles", str(given["profile"]))
    exact = given.get("exact") is True
    task = {"file": str(file), **promise_of(given), "exact": exact}
    # exact plans take seconds: they must not make the next quick answer wait
    keep = "plan" if exact else "predict"
    return answer(await unless_gone(request, services.ask("predict", task, keep)))


async def show_cards(request: Request) -> Response:
    """Three promises for an error of counts, delicate values and who might look."""
    services = services_of(request)
    given = await read_object(request)
    services.kept("profiles", given.get("profile"))
    error, delicate = given.get("error", 0.1), given.get("delicate", [])
    if not _is_share(error):
        raise Refusal(400, "The error of a count is a number between 0 and 1: 0.1 is 10 %.")
    if not isinstance(delicate, list) or not all(isinstance(each, str) for each in delicate):
        raise Refusal(400, "Delicate values are a list of texts.")
    task = {
        "file": str(services.state.file("profiles", str(given["profile"]))),
        "error": float(error),
        "delicate": delicate,
        "anybody": given.get("anybody") is True,
    }
    return answer(await unless_gone(request, services.ask("cards", task, "cards")))


def _is_share(given: object) -> bool:
    """Compared before it becomes a float: a whole number can be too large for one."""
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    return number and 0 < given < 1  # type: ignore[operator]


def _explored(services: Services) -> Path:
    if services.release is None:
        raise Refusal(404, "This server was started without a release: sfumato serve RELEASE.")
    return services.release


async def show_release(request: Request) -> Response:
    """The release that the server was started with, by itself."""
    services = services_of(request)
    task = {"release": str(_explored(services))}
    return answer(await unless_gone(request, services.ask("explore", task, "query")))


async def query(request: Request) -> Response:
    services = services_of(request)
    given = await read_object(request)
    sql, confidence = given.get("sql"), given.get("confidence", 0.95)
    if given.get("release") is True:
        release = _explored(services)
    else:
        job = services.jobs.get(given.get("job"))
        if job.kind != "publish" or job.state != "done":
            raise DataError("Only a finished release can be asked.")
        release = services.jobs.folder(job) / "release"
    if not isinstance(sql, str) or len(sql) > 100_000:
        raise Refusal(400, "Ask with SQL, for example SELECT COUNT(*) FROM release.")
    if not _is_share(confidence):
        raise Refusal(400, "The confidence is a number between 0 and 1.")
    task = {"release": str(release), "sql": sql, "confidence": float(confidence)}
    return answer(await unless_gone(request, services.ask("query", task, "query")))
