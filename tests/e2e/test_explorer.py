"""An analyst who only has the release: a question by clicking, a chart with error bars, the same
numbers as `sfumato query`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError
from tests.e2e.browsing import PROGRAM, chromium, expect, serious, served


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
    with (
        served(str(release), "--state", str(tmp_path / "state")) as address,
        chromium() as browser,
    ):
        page = browser.new_context(
            bypass_csp=True, viewport={"width": width, "height": 900}
        ).new_page()
        page.set_default_timeout(60_000)
        page.goto(address)
        explore(page, release)


def explore(page: Any, release: Path) -> None:
    page.get_by_role("heading", level=1, name="release").wait_for()
    page.locator("blockquote").first.wait_for()
    page.get_by_label("by", exact=True).select_option("ill")
    page.get_by_role("button", name="Add a condition").click()
    page.get_by_label("Column of condition 1").select_option("sex")
    page.get_by_label("Value of condition 1").select_option("f")
    sql = "SELECT ill, COUNT(*) FROM release WHERE sex = 'f' GROUP BY ill"
    expect(page.locator("#sql")).to_have_value(sql)
    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator(".answer svg").wait_for()
    page.get_by_text("Estimates with their 95 % intervals").wait_for()

    # the same numbers as the command line's, as the table rounds them
    done = subprocess.run(
        [*PROGRAM, "query", str(release), sql, "--json"], capture_output=True, text=True, check=True
    )
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == 4
    expect(page.locator(".answer tbody tr")).to_have_count(4)
    shown = page.locator(".answer tbody tr").all_inner_texts()
    for row in rows:
        name = next(name for name in row if name.endswith("_low"))[: -len("_low")]
        (line,) = [line for line in shown if row["ill"] in line]
        parts = [f"{round(row[name + end]):,}" for end in ("", "_low", "_high") if
                 abs(row[name + end]) >= 100]  # fmt: skip
        assert all(part in line for part in parts), (parts, line)

    page.locator("summary", has_text="Download").click()
    expect(page.locator(".along")).to_contain_text("sfumato query release")
    with page.expect_download() as coming:
        page.get_by_role("button", name="Save the answer as CSV").click()
    assert Path(coming.value.path()).read_text().startswith("ill,")
    page.get_by_role("button", name="Show the counts of sex").click()
    page.locator(".card .histogram").first.wait_for()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_timeout(300)
        width = page.viewport_size["width"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert serious(page) == [], theme
