"""An analyst who only has the release: a question by clicking, a chart with error bars, the same
numbers as `sfumato query`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError

CHROMIUM = "/usr/bin/chromium"
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
PROGRAM = [sys.executable, "-c", "from sfumato.cli import main; main()"]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("given") / "release"
    people = pa.table(
        {
            "age": [20 + n % 40 for n in range(900)],
            "sex": ["f", "m"] * 450,
            "ill": [f"d{n * n % 7}" for n in range(900)],
        }
    )
    roles = {"quasi": "age,sex", "sensitive": "ill"}
    sf.publish(people, "rho-privacy(0.3, 0.7)", to=place, mechanism="uniform", **roles)
    return place


def test_what_is_no_release_is_refused_before_anything_opens(tmp_path: Path, cli: Any) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    done = cli("serve", tmp_path, "--no-browser", "--port", "0", "--state", tmp_path / "state")
    assert done.code != 0
    assert not (tmp_path / "state").exists()
    with pytest.raises(SfumatoError):
        sf.open(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1440, 390])
def test_a_question_by_clicking(release: Path, tmp_path: Path, width: int) -> None:
    pytest.importorskip("starlette", reason="the extra [web] is not installed")
    if not Path(CHROMIUM).exists():
        pytest.skip("needs Chromium (tests/tools.sh installs it)")
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright for Python")
    flags = [str(release), "--port", "0", "--state", str(tmp_path / "state"), "--no-browser"]
    server = subprocess.Popen([*PROGRAM, "serve", *flags], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found
        threading.Thread(target=server.stdout.read, daemon=True).start()
        with sync_api.sync_playwright() as playwright:
            chromium = playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
            )
            page = chromium.new_context(
                bypass_csp=True, viewport={"width": width, "height": 900}
            ).new_page()
            page.set_default_timeout(60_000)
            page.goto(found.group())
            explore(page, release)
            chromium.close()
    finally:
        server.terminate()
        server.wait(20)
        server.stdout.close()


def explore(page: Any, release: Path) -> None:
    page.get_by_role("heading", level=1, name="release").wait_for()
    page.locator("blockquote").first.wait_for()
    page.get_by_label("by", exact=True).select_option("ill")
    page.get_by_role("button", name="Add a condition").click()
    page.get_by_label("Column of condition 1").select_option("sex")
    page.get_by_label("Value of condition 1").select_option("f")
    sql = page.locator("#sql").input_value()
    assert sql == "SELECT ill, COUNT(*) FROM release WHERE sex = 'f' GROUP BY ill"
    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator(".answer svg").wait_for()
    page.get_by_text("Estimates with their 95 % intervals").wait_for()

    # the same numbers as the command line's, as the table rounds them
    done = subprocess.run(
        [*PROGRAM, "query", str(release), sql, "--json"], capture_output=True, text=True, check=True
    )
    shown = page.locator(".answer tbody tr").all_inner_texts()
    rows = json.loads(done.stdout)["rows"]
    assert len(shown) == len(rows) == 4
    for row in rows:
        name = next(name for name in row if name.endswith("_low"))[: -len("_low")]
        (line,) = [line for line in shown if row["ill"] in line]
        parts = [f"{round(row[name + end]):,}" for end in ("", "_low", "_high") if
                 abs(row[name + end]) >= 100]  # fmt: skip
        assert all(part in line for part in parts), (parts, line)

    page.get_by_text("Take it along").click()
    assert "sfumato query release" in page.locator(".along").inner_text()
    with page.expect_download() as coming:
        page.get_by_role("button", name="Save the answer as CSV").click()
    assert Path(coming.value.path()).read_text().startswith("ill,")
    page.get_by_role("button", name="Show the counts of sex").click()
    page.locator(".card .histogram").first.wait_for()
    page.add_script_tag(path=str(AXE))
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_timeout(300)
        width = page.viewport_size["width"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if os.environ.get("SFUMATO_SCREENSHOTS"):
            kept = Path(os.environ["SFUMATO_SCREENSHOTS"]) / f"explore-{width}-{theme}.png"
            page.screenshot(path=kept, full_page=True)
        told = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [
            (each["id"], [node["html"][:120] for node in each["nodes"][:3]])
            for each in told["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert serious == [], theme
