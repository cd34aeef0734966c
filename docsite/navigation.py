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
    reference = [
        *({name: page} for name, page in WRITTEN.items()),
        *pages["Reference"],
        {"Guarantees": pages["Guarantees"]},
        {"Mechanisms": pages["Mechanisms"]},
        {"Changes": "changelog.md"},
    ]
    return [
        "index.md",
        {"Tutorials": pages["Tutorials"]},
        {"How to": pages["How to"]},
        {"Gallery": "gallery.md"},
        {"Reference": reference},
        {
            "Explanation": [
                *pages["Explanation"],
                *pages["For contributors"],
                {"Measurements": "measurements.md"},
            ]
        },
    ]


def _sections(text: str) -> list[tuple[str, str]]:
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def _pages(text: str) -> list[str]:
    """The pages that a section lists, each once."""
    found = LINK.findall(text)
    return list(dict.fromkeys(BESIDE.get(page.removeprefix("../"), page) for page in found))
