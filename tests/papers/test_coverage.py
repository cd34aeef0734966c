"""papers/parts.md names every table and figure of the papers, and commands that exist."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import pytest
import typer

from papers import PAPERS, paper, reproduce
from papers.__main__ import app
from papers.page import PARTS, parts, write_index, write_paper
from papers.steps import check_names, chosen
from sfumato.attacks import ATTACKS, parse_attack
from sfumato.cli.app import _whole_program
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import MECHANISMS

TEXT = PARTS.read_text(encoding="utf-8")
ROWS = [row for _, rows in parts() for row in rows]
LINES = [row[-1].strip("`") for row in ROWS if row[-1]]
# the last figure and table of each paper, under its heading
LAST = {
    "F'-privacy": (7, 5),
    "SPLU": (12, 0),
    "Perturbation": (31, 11),
    "Reconstruction privacy": (5, 6),
    "Heterogeneous generalization": (11, 10),
}


def words(line: str) -> list[str]:
    return shlex.split(line)[3 if line.startswith("python") else 1 :]


def options(line: str, name: str) -> list[str]:
    parts = shlex.split(line)
    return [after for part, after in itertools.pairwise(parts) if part == name]


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("python -m papers")])
def test_reruns_are_there(line: str) -> None:
    command = typer.main.get_command(app)
    context = command.make_context("papers", words(line))
    check_names(context.params["only"], paper(context.params["paper"]).STEPS)


@pytest.mark.parametrize("line", sorted({x for x in LINES if x.startswith("sfumato")}))
def test_commands_parse_and_name_what_there_is(line: str) -> None:
    whole = typer.main.get_command(_whole_program())
    name, *rest = words(line)
    context = typer.Context(whole)
    whole.get_command(context, name).make_context(name, rest, parent=context)  # type: ignore[attr-defined]
    for text in options(line, "--guarantee"):
        if "(" in text:
            parse_guarantee(text)
    assert all(text in MECHANISMS for text in options(line, "--mechanism"))
    attacks = options(line, "--attack")
    assert all(parse_attack(text).name in ATTACKS for text in attacks)


def test_every_printed_name_is_covered() -> None:
    for name in PAPERS:
        mine = [line for line in LINES if line.startswith(f"python -m papers {name} ")]
        asked = [text for line in mine for text in options(line, "--only")]
        for step in paper(name).STEPS:
            for printed in step.prints:
                assert chosen(printed, asked), (name, printed)


@pytest.mark.parametrize("heading", LAST)
def test_every_figure_and_table_of_the_paper_is_named(heading: str) -> None:
    section = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    own = next(part for part in section if part.startswith(heading))
    for word, last in zip(("Figure", "Table"), LAST[heading], strict=True):
        named: set[int] = set()
        for first, second in re.findall(rf"{word}s? (\d+)(?: to (\d+))?", own):
            named |= set(range(int(first), int(second or first) + 1))
        for run in re.findall(rf"{word}s ([\d, and to]+)", own):
            for first, second in re.findall(r"(\d+)(?: to (\d+))?", run):
                named |= set(range(int(first), int(second or first) + 1))
        assert set(range(1, last + 1)) <= named, (word, set(range(1, last + 1)) - named)


def test_no_part_is_left_without_a_status() -> None:
    assert all(len(row) == 4 and all(row[:3]) for row in ROWS)
    for row in ROWS:
        assert row[3] or "words" in row[2] or ":" in row[2] or row[0][0].isdigit(), row


def test_the_index_has_the_verdicts_of_what_was_run(tmp_path: Path) -> None:
    write_paper(reproduce("reconstruction", only=["Table 2"], quick=True), tmp_path)
    page = write_index(tmp_path).read_text("utf-8")
    assert "Table 2: reproduced" in page
    assert "not run" in page
    assert (tmp_path / "reconstruction.html").is_file()
