"""Standard output is the program's own: what libraries print there goes to standard error."""

from __future__ import annotations

import subprocess
import sys

NOISY = """
import ctypes, sys
from sfumato.cli import app
run = app._run

def noisy(*given):
    library = ctypes.CDLL(None)
    library.puts(b"chatter")
    library.fflush(None)
    return run(*given)

app._run = noisy
sys.argv = ["sfumato", "--version"]
app.run()
"""


def test_a_library_that_prints_does_not_spoil_an_answer() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOISY], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.startswith("sfumato ")
    assert "chatter" not in done.stdout
    assert "chatter" in done.stderr
