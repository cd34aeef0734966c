"""Request bodies: read with a limit and a patience, whatever a client says about their length."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from starlette.requests import ClientDisconnect, Request

from sfumato.web.answers import Refusal
from sfumato.web.asked import checked

MOST_JSON = 1 << 20  # bytes of a question
PATIENCE = 30.0  # seconds that a client may take for its next piece
_KEEP_FREE = 1 << 30  # bytes of disk that uploads leave to others


async def read_object(request: Request, shape: Any = dict[str, Any]) -> Any:
    """The JSON object that a request carries, in its shape."""
    body = bytearray()
    async for piece in _pieces(request, MOST_JSON):
        body += piece
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(400, "The request is not JSON.") from None
    if not isinstance(content, dict):
        raise Refusal(400, "The request must be a JSON object.")
    return checked(content, shape)


async def save_body(request: Request, path: Path, limit: int) -> int:
    """Write a request's body to a file; the number of bytes. Over the limit nothing is kept."""
    import shutil

    stated = request.headers.get("content-length")
    free = shutil.disk_usage(path.parent).free - _KEEP_FREE
    if stated is not None and stated.isdecimal() and int(stated) > free:
        raise Refusal(413, "There is not enough room on the server's disk for this file.")
    written = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        async for piece in _pieces(request, min(limit, max(free, 0))):
            file.write(piece)
            written += len(piece)
    return written


async def _pieces(request: Request, limit: int) -> Any:
    """The body, piece by piece; refused before it passes the limit."""
    stated = request.headers.get("content-length", "0")
    sentence = f"This is larger than {size_text(limit)}, the most that the server takes."
    if not stated.isdecimal() or int(stated) > limit:
        raise Refusal(413, sentence)
    stream = request.stream()
    taken = 0
    while True:
        try:
            piece = await asyncio.wait_for(anext(stream), PATIENCE)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refusal(408, "The request came too slowly. Try again.") from None
        except ClientDisconnect:
            raise Refusal(400, "The request broke off.") from None
        taken += len(piece)
        if taken > limit:
            raise Refusal(413, sentence)
        yield piece


def size_text(size: int) -> str:
    """
    >>> size_text(2_000_000_000), size_text(1 << 20)
    ('2 GB', '1.05 MB')
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"
