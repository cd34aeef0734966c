"""What the tests in a browser share: the server, Chromium, and expectations that wait.

A page answers a click a moment later, on a busy machine a long moment. So nothing that follows a
click is looked at once: `expect` looks again until it is so.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PROGRAM = [sys.executable, "-c", "from sfumato.cli import main; main()"]
PATIENCE = 300_000  # milliseconds: what a busy machine may take for a job
MOMENT = 30_000  # and for what a page does by itself


@contextmanager
def chromium() -> Iterator[Any]:
    """Headless Chromium; the test is skipped, by name, where it is not here."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright for Python")
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("needs Chromium (tests/tools.sh installs it)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def served(*flags: str) -> Iterator[str]:
    """`sfumato serve` with these flags: the address that it prints."""
    pytest.importorskip("starlette", reason="the extra [web] is not installed")
    server = subprocess.Popen(
        [*PROGRAM, "serve", *flags, "--port", "0", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    try:
        lines = (re.search(r"http://\S+", line) for line in server.stdout)
        found = next((line for line in lines if line), None)
        assert found, "sfumato serve printed no address"
        # a pipe that nobody reads would stop the server one day
        threading.Thread(target=server.stdout.read, daemon=True).start()
        yield found.group()
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()


def expect(target: Any) -> Any:
    """Playwright's expectations, as patient as a busy machine needs them."""
    from playwright.sync_api import expect as patient

    patient.set_options(timeout=MOMENT)
    return patient(target)


def serious(tab: Any) -> list[Any]:
    """What axe-core finds serious or worse on this page as it is now."""
    if tab.evaluate("typeof axe") == "undefined":
        tab.add_script_tag(path=str(AXE))
    found = tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (each["id"], [node["html"][:120] for node in each["nodes"][:3]])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
