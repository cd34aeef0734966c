"""Signals at every moment of a publication: nothing is left, one line, exit code 128 + n."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.signals import MECHANISMS, MOMENTS, SIGNALS, left, make_place, publish, wrong

# every moment, signal and mechanism, and not all of their combinations
CASES = [
    (moment, SIGNALS[place % 3], list(MECHANISMS)[place % 4])
    for place, moment in enumerate([*MOMENTS, *MOMENTS[::-1]])
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make_place(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "number", "mechanism"), CASES)
def test_a_signal_leaves_nothing(
    place: Path, moment: str, number: signal.Signals, mechanism: str
) -> None:
    assert wrong(place, moment, number, mechanism) == ""


def test_what_a_killed_run_leaves_goes_with_the_next(place: Path) -> None:
    run = publish(place, "optimal", "finishing", str(int(signal.SIGKILL)))
    assert run.returncode == -signal.SIGKILL
    assert left(place), "a killed run cannot tidy up"
    again = publish(place, "optimal")
    assert again.returncode == 0, again.stderr
    assert "A run that was killed had left" in again.stderr
    assert all(path.startswith("work/release") for path in left(place))


def test_a_running_process_keeps_its_folders(tmp_path: Path, monkeypatch) -> None:
    import tempfile

    from sfumato import scratch

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch.scratch_space() as folder:
        (folder / "raw").write_text("secret")
        child = subprocess.run(
            [sys.executable, "-c", "from sfumato import scratch; print(scratch.sweep())"],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert child.stdout.strip() == "0"
        assert (folder / "raw").exists()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()
