"""papers/parts.md names every table and figure of the papers, and commands that exist."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
from pathlib import Path

import pytest
import typer

from papers import PAPERS, paper, reproduce
from papers.__main__ import app
from papers.page import PARTS, parts, write_index, write_paper
from papers.steps import (
    Claim,
    Step,
    below,
    beside_the_paper,
    check_names,
    chosen,
    run_steps,
    within,
)
from sfumato.attacks import ATTACKS, parse_attack
from sfumato.cli.app import _whole_program
from sfumato.errors import UsageError
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.results import ResultTable

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

# verdicts that hold in a quick rerun on the public files
HELD = {"f-privacy": 6, "heterogeneous": 26, "perturbation": 27, "reconstruction": 14, "splu": 17}
DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[3] / "shared" / "data"))


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
    for text in options(line, "--mechanism"):
        parse_mechanism(text)
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


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "occ100k.parquet").is_file(), reason="no occ100k.parquet")
@pytest.mark.parametrize("name", HELD)
def test_a_rerun_makes_everything_and_its_verdicts_hold(name: str, tmp_path: Path) -> None:
    shares: list[float] = []
    report = reproduce(name, out=tmp_path, quick=True, data_dir=DATA,
                       progress=lambda what, share: shares.append(share))  # fmt: skip
    assert (shares, shares[-1]) == (sorted(shares), 1.0)
    verdicts = report.tables[-1].rows
    assert {row[0] for row in verdicts} == {claim.about for claim in paper(name).CLAIMS}
    held = [row for row in verdicts if str(row[3]).startswith(("reproduced", "better"))]
    assert len(held) >= HELD[name], verdicts
    described = json.loads((tmp_path / f"{name}.json").read_text())
    assert [table["name"] for table in described["tables"]] == [t.name for t in report.tables]
    page = (tmp_path / f"{name}.html").read_text()
    assert all(series.name in page for series in report.series)
    tags = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert not re.search(r'<(script|img|link)[^>]* (src|href)="(?!data:)', tags)
    assert "nan" not in tags.lower()


def test_the_index_has_the_verdicts_of_what_was_run(tmp_path: Path) -> None:
    write_paper(reproduce("reconstruction", only=["Table 2"], quick=True), tmp_path)
    page = write_index(tmp_path).read_text("utf-8")
    assert "Table 2: reproduced" in page
    assert "not run" in page
    assert (tmp_path / "reconstruction.html").is_file()


@pytest.mark.parametrize("name", PAPERS)
def test_every_printed_name_has_a_claim(name: str) -> None:
    module = paper(name)
    printed = [each for step in module.STEPS for each in step.prints]
    assert len(printed) == len(set(printed))
    assert {claim.about for claim in module.CLAIMS} == set(printed)


def test_only_what_is_asked_for_is_made() -> None:
    shares: list[float] = []
    report = reproduce(
        "reconstruction",
        only=["Table 2"],
        quick=True,
        progress=lambda what, share: shares.append(share),
    )
    assert [table.name for table in report.tables] == ["Table 2", "Verdicts"]
    assert report.tables[-1].rows[0][3] == "reproduced"
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    with pytest.raises(UsageError, match=r"'Table 9'.*There is: Table 1"):
        reproduce("reconstruction", only=["Table 9"], quick=True)
    assert not chosen("Figure 20", ["Figure 2"])
    with pytest.raises(UsageError, match="There is no reproduction 'x'"):
        reproduce("x")


def test_a_claim_that_fails_says_why() -> None:
    table = ResultTable("T", "t", ("x", "ours"), [("a", 2.0), ("b", 4.0)])
    made = run_steps([Step(("T",), lambda _: ([table], []))], None, (), lambda *_: None)
    assert made.column("T", "ours", x="b") == [4.0]
    about = [
        Claim(name, "3", lambda found: within(found.column("T", "ours"), [2.0, 3.0], 0.2), "noise")
        for name in ("T", "not made")
    ]
    shown = beside_the_paper(about, made)
    assert shown is not None
    assert shown.rows == [("T", "3", "off by 33.3 % at most", "not reproduced: noise")]
    assert [below(x, 1.0, 1.2, "")[1] for x in (0.5, 1.1, 1.3)] == [
        "better",
        "reproduced",
        "not reproduced",
    ]
