"""The documents stay true: examples run, tables match the program, words are the field's.

Sybil finds the fenced blocks; one temporary folder and one namespace for each document. `sh` blocks
must succeed. In `console` blocks each line after `$ ` runs, and prints the lines that follow; a
command that fails is followed by `$ echo $?`. A `text` block right after `python` is what it
prints. Numbers and blanks are made alike before comparing, because draws differ; `…` stands for
anything. `<!-- skip: next, "why" -->` before a block skips it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, SkipParser

from sfumato.attacks import ATTACKS
from sfumato.audits import CHECKS
from sfumato.datasets import GENERATORS, write_dataset
from sfumato.guarantees import GUARANTEES
from sfumato.mechanisms import MECHANISMS
from sfumato.queries.aggregates import AGGREGATES
from sfumato.release import manifest_schema
from sfumato.storage import Stored
from sfumato.version import __version__
from tests.docs.warm import warm_program
from tests.s3 import s3_server

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
QUICK = {"README", "which-promise", "guarantees", "methods"}
NO_EXAMPLES = {"index", "architecture", "papers", "page", "CONTRIBUTING"}
NO_EXAMPLES |= {"faq", "glossary", "limits", "ethics-and-law"}
REGISTRIES: list[dict[Any, Any]] = [GUARANTEES, MECHANISMS, AGGREGATES, ATTACKS, GENERATORS]

# design, section 2: words that the documents and messages do not use
AVOIDED = re.compile(
    r"\b(quasi columns?|delicate|hangs? together|beliefs?|believe[sd]?|dealt|dealing|withheld|"
    r"no link between|links? between|honest releases look|not looked at|all the same|for your eyes|"
    r"take it along|so manieth|not even so|dear|dearer|dearest|the house|the rooms)\b",
    re.IGNORECASE,
)


def alike(text: str) -> str:
    """Numbers, rules and blanks made alike."""
    text = re.sub(r"-?\d[\d,]*(\.\d+)?(e[-+]?\d+)?", "#", text)
    text = text.replace("# ± # (", "# (")  # whether an interval is lopsided is chance
    text = re.sub(r"─+", "─", text)
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def matches(shown: str, printed: str) -> bool:
    """Whether an output is what the document shows; a line `…` stands for any lines."""
    lines = [
        r"(.*\n)*.*" if line == "…" else re.escape(line).replace("…", ".*")
        for line in alike(shown).split("\n")
    ]
    return re.fullmatch("\n".join(lines), alike(printed)) is not None


def shell(command: str, example: Example) -> tuple[int, str]:
    """Exit code and output of a command, as a terminal would show it."""
    names = example.namespace
    programs = os.pathsep.join([str(names["warm"]), *names["path"], os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=names["folder"],
        env={**os.environ, "PATH": programs},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    # what others left in the temporary folder is no part of the example
    killed = r"sfumato: warning: A run that was killed had left .*\n"
    return done.returncode, re.sub(killed, "", done.stdout)


def run_sh(example: Example) -> str | None:
    example.namespace.pop("printed", None)
    status, printed = shell(f"set -e\n{example.parsed}", example)
    return None if status == 0 else f"line {example.line}: {printed}"


def run_console(example: Example) -> str | None:
    example.namespace.pop("printed", None)
    status = 0
    for part in re.split(r"^\$ ", str(example.parsed), flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        last = next(index for index, line in enumerate(lines) if not line.endswith("\\"))
        command, shown = "\n".join(lines[: last + 1]), "\n".join(lines[last + 1 :])
        if status and command != "echo $?":
            return f"line {example.line}: the command before {command!r} failed"
        status, printed = shell(f"(exit {status}); {command}", example)
        if not matches(shown, printed):
            return f"line {example.line}: {command}\nprinted:\n{printed}\nshown:\n{shown}"
    return f"line {example.line}: the last command failed" if status else None


def run_python(example: Example) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(str(example.parsed), "example", "exec"), example.namespace)
    example.namespace["printed"] = printed.getvalue()


def compare_text(example: Example) -> str | None:
    printed = example.namespace.pop("printed", None)
    if not printed or matches(str(example.parsed), printed):
        return None
    return f"line {example.line}: printed\n{printed}"


SYBIL = Sybil(
    parsers=[
        SkipParser(),
        CodeBlockParser("sh", run_sh),
        CodeBlockParser("console", run_console),
        CodeBlockParser("python", run_python),
        CodeBlockParser("text", compare_text),
    ],
    pattern="*.md",
)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with warm_program(tmp_path_factory.mktemp("warm")) as folder:
        yield folder


@pytest.fixture
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What `tables` says is there: an organisation's bucket with a table of stays."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with s3_server("clinic") as address, tempfile.TemporaryDirectory() as folder:
        stays = write_dataset("hospital", 6000, Path(folder) / "stays.parquet", seed=1)
        Stored.at(address).put(stays.name, stays)
        yield


@pytest.fixture
def _registries() -> Iterator[None]:
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
    "document",
    [d if d.stem in QUICK else pytest.param(d, marks=pytest.mark.slow) for d in DOCUMENTS],
    ids=lambda path: path.stem,
)
@pytest.mark.usefixtures("_registries")
def test_examples_run(
    document: Path,
    warm: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if document.stem == "tables":
        request.getfixturevalue("_store")
    monkeypatch.chdir(tmp_path)
    parsed = SYBIL.parse(document)
    own = str(Path(sys.executable).parent)
    parsed.namespace.update(warm=warm, path=[own], folder=tmp_path, __name__="__main__")
    examples = list(parsed.examples())
    for example in examples:
        with contextlib.suppress(pytest.skip.Exception):
            example.evaluate()
    assert examples or document.stem in NO_EXAMPLES


def test_matching_compares_words_but_not_numbers() -> None:
    assert matches("12 ± 3 (95 %: 6 … 18)", "1,204 ± 6.1 (95 %: -4 … 1e-5)\n")
    assert matches("a\n…\nz 1", "a\nb\nc\nz 2")
    assert not matches("12 rows", "12 records")
    assert not matches("one line", "one line\nand another")


def messages() -> Iterator[str]:
    """Every text in the source that is no docstring, and every line of the page."""
    for path in sorted((ROOT / "src/sfumato").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        bodies = [getattr(node, "body", []) for node in ast.walk(tree)]
        first = [body[0] for body in bodies if isinstance(body, list) and body]
        docstrings = {id(node.value) for node in first if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and " " in text and id(node) not in docstrings:
                yield text
    for path in sorted((ROOT / "src/sfumato/web/static").glob("*.js")):
        yield from path.read_text("utf-8").splitlines()


def test_messages_use_the_words_of_the_field() -> None:
    avoided = [text for text in messages() if AVOIDED.search(text)]
    assert not avoided, "\n".join(avoided)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_documents_use_the_words_of_the_field(document: Path) -> None:
    if document.stem == "papers":  # quotes the papers' own words
        return
    lines = document.read_text("utf-8").splitlines()
    found = [f"{n}: {line}" for n, line in enumerate(lines, 1) if AVOIDED.search(line)]
    assert not found, "\n".join(found)


def test_every_guarantee_has_its_section_and_its_row() -> None:
    guarantees = (ROOT / "docs/guarantees.md").read_text("utf-8")
    readme = (ROOT / "README.md").read_text("utf-8")
    for name in GUARANTEES:
        assert f"\n### {name}\n" in guarantees
        assert f"(docs/guarantees.md#{name})" in readme


def test_every_mechanism_and_attack_is_named() -> None:
    mechanisms = (ROOT / "docs/mechanisms.md").read_text("utf-8")
    listed = [name for name, cls in MECHANISMS.items() if cls.standing != "baseline"]
    assert [name for name in listed if f"`{name}" not in mechanisms] == []
    attacks = (ROOT / "docs/audit-and-attack.md").read_text("utf-8")
    assert [name for name in ATTACKS if f"`{name}" not in attacks] == []


def schema_fields(schema: dict[str, Any], whole: dict[str, Any]) -> set[str]:
    """The names of all properties that a JSON Schema knows."""
    names: set[str] = set()
    if isinstance(schema, dict):
        names |= set(schema.get("properties", {}))
        for part in schema.values():
            parts = part if isinstance(part, list) else [part]
            names |= {n for p in parts if isinstance(p, dict) for n in schema_fields(p, whole)}
    return names


def test_release_format_names_the_fields_of_the_schema() -> None:
    text = (ROOT / "docs/release-format.md").read_text("utf-8")
    schema = manifest_schema()
    missing = [name for name in schema_fields(schema, schema) if f"{name}" not in text]
    assert missing == []


def test_release_format_shows_a_valid_manifest() -> None:
    import jsonschema

    text = (ROOT / "docs/release-format.md").read_text("utf-8")
    for shown in re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[:1]:
        jsonschema.Draft202012Validator(manifest_schema()).validate(json.loads(shown))


def test_links_beside_the_site_lead_somewhere() -> None:
    """`mkdocs --strict` follows those inside `docs`."""
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/RESULTS.md"):
        text = re.sub(r"^```.*?^```$", "", (ROOT / name).read_text("utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            path = target.partition("#")[0]
            if "://" not in target and path:
                assert ((ROOT / name).parent / path).exists(), f"{name}: {target}"


def test_sizes() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    lines = sum(len(page.read_text("utf-8").splitlines()) for page in pages)
    assert len(pages) <= 24
    assert lines <= 4_200
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


def test_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    heading = "Unreleased" if "dev" in __version__ else __version__
    assert f"\n## [{heading}]" in changes
    assert f'\nversion = "{__version__}"\n' in project
