"""From a template to one HTML text that needs nothing else: no network, no further file."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.results import ResultTable

if TYPE_CHECKING:
    import jinja2

HERE = Path(__file__).parent
VENDORED = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")


@dataclass(frozen=True)
class Chart:
    """Vega-Lite panels, what they show in a sentence, and the figures that they were drawn from.

    `panels` are headings (empty for a single panel) and specifications.
    """

    name: str
    title: str
    caption: str
    panels: Sequence[tuple[str, Mapping[str, Any]]]
    table: ResultTable


# a paragraph, a table, a chart, names and what they are, a list of sentences
Block = str | ResultTable | Chart | Mapping[str, Any] | Sequence[str]


def render(template: str, title: str, lead: str, *, footer: str = "", **shown: Any) -> str:
    """The page that a template of this package makes; all that is shown is escaped."""
    page = _environment().get_template(template)
    return page.render(title=title, lead=lead, footer=footer, titles=[], **shown) + "\n"


def sections_page(
    title: str, lead: str, sections: Sequence[tuple[str, Sequence[Block]]], footer: str = ""
) -> str:
    """A page of headings with blocks below them.

    >>> text = sections_page("A <title>", "What it is", [("One", ["a & b"])])
    >>> "A &lt;title&gt;" in text and "a &amp; b" in text and "<script" not in text
    True
    """
    template = "pages/templates/sections.html.jinja"
    return render(template, title, lead, sections=sections, footer=footer)


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file that appears whole or not at all, readable by its owner alone."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8") if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE.parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # a figure that JSON cannot hold must not get into a page
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "default": str}
    scripts = page_scripts()
    hashes = (base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts)
    environment.globals.update(
        scripts=scripts,
        hashes=" ".join(f"'sha256-{hash_}'" for hash_ in hashes),
        css=(HERE / "page.css").read_text("utf-8"),
    )
    return environment


@cache
def page_scripts() -> tuple[str, ...]:
    """The scripts as they stand in a page: nothing in them ends their element early."""
    files = [*(HERE / "vendor" / name for name in VENDORED), HERE / "page.js"]
    texts = [file.read_text("utf-8") for file in files]
    assert not any("\r" in text for text in texts)  # the browser would hash it as a line feed
    return tuple(text.replace("</script", "<\\/script").replace("<!--", "<\\!--") for text in texts)
