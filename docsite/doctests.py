"""Examples in docstrings as code: Markdown would take `>>>` for a quotation in a quotation."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Object


class Doctests(Extension):
    """Puts fences around the examples of every docstring."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    r"""A docstring whose examples, each up to the next empty line, stand between fences.

    >>> fenced("Adds.\n\n>>> 1 + 1\n2\n\nMore.")
    'Adds.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore.'
    """
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        f"```pycon\n{each.strip(chr(10))}\n```" if each.lstrip().startswith(">>>") else each
        for each in paragraphs
    )
