"""The documents stay true: their examples run, their tables and links match the program.

In `DOCUMENTS` every fenced block with one of these languages is executed, in order, in one
temporary folder per document:

- `sh`: the whole block, by bash, which must succeed;
- `console`: each line after `$ ` (with its `\\` continuations), whose output must be the lines that
  follow; a command that fails must be followed by `$ echo $?`;
- `python`: all blocks of a document share one namespace; a `text` block right after one is what
  it must print.

Outputs are compared with every number and every run of blanks made alike, because draws differ
from run to run, but in `EXACT` documents to the digit; a line `…` stands for any lines.
`<!-- not run: why -->` before a block leaves it out.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sfumato.attacks import ATTACKS
from sfumato.audits import CHECKS
from sfumato.datasets import GENERATORS
from sfumato.guarantees import GUARANTEES
from sfumato.mechanisms import MECHANISMS
from sfumato.queries.aggregates import AGGREGATES  # with every aggregate registered
from sfumato.release import manifest_schema
from sfumato.version import __version__
from tests.docs.warm import warm_program

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    "README.md",
    "docs/tutorial.md",
    "docs/which-promise.md",
    "docs/several-promises.md",
    "docs/tables.md",
    "docs/first-hour-hospital.md",
    "docs/first-hour-census.md",
    "docs/guide-steward.md",
    "docs/serve.md",
    "docs/guide-analyst.md",
    "docs/release-format.md",
    "docs/export.md",
    "docs/randomness.md",
    "docs/people.md",
    "docs/republication.md",
    "docs/postgres.md",
    "docs/sql.md",
    "docs/crosstab.md",
    "docs/complete.md",
    "docs/learn.md",
    "docs/guarantees/rho-privacy.md",
    "docs/guarantees/fine-rho-privacy.md",
    "docs/mechanisms/perturbation.md",
    "docs/guarantees/small-sum.md",
    "docs/guarantees/f-privacy.md",
    "docs/guarantees/l-diversity.md",
    "docs/guarantees/beta-likeness.md",
    "docs/mechanisms/buckets.md",
    "docs/guarantees/reconstruction-privacy.md",
    "docs/mechanisms/heterogeneous.md",
    "docs/check.md",
    "docs/attacks.md",
    "docs/peers.md",
    "docs/workloads.md",
    "docs/advise.md",
    "docs/compare.md",
    "docs/report.md",
    "docs/methods.md",
    "CONTRIBUTING.md",
]
# more than five CPU seconds each: `make test-all` runs their examples
DEAR = {
    "docs/tutorial.md",
    "docs/several-promises.md",
    "docs/tables.md",
    "docs/first-hour-hospital.md",
    "docs/first-hour-census.md",
    "docs/guide-steward.md",
    "docs/guide-analyst.md",
    "docs/randomness.md",
    "docs/people.md",
    "docs/republication.md",
    "docs/sql.md",
    "docs/mechanisms/perturbation.md",
    "docs/mechanisms/heterogeneous.md",
    "docs/guarantees/reconstruction-privacy.md",
    "docs/attacks.md",
    "docs/workloads.md",
    "docs/advise.md",
    "docs/compare.md",
    "docs/report.md",
}
EXACT = {"docs/methods.md"}  # worked numbers: nothing in them is drawn
COLD = {"README.md"}  # starts the installed program for every command, as its readers do
RUN = ("sh", "console", "python")
REGISTRIES: list[dict[Any, Any]] = [GUARANTEES, MECHANISMS, AGGREGATES, ATTACKS, GENERATORS]


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int
    run: bool
    prints: str | None  # what a Python block must print


def blocks(document: Path) -> list[Block]:
    """The fenced blocks of a document."""
    found: list[Block] = []
    text = document.read_text(encoding="utf-8")
    fence = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    matches = list(fence.finditer(text))
    for place, match in enumerate(matches):
        before = text[: match.start()].rstrip()
        skipped = before.endswith("-->") and "<!-- not run:" in before[before.rfind("<!--") :]
        prints = None
        if place + 1 < len(matches) and matches[place + 1][1] == "text":
            between = text[match.end() : matches[place + 1].start()]
            prints = matches[place + 1][2] if not between.strip() else None
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(match[1], match[2], line, not skipped, prints))
    return found


def alike(text: str) -> list[str]:
    """Lines with numbers, rules and blanks made alike."""
    text = re.sub(r"-?\d[\d,]*(\.\d+)?(e[-+]?\d+)?", "#", text)
    text = re.sub(r"─+", "─", text)
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def matches(shown: str, printed: str) -> bool:
    """Whether an output is what the document shows."""
    pattern = "\n".join("(.*\n)*.*" if line == "…" else re.escape(line) for line in alike(shown))
    return re.fullmatch(pattern, "\n".join(alike(printed))) is not None


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown for it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        last = next(place for place, line in enumerate(lines) if not line.endswith("\\"))
        yield "\n".join(lines[: last + 1]), "\n".join(lines[last + 1 :])


def shell(command: str, folder: Path, warm: Path | None) -> tuple[int, str]:
    """Exit code and output of a command, as a terminal would show it."""
    own = [str(place) for place in (warm, Path(sys.executable).parent) if place is not None]
    programs = os.pathsep.join([*own, os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": programs},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def run_console(block: Block, folder: Path, warm: Path | None) -> None:
    status = 0
    for command, shown in commands(block):
        assert status == 0 or command == "echo $?", f"the command before {command!r} failed"
        status, printed = shell(f"(exit {status}); {command}", folder, warm)
        assert matches(shown, printed), f"{command}\nprinted:\n{printed}\nshown:\n{shown}"
    assert status == 0, "the last command failed"


def run_python(block: Block, names: dict[str, Any], *, exact: bool) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, "example", "exec"), names)
    if block.prints is not None and exact:
        assert printed.getvalue() == block.prints, printed.getvalue()
    elif block.prints is not None:
        assert matches(block.prints, printed.getvalue()), printed.getvalue()


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with warm_program(tmp_path_factory.mktemp("warm")) as folder:
        yield folder


@pytest.fixture
def registries() -> Iterator[None]:
    """What a document registers (CONTRIBUTING shows how) is gone after it."""
    kept = [(registry, dict(registry)) for registry in REGISTRIES]
    checks = {kind: list(looks) for kind, looks in CHECKS.items()}
    yield
    for registry, before in kept:
        registry.clear()
        registry.update(before)
    CHECKS.clear()
    CHECKS.update(checks)


@pytest.mark.parametrize(
    "name",
    [pytest.param(d, marks=pytest.mark.slow) if d in DEAR else d for d in DOCUMENTS],
)
@pytest.mark.usefixtures("registries")
def test_examples_run(
    name: str, warm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = warm if name not in COLD else None
    names: dict[str, Any] = {"__name__": "__main__"}
    ran = 0
    for block in blocks(ROOT / name):
        if block.language not in RUN or not block.run:
            continue
        ran += 1
        try:
            if block.language == "python":
                run_python(block, names, exact=name in EXACT)
            elif block.language == "console":
                run_console(block, tmp_path, program)
            else:
                status, printed = shell(f"set -e\n{block.text}", tmp_path, program)
                assert status == 0, printed
        except Exception as error:
            raise AssertionError(f"{name}, line {block.line}: {error}") from error
    assert ran, f"{name} has no example that runs"


def test_matching_compares_words_but_not_numbers() -> None:
    assert matches("12 ± 3 (95 %: 6 … 18)", "1,204 ± 6.1 (95 %: -4 … 1e-5)\n")
    assert matches("a\n…\nz 1", "a\nb\nc\nz 2")
    assert not matches("12 rows", "12 records")
    assert not matches("one line", "one line\nand another")


def section(document: str, title: str) -> str:
    """What stands under a heading."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.split(r"^#+ ", text.split(f"# {title}\n", 1)[1], flags=re.MULTILINE)[0]


