"""How results show themselves: as text at a prompt, as tables in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


class Shown:
    """A result whose `repr` is what `print` shows; a notebook shows the same, or its own tables.

    For dataclasses made with `repr=False`.

    >>> class Sum(Shown):
    ...     def __str__(self) -> str:
    ...         return "1 < 2"
    >>> Sum(), Sum()._repr_html_()
    (1 < 2, '<pre>1 &lt; 2</pre>')
    """

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def html_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", note: str = ""
) -> str:
    """A table of texts; nothing in it can turn into markup.

    >>> html_table(("a",), [("<b>",)])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    titles = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    below = html_paragraphs([note] if note else [])
    return f"<table>{caption}<thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{below}"


def html_paragraphs(sentences: Iterable[str]) -> str:
    return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)
