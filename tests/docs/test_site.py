"""The documents as a site: every page in its place, nothing fetched from anywhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="mkdocs is not installed (extra 'docs')")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed (extra 'docs')")

import sfumato
from docsite.command_line import command_line_page
from docsite.doctests import fenced
from docsite.navigation import navigation
from docsite.python import python_page
from sfumato.cli.app import app

ROOT = Path(__file__).parents[2]
# whatever a browser loads by itself; links that a reader follows may lead anywhere
LOADED = re.compile(r'<(?:script|img|iframe|source)[^>]*\ssrc="([^"]+)"|<link[^>]*\shref="([^"]+)"')


def test_every_command_and_flag_has_its_line() -> None:
    page = command_line_page()
    for command in app.registered_commands:
        assert command.callback is not None
        assert f"\n## {command.name or command.callback.__name__.replace('_', '-')}\n" in page
    assert "| `--guarantee` | needed | The promise" in page


def test_every_public_name_is_on_the_page() -> None:
    listed = set(re.findall(r"^::: (\S+)$", python_page(), flags=re.MULTILINE))
    assert listed == {
        f"{place}.{name}" for name, place in sfumato._PLACES.items() if name != "__version__"
    }


def test_examples_in_docstrings_are_fenced() -> None:
    assert fenced("One.\n\n>>> 1\n1\n\n>>> 2\n2").count("```pycon") == 2
    assert fenced("No example.") == "No example."


def test_every_document_is_in_the_navigation() -> None:
    listed = set(re.findall(r"'([\w/-]+\.md)'", repr(navigation())))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= listed, sorted(pages - listed)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it: a dead link or anchor fails."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        for found in LOADED.findall(page.read_text("utf-8")):
            target = found[0] or found[1]
            assert not re.match(r"(https?:)?//", target), (page.name, target)
            # pages of the gallery are one file each; tests/evidence looks at them
            if "gallery" not in page.parts and page.name != "404.html":
                there = page.parent / target.partition("?")[0].partition("#")[0]
                assert there.exists(), (page.name, target)


@pytest.mark.slow
def test_search_gallery_and_reference(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    places = {entry["location"].partition("#")[0] for entry in index}
    assert {"tutorial.html", "reference/python.html", "reference/command-line.html"} <= places
    assert (site / "search" / "search_index.js").is_file()  # for readers without a server
    shown = sorted((site / "gallery").glob("*.html"))
    assert len(shown) == 4
    for page in shown:
        assert "data-chart=" in page.read_text("utf-8"), page.name
    reference = (site / "reference" / "python.html").read_text("utf-8")
    assert "&gt;&gt;&gt;" in reference
    assert "<blockquote>" not in reference