def written_names(document: str, title: str) -> list[str]:
    """The code names in the first column of the table under a heading."""
    return re.findall(r"^\| `([^`(]+)", section(document, title), flags=re.MULTILINE)


def test_readme_tells_of_the_guarantees_in_their_own_words() -> None:
    rows = [
        f"| [`{cls.signature()}`](docs/guarantees/{name}.md) | {cls.title} | {cls.holds_against} |"
        for name, cls in GUARANTEES.items()
    ]
    written = section("README.md", "Guarantees")
    assert [line for line in written.splitlines() if line.startswith("| [")] == rows


def test_readme_tells_of_the_mechanisms_in_their_own_words() -> None:
    chosen = {"offered": "yes", "on request": "no, on request", "baseline": "no, a baseline"}
    rows = []
    for name, cls in MECHANISMS.items():
        kept = ", ".join(n for n, promise in GUARANTEES.items() if cls().keeps(promise.usual()))
        by_itself = chosen[cls.standing]
        if cls.holds_against is not None:
            by_itself = "for fewer readers: `reader=shares`"
        rows.append(f"| `{name}` | {kept} | {cls.sentence} | {by_itself} |")
    written = section("README.md", "Mechanisms")
    assert [line for line in written.splitlines() if line.startswith("| `")] == rows


