"""Answers: JSON in which nothing can turn into markup, and errors of one sentence."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from sfumato.errors import flags_as

_MARKUP = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})

_PLACES = {  # where the page has what the command line calls by a flag
    "missing": "“Rows without a sensitive value”",
    "bins": "“Bins” of the column",
    "recode": "“Coarser form” of the column",
    "domain": "“Stated domain” of the column",
    "categorical": "“These numbers are names” of the column",
    "columns": "“How the file is written”",
    "encoding": "“How the file is written”",
    "left-out": "“Largest share of people without a promise”",
    "min-count": "size of a count",
    "quasi-k": "“People who share every combination”",
}


def in_page_words(message: str) -> str:
    """A message of the command line as the page says it: no flags.

    >>> in_page_words("3 rows have none: --missing value keeps them.")
    '3 rows have none: “Rows without a sensitive value”: value keeps them.'
    """

    def place(flag: str, with_value: bool) -> str:
        if flag not in _PLACES:
            return f"the command line's “{flag.replace('-', ' ')}”{' ' if with_value else ''}"
        return _PLACES[flag] + (": " if with_value else "")

    return flags_as(message, place)


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
