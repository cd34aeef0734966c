"""The page on the architecture: its packages and names exist, and its record passes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sfumato"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", PAGE)) - {"patients.csv"})


def lookup(name: str) -> Any:
    """What a dotted name under `sfumato` stands for."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = import_module(".".join(["sfumato", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    raise AttributeError(name)


def test_every_package_is_listed() -> None:
    table = PAGE.split("## Packages", 1)[1].split("## One record", 1)[0]
    for path in SOURCE.iterdir():
        if (path / "__init__.py").exists():
            assert f"`{path.name}`" in table, path.name


@pytest.mark.parametrize("name", NAMES)
def test_every_name_exists(name: str) -> None:
    assert lookup(name) is not None


PLACES = ("src", "papers", "tests", "benchmarks", "docs", "README.md", "CONTRIBUTING.md")
SUFFIXES = {".py", ".md", ".js", ".html", ".json", ".toml"}

LABEL = re.compile(r"\b[FHSTR][1-9]\d?\b")
SECTION = re.compile(r"methods,[\s#]+section (\d+)", re.IGNORECASE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)

# What may not be referred to: it lies outside the repository, or says nothing to its reader.
ELSEWHERE = {
    "an issue by its number": re.compile(r"\bissue'?s? \d", re.IGNORECASE),
    "a bar by its number": re.compile(r"\bbars? \d+\b(?! s\b)", re.IGNORECASE),
    "a paper by its file": re.compile(r"`00\d_|\bpaper `?00\d\b"),
    "a list of errata that is not here": re.compile(r"\berrata\.md\b"),
    "a section in another spelling": re.compile(r"\bmethods(\.md)? ?§|\bmethods section \d"),
}


def texts() -> Iterator[tuple[Path, str]]:
    """Every text of the repository that people read, but this one."""
    for place in PLACES:
        path = ROOT / place
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            elsewhere = {"vendor", "datasets"} & set(file.parts) and file.suffix in {".js", ".json"}
            if file.suffix in SUFFIXES and file != Path(__file__) and not elsewhere:
                yield file.relative_to(ROOT), file.read_text(encoding="utf-8")


def headings(document: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return HEADING.findall(re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


def test_labels_of_errata_resolve() -> None:
    explained = {label for line in headings("docs/papers.md") for label in LABEL.findall(line)}
    used = {(label, path) for path, text in texts() for label in LABEL.findall(text)}
    assert len({label for label, _ in used}) > 60, "the labels are not found any more"
    unknown = sorted(f"{path}: {label}" for label, path in used if label not in explained)
    assert not unknown, "docs/papers.md does not explain\n" + "\n".join(unknown)


def test_labels_are_explained_once() -> None:
    named = [label for line in headings("docs/papers.md") for label in LABEL.findall(line)]
    assert len(named) == len(set(named))


def test_sections_of_the_methods_resolve() -> None:
    numbered = [re.match(r"(\d+)\. ", line) for line in headings("docs/methods.md")]
    sections = [int(match[1]) for match in numbered if match]
    assert sections == list(range(1, len(sections) + 1))
    used = {(int(number), path) for path, text in texts() for number in SECTION.findall(text)}
    assert len(used) > 8, "the references are not found any more"
    unknown = sorted(f"{path}: section {number}" for number, path in used if number not in sections)
    assert not unknown, "docs/methods.md has no\n" + "\n".join(unknown)


@pytest.mark.parametrize("what", ELSEWHERE)
def test_nothing_refers_elsewhere(what: str) -> None:
    pattern = ELSEWHERE[what]
    found = [f"{path}: {match[0]!r}" for path, text in texts() for match in pattern.finditer(text)]
    assert not found, f"{what}:\n" + "\n".join(found)
