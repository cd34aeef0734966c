"""What MkDocs calls: pages from files outside `docs`, and pages that the program writes itself."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # MkDocs loads this file by its path

from docsite.command_line import command_line_page  # noqa: E402
from docsite.gallery import make_gallery  # noqa: E402
from docsite.navigation import BESIDE, navigation  # noqa: E402
from docsite.python import python_page  # noqa: E402

# files of the program that are published as they stand
PUBLISHED = {"notebooks/analyst.ipynb": "notebooks/analyst.ipynb"}
VENDORED = ROOT / "docsite" / "vendor"
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Arrange the pages as the index does."""
    config.nav = navigation()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what does not lie in `docs`."""

    def add(place: str, content: str | bytes) -> None:
        files.append(File.generated(config, place, content=content))

    for path, page in BESIDE.items():
        add(page, (ROOT / path).read_text("utf-8"))
    for path, place in PUBLISHED.items():
        add(place, (ROOT / path).read_bytes())
    for path in sorted(VENDORED.iterdir()):
        add(f"assets/vendor/{path.name}", path.read_bytes())
    add("reference/command-line.md", command_line_page())
    add("reference/python.md", python_page())
    for place, content in make_gallery().items():
        add(place, content)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to files outside `docs` to where these are on the site."""
    place = page.file.src_uri
    outside = {site: path for path, site in BESIDE.items()}
    origin = outside.get(place, f"docs/{place}")
    moved = BESIDE | PUBLISHED

    def led(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), match[2]))
        if "://" in match[2] or not (place in outside or target in moved):
            return match[0]
        there = moved.get(target, target.removeprefix("docs/"))
        relative = posixpath.relpath(there, posixpath.dirname(place) or ".")
        return f"{match[1]}{relative}{match[3] or ''}{match[4]}"

    return LINK.sub(led, markdown)
