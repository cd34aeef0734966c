"""Gates: the command, the hook and the dbt project let through what holds, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.datasets import write_dataset

ROOT = Path(__file__).parents[2]
GOOD = "zip,sex,disease\n10,F,flu\n10,F,gout\n"
BAD = "zip,sex,disease\n10,F,flu\n20,M,flu\n"
FLAGS = ("--quasi", "zip,sex", "--sensitive", "disease", "--require", "l-diversity(2)")


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    (tmp_path / "good.csv").write_text(GOOD)
    (tmp_path / "bad.csv").write_text(BAD)
    return tmp_path


def test_the_gate_names_what_breaks(cli: Any, tables: Path) -> None:
    done = cli("gate", tables / "good.csv", tables / "bad.csv", *FLAGS)
    assert done.code == 4
    assert "good.csv: keeps l-diversity(2)" in done.out
    assert "bad.csv: BREAKS l-diversity(2)" in done.out
    assert cli("gate", tables / "good.csv", *FLAGS, "--json").code == 0


def test_a_gate_without_a_limit_is_none(cli: Any, tables: Path) -> None:
    done = cli("gate", tables / "good.csv", "--quasi", "zip,sex", "--sensitive", "disease")
    assert (done.code, "lets everything through" in done.err) == (2, True)
    missing = cli("gate", tables / "none.csv", *FLAGS)
    assert missing.code == 2


@pytest.mark.slow
def test_the_hook_stops_a_commit(tables: Path) -> None:
    """The hook as it is defined, run by pre-commit with this environment's program."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    pytest.importorskip("pre_commit", reason="pre-commit is not installed")
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    hook |= {"language": "system", "args": list(FLAGS)}  # the environment is ours already
    config = {"repos": [{"repo": "local", "hooks": [hook]}]}
    (tables / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": programs, "PRE_COMMIT_HOME": str(tables / "home")}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tables, env=environment, capture_output=True, text=True, check=False
        )

    assert run("git", "init", "-q").returncode == 0
    run("git", "add", "good.csv", ".pre-commit-config.yaml")
    first = run(sys.executable, "-m", "pre_commit", "run")
    assert first.returncode == 0, first.stdout + first.stderr
    run("git", "add", "bad.csv")
    second = run(sys.executable, "-m", "pre_commit", "run")
    assert second.returncode == 1
    assert "bad.csv: BREAKS" in second.stdout


def dbt_program() -> str:
    """dbt beside this Python, on the PATH, or where SFUMATO_DBT says it is."""
    beside = Path(sys.executable).parent / "dbt"
    found = os.environ.get("SFUMATO_DBT") or (str(beside) if beside.exists() else None)
    found = found or shutil.which("dbt")
    if found is None:
        pytest.skip("dbt is not installed (extra 'gates')")
    return found


@pytest.mark.slow
def test_dbt_builds_what_holds_and_stops_at_what_does_not(tmp_path: Path) -> None:
    program, project = dbt_program(), tmp_path / "project"
    shutil.copytree(ROOT / "examples" / "dbt", project)
    write_dataset("hospital", 1500, project / "patients.parquet", 1)

    def build(*flags: str) -> subprocess.CompletedProcess[str]:
        command = [program, "--no-use-colors", "build", "--profiles-dir", ".", *flags]
        return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)

    done = build()
    assert done.returncode == 0, done.stdout
    assert "published_model_keeps_l_diversity_5" in done.stdout
    assert sf.open(project / "release").manifest.guarantee == "l-diversity(5)"
    # a weaker promise under the same test
    model = project / "models" / "release_audit.py"
    model.write_text(model.read_text("utf-8").replace("l-diversity(5)", "l-diversity(2)"))
    shutil.rmtree(project / "release")
    broken = build()
    assert broken.returncode == 1, broken.stdout
    assert "FAIL" in broken.stdout
