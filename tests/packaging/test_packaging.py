"""What is given out: extras that are documented, versions that are stated, files that are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.lowest import lowest

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
FOR_USERS = ("spark", "postgres", "web", "files")


def test_every_dependency_of_a_user_has_both_ends() -> None:
    """The lowest that `make test-oldest` tries, and the next that may break things."""
    for extra in FOR_USERS:
        for said in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"][extra]):
            assert re.fullmatch(r"[\w-]+(\[[\w,]+\])?>=[\d.]+,<[\d.]+", said), said
    listed = list(lowest(PROJECT, ["web", "files"]))
    assert len(listed) >= len(PROJECT["dependencies"]) + 4
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", each) for each in listed)


def test_every_extra_is_documented() -> None:
    text = (ROOT / "docs" / "python.md").read_text("utf-8")
    for extra in PROJECT["optional-dependencies"]:
        assert f"`sfumato[{extra}]`" in text, extra


def test_workflows_call_targets_that_there_are() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    targets = re.findall(r"^([\w -]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    known = {name for names in targets for name in names.split()}
    found: set[str] = set()
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        described = yaml.safe_load(path.read_text("utf-8"))
        assert described["permissions"] == {"contents": "read"}, path.name
        for job in described["jobs"].values():
            for step in job["steps"]:
                found |= set(re.findall(r"\bmake ([\w-]+)", step.get("run", "")))
    assert {"test-all", "docs", "dist"} <= found
    assert found - {"test-"} <= known  # "test-" is followed by a choice of the matrix


def test_issue_templates_are_forms() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    forms = [*(ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")]
    for path in forms:
        described = yaml.safe_load(path.read_text("utf-8"))
        if path.name != "config.yml":
            assert described["name"]
            assert {part["type"] for part in described["body"]} <= {"markdown", "textarea", "input"}
    assert len(forms) == 4
