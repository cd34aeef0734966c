"""The R package: reads releases, asks them, and counts as the program counts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato as sf
from tests.tables import people as make_people

ROOT = Path(__file__).parents[2]


def run(*command: str, folder: Path | None = None, **environment: str) -> str:
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": beside, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("Rscript") is None:
        pytest.skip("there is no R (Debian: r-base-core)")
    if run("Rscript", "-e", "cat(requireNamespace('jsonlite', quietly = TRUE))") != "TRUE":
        pytest.skip("R has no jsonlite (Debian: r-cran-jsonlite)")
    place = tmp_path_factory.mktemp("library")
    shutil.copytree(ROOT / "r", place / "source")
    run("R", "CMD", "INSTALL", "--no-test-load", "-l", str(place), str(place / "source"))
    return str(place)


@pytest.mark.slow
def test_it_counts_as_the_program_does(library: str, tmp_path: Path) -> None:
    roles = {"quasi": ["age", "sex"], "sensitive": "disease", "drop": ["region"]}
    people = make_people(1500)
    drawn, dealt = tmp_path / "drawn", tmp_path / "it's dealt"
    sf.publish(people, "rho-privacy(0.3, 0.6)", mechanism="uniform", to=drawn, **roles)
    sf.publish(people, "l-diversity(3)", mechanism="optimal", to=dealt, **roles)
    script = str(ROOT / "r" / "tests" / "whole.R")
    printed = run("Rscript", script, str(drawn), str(dealt), R_LIBS=library)
    assert printed.endswith("R agrees\n")
    assert "l-diversity(3)" in printed


@pytest.mark.slow
def test_r_cmd_check_finds_nothing(library: str, tmp_path: Path) -> None:
    """Its manual needs LaTeX, which few have."""
    run("R", "CMD", "build", str(Path(library) / "source"), folder=tmp_path)
    (packed,) = tmp_path.glob("*.tar.gz")
    printed = run("R", "CMD", "check", "--no-manual", packed.name, folder=tmp_path)
    assert "Status: OK" in printed, printed
    (log,) = tmp_path.glob("*.Rcheck/tests/whole.Rout")
    assert "R agrees" in log.read_text("utf-8")


def test_the_versions_are_the_same() -> None:
    described = (ROOT / "r" / "DESCRIPTION").read_text("utf-8")
    version = re.search(r"^Version: (\S+)$", described, re.MULTILINE)
    assert version is not None
    assert sf.__version__.startswith(version[1])
