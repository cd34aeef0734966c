"""The site's navigation, from the index of the documents: each page is arranged in one place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

INDEX = Path(__file__).parents[1] / "docs" / "index.md"
LINK = re.compile(r"^- \[[^\]]+\]\(([^)#]+\.md)\)", re.MULTILINE)
# files beside `docs` that are pages of the site, and what they are called there
BESIDE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "benchmarks/RESULTS.md": "measurements.md",
}
WRITTEN = {"The command line": "reference/command-line.md", "Python": "reference/python.md"}


def navigation() -> list[Any]:
    """Tabs of the site: sections of the index, and the pages that the program writes."""
    pages = {title: _pages(text) for title, text in _sections(INDEX.read_text("utf-8"))}
    written = [{name: page} for name, page in WRITTEN.items()]
    return [
        "index.md",
        {"Start": pages["Start"]},
        {"Guides": pages["Guides"]},
        {"Gallery": "gallery.md"},
        {"Reference": [*written, *pages["Reference"]]},
        {"Background": [*pages["Background"], *pages["For contributors"]]},
    ]


def _sections(text: str) -> list[tuple[str, str]]:
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def _pages(text: str) -> list[str]:
    """The pages that a section lists, each once."""
    found = LINK.findall(text)
    return list(dict.fromkeys(BESIDE.get(page.removeprefix("../"), page) for page in found))
