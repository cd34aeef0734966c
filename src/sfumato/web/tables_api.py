"""Choosing a table, looking at it, and saying what its columns are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.requests import Request

from sfumato.table_options import ROLES, TABLE_OPTIONS
from sfumato.web.answers import Refusal
from sfumato.web.api import Services, shown_name, unless_gone
from sfumato.web.asked import AskedCounts, options_of
from sfumato.web.bodies import read_object, save_body
from sfumato.web.jobs import COUNTS, Job
from sfumato.web.places import check_name, stamp
from sfumato.web.state import is_identifier, new_identifier, read_json, remove, write_json

MOST_LISTED = 50  # tables that were chosen before


async def take_upload(services: Services, request: Request) -> Any:
    given = shown_name(request.query_params.get("name"), "upload")
    name = given.replace("\\", "/").rsplit("/", 1)[-1]
    ending = check_name(name)
    identifier = new_identifier()
    folder = services.state.folder("uploads", identifier)
    folder.mkdir(mode=0o700)
    try:
        # the name that the client gave is only ever shown
        written = await save_body(request, folder / f"data{ending}", services.settings.upload_limit)
        if not written:
            raise Refusal(400, f"The file {name!r} is empty.")
        write_json(folder / "upload.json", {"name": name, "file": f"data{ending}"})
    except BaseException:
        remove(folder)
        raise
    return {"source": {"upload": identifier}}


def _place(services: Services, body: dict[str, Any]) -> tuple[Path, str, dict[str, Any]]:
    """The file that is meant, how to call it, and what is known of it if it was chosen before."""
    if "table" in body:  # the same file, read in another way
        known = services.kept("tables", body["table"])
        return Path(known["path"]), known["label"], known
    source = body.get("source")
    if not isinstance(source, dict):
        raise Refusal(400, "Name a source: a root and a path, or an upload.")
    if "upload" not in source:
        path = services.roots.file(source.get("root"), source.get("path"))
        return path, path.name, {}
    if is_identifier(source["upload"]):
        folder = services.state.folder("uploads", source["upload"])
        kept = read_json(folder / "upload.json")
        if isinstance(kept, dict):
            return folder / kept["file"], kept["name"], {}
    raise Refusal(404, "That upload is not here any more. Send the file again.")


async def choose_table(services: Services, request: Request) -> Any:
    body = await read_object(request)
    path, label, known = _place(services, body)
    identifier, before = new_identifier(), stamp(path)
    reads = {**known.get("options", {}), **_reads(body)}
    task = {"path": str(path), "label": label, "options": reads}
    seen = await unless_gone(request, services.read("look", task))
    shown = {"table": identifier, **seen}
    kept = {**task, "stamp": before, "shown": shown}
    if "draft" in known:
        kept["draft"] = known["draft"]
    write_json(services.state.file("tables", identifier), kept)
    return shown


async def preview_table(services: Services, request: Request) -> Any:
    """The first lines of a text file, cut as the steward says: the only rows that are shown."""
    body = await read_object(request)
    path, label, _ = _place(services, body)
    task = {"path": str(path), "label": label, "options": _reads(body)}
    return await unless_gone(request, services.ask("preview", task, "preview"))


async def list_tables(services: Services, request: Request) -> Any:
    """The tables that were chosen and uploads that were not, the newest first, each file once."""
    state = services.state
    newest_by_path: dict[str, tuple[float, dict[str, Any]]] = {}
    for file in (state.path / "tables").glob("*.json"):
        kept = read_json(file)
        if not isinstance(kept, dict) or not Path(kept["path"]).exists():
            continue
        when, shown = file.stat().st_mtime, kept["shown"]
        summary = {
            "table": shown["table"],
            "label": kept["label"],
            "rows": shown["rows"],
            "columns": len(shown["columns"]),
            "roles": len(kept.get("draft", {}).get("roles", {})),
            "chosen": when,
        }
        if newest_by_path.get(kept["path"], (0.0, {}))[0] < when:
            newest_by_path[kept["path"]] = (when, summary)
    for folder in (state.path / "uploads").iterdir():
        kept = read_json(folder / "upload.json")
        if isinstance(kept, dict) and str(path := folder / kept["file"]) not in newest_by_path:
            sent, size = folder.stat().st_mtime, path.stat().st_size
            told = {"upload": folder.name, "label": kept["name"], "bytes": size, "chosen": sent}
            newest_by_path[str(path)] = (sent, told)
    newest = sorted(newest_by_path.values(), key=lambda pair: -pair[0])
    return [summary for _, summary in newest[:MOST_LISTED]]


async def forget_table(services: Services, request: Request, identifier: str) -> Any:
    """Remove a table's upload and every count of it, at once; releases stay."""
    kept = services.kept("tables", identifier)
    await services.jobs.forget_table(Path(kept["path"]))
    await services.workers.renew()  # what they remember of counts goes with them
    return {}


async def forget_upload(services: Services, request: Request, identifier: str) -> Any:
    """Remove a file that was sent, and what was counted of it."""
    path, _, _ = _place(services, {"source": {"upload": identifier}})
    await services.jobs.forget_table(path)
    return {}


async def show_table(services: Services, request: Request, identifier: str) -> Any:
    kept = services.kept("tables", identifier)
    return {**kept["shown"], "draft": kept.get("draft")}


async def keep_draft(services: Services, request: Request, identifier: str) -> Any:
    """What the steward has said of the columns so far: every tab shows it, after a reload too."""
    kept = services.kept("tables", identifier)
    draft = (await read_object(request)).get("draft")
    if not isinstance(draft, dict):
        raise Refusal(400, "A draft is an object.")
    write_json(services.state.file("tables", identifier), {**kept, "draft": draft})
    return {}


def count_columns(services: Services, asked: AskedCounts, given: dict[str, Any]) -> Job:
    """What planning needs of a table whose columns have roles: its profile."""
    table = services.kept("tables", asked.table)
    if not set(asked.roles.values()) <= set(ROLES):
        raise Refusal(400, f"Give every column a role: {', '.join(ROLES)}.")
    options = table["options"] | options_of(given)
    declared = {key: table[key] for key in ("path", "label", "stamp")}
    declared |= {"roles": asked.roles, "options": options}
    seen = {"table": table["shown"]["table"], "rows": table["shown"]["rows"]}
    return services.jobs.new(
        COUNTS,
        f"Counts of {table['label']}",
        {"table": seen["table"], "table_label": table["label"]},
        {
            "table": declared,
            "out": str(services.state.file("profiles", new_identifier())),
            "seen": seen,
        },
    )


def _reads(given: dict[str, Any]) -> dict[str, Any]:
    """Those of the options that say how a file is written."""
    reads = {option.name for option in TABLE_OPTIONS if option.reads}
    return {name: value for name, value in options_of(given).items() if name in reads}
