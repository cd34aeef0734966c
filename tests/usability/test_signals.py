"""Signals at every moment of a publication: nothing is left, one line, exit code 128 + n."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

# The program, with a signal sent to it at some moment; what comes after must not be reached.
PROGRAM = """
import os, signal, sys, time

def interrupted(owner, name, number):
    usual = getattr(owner, name)
    def stopped(*given, **named):
        os.kill(os.getpid(), number)
        time.sleep(30)
        return usual(*given, **named)
    setattr(owner, name, stopped)

# whoever runs this may ignore them, as nohup and a shell's & do
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
moment, number = sys.argv[1], int(sys.argv[2])
sys.argv[1:] = sys.argv[3:]
import sfumato.engines.engine, sfumato.engines.counting, sfumato.table.staging
import sfumato.engines.spelling, sfumato.table.spool, sfumato.release.bundle
import sfumato.engines.choosing, sfumato.engines.publishing
places = {
    "reading": (sfumato.table.staging.Dictionary, "add"),
    "planning": (sfumato.engines.publishing, "choose_plan"),
    "applying": (sfumato.table.spool.Spool, "add"),
    "writing": (sfumato.engines.spelling, "_opened"),
    "finishing": (sfumato.release.bundle.BundleWriter, "_reopen"),
}
interrupted(*places[moment], number)
from sfumato.cli import main
main()
"""
MECHANISMS = {
    "uniform": "rho-privacy(0.3, 0.6)",
    "optimal": "l-diversity(3)",
    "splu": "small-sum(groups=3)",
    "sps": "reconstruction-privacy(0.3, 0.3)",
}
MOMENTS = ["reading", "planning", "applying", "writing", "finishing"]
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


# every moment, signal and mechanism, and not all of their combinations
CASES = [
    (moment, SIGNALS[index % 3], list(MECHANISMS)[index % 4])
    for index, moment in enumerate([*MOMENTS, *MOMENTS[::-1]])
]


def make_place(place: Path) -> None:
    """A folder to work in, with a table, and one for passing data."""
    draw = np.random.default_rng(1)
    table = pa.table(
        {
            "age": draw.integers(20, 80, 2_000),
            "ill": np.array(list("abcdefghij"))[draw.integers(0, 10, 2_000)],
        }
    )
    (place / "work").mkdir()
    (place / "temporary").mkdir()
    pq.write_table(table, place / "work" / "table.parquet")


def publish(place: Path, mechanism: str, *before: str) -> subprocess.CompletedProcess[str]:
    """Run the program; `before` has the moment and the number of a signal."""
    script = [PROGRAM, *before] if before else ["from sfumato.cli import main; main()"]
    given = ["publish", "table.parquet", "--quasi", "age", "--sensitive", "ill"]
    given += ["--guarantee", MECHANISMS[mechanism], "--mechanism", mechanism, "--out", "release"]
    return subprocess.run(
        [sys.executable, "-c", *script, *given],
        cwd=place / "work",
        env={**os.environ, "TMPDIR": str(place / "temporary")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def left(place: Path) -> list[str]:
    """What lies about besides the table."""
    found = [*(place / "work").rglob("*"), *(place / "temporary").rglob("*")]
    return sorted(str(path.relative_to(place)) for path in found if path.name != "table.parquet")


def wrong(place: Path, moment: str, number: signal.Signals, mechanism: str) -> str:
    """What is not as it must be after a signal; empty where all is well."""
    run = publish(place, mechanism, moment, str(int(number)))
    if run.returncode != 128 + number:
        return f"exit code {run.returncode}: {run.stderr[-200:]}"
    said = [line for line in run.stderr.splitlines() if not line.startswith("sfumato: warning: ")]
    if said != [f"sfumato: Stopped by {number.name}. Nothing was left behind."]:
        return f"it says {run.stderr[-200:]!r}"
    return f"it leaves {left(place)}" if left(place) else ""


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


@pytest.mark.parametrize("moment", ["finishing", pytest.param("writing", marks=pytest.mark.slow)])
def test_what_a_killed_run_leaves_goes_with_the_next(place: Path, moment: str) -> None:
    run = publish(place, "optimal", moment, str(int(signal.SIGKILL)))
    assert run.returncode == -signal.SIGKILL
    assert left(place), "a killed run cannot tidy up"
    assert not [path for path in left(place) if path.startswith("temporary")], "no raw data"
    assert not (place / "work" / "release").exists()
    again = publish(place, "optimal")
    assert again.returncode == 0, again.stderr
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
