"""The page's own files: from the package, named one by one, nothing from anywhere else."""

from __future__ import annotations

import re
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

from sfumato.web.answers import Refusal

_NAME = re.compile(r"[a-z0-9-]+(\.min)?\.(js|css|html|svg)")
_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "svg": "image/svg+xml",
}
VENDORED = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")


def _file(folder: Traversable, name: str) -> Response:
    if not _NAME.fullmatch(name) or not (folder / name).is_file():
        raise Refusal(404, "There is no such file.")
    content = (folder / name).read_bytes()
    kind = _TYPES[name.rpartition(".")[2]]
    # a new version must be seen at once, and reading from this machine costs nothing
    return Response(content, headers={"Content-Type": kind, "Cache-Control": "no-cache"})


async def index(request: Request) -> Response:
    return _file(resources.files("sfumato.web") / "static", "index.html")


async def static(request: Request) -> Response:
    return _file(resources.files("sfumato.web") / "static", request.path_params["name"])


async def vendored(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in VENDORED:
        raise Refusal(404, "There is no such file.")
    return _file(resources.files("sfumato.pages") / "vendor", name)