def test_every_guarantee_has_its_page() -> None:
    """In the index under its own title, and with the sections that every page has."""
    index = section("docs/index.md", "Guarantees")
    for name, cls in GUARANTEES.items():
        told = f"{cls.title[0].lower()}{cls.title[1:]}"
        assert f"- [{name}](guarantees/{name}.md): {told}\n" in index
        page = (ROOT / f"docs/guarantees/{name}.md").read_text("utf-8")
        for title in ("The promise in one sentence", "What it does not protect against"):
            assert f"\n## {title}" in page, f"{name}: {title}"


def schema_fields(
    schema: dict[str, Any], defined: dict[str, Any], name: str = ""
) -> dict[str, dict[str, Any]]:
    """Every field of a JSON Schema by its path: `columns[].domain.values`, `files.*.bytes`.

    The plan differs by kind and has a section of its own.
    """
    if "$ref" in schema:
        schema = defined[schema["$ref"].rpartition("/")[2]]
    found: dict[str, dict[str, Any]] = {name: schema} if name else {}
    if name == "plan":
        return found
    inside = [(choice, name) for choice in schema.get("anyOf", [])]
    for key, place in (("items", f"{name}[]"), ("additionalProperties", f"{name}.*")):
        if isinstance(schema.get(key), dict):
            inside.append((schema[key], place))
    for part, place in inside:
        fields = schema_fields(part, defined, place)
        found |= {key: value for key, value in fields.items() if key != place}
    for key, part in schema.get("properties", {}).items():
        found |= schema_fields(part, defined, f"{name}.{key}" if name else key)
    return found


def manifest_fields() -> dict[str, dict[str, Any]]:
    schema = manifest_schema()
    return schema_fields(schema, schema["$defs"])


def test_release_format_lists_the_fields_of_the_schema() -> None:
    assert sorted(
        written_names("docs/release-format.md", "The manifest, field by field")
    ) == sorted(manifest_fields())


def test_release_format_lists_every_choice_of_the_schema() -> None:
    text = (ROOT / "docs/release-format.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([^`]+)` \|(.*)$", text, flags=re.MULTILINE))
    for name, part in manifest_fields().items():
        for choice in part.get("enum", []):
            assert f"`{choice}`" in rows[name], f"{name} can be {choice}"


def test_release_format_shows_a_valid_manifest() -> None:
    import jsonschema

    shown = [b for b in blocks(ROOT / "docs/release-format.md") if b.language == "json"]
    assert shown
    jsonschema.Draft202012Validator(manifest_schema()).validate(json.loads(shown[0].text))


def all_documents() -> list[Path]:
    return [
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
    ]


def test_links_lead_somewhere() -> None:
    dead = []
    for document in all_documents():
        if document.name == "CHANGELOG.md":  # names pages that have left since
            continue
        text = re.sub(r"^```.*?^```$", "", document.read_text("utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path = target.partition("#")[0]
            if "://" not in target and path and not (document.parent / path).exists():
                dead.append(f"{document.relative_to(ROOT)}: {target}")
    assert not dead, dead


def test_index_links_every_document() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs") for path in sorted((ROOT / "docs").rglob("*.md"))]
    missing = [str(p) for p in pages if f"({p})" not in index and p.name != "index.md"]
    assert not missing, missing


def test_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    heading = "Unreleased" if "dev" in __version__ else __version__
    assert f"\n## [{heading}]" in changes
    assert f'\nversion = "{__version__}"\n' in project
