"""Answers: JSON in which nothing can turn into markup, and errors of one sentence."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

_MARKUP = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


class Refusal(Exception):
    """A request that is answered with a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def answer(content: Any, status: int = 200) -> Response:
    """JSON. Even a browser that took it for a page would find no tag in it.

    >>> answer({"name": "<script>"}).body
    b'{"name": "\\\\u003cscript\\\\u003e"}'
    """
    text = json.dumps(content, allow_nan=False).translate(_MARKUP)
    # who is refused may still be sending: hanging up ends that
    headers = {"Connection": "close"} if status in (401, 403, 405, 408, 413) else None
    return Response(text, status, headers=headers, media_type="application/json")


def problem(status: int, sentence: str, **more: Any) -> Response:
    """An error: what, where, what to do."""
    return answer({"error": sentence, **more}, status)
