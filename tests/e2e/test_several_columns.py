"""A hospital file with 50 columns, three of them sensitive, on the page: file to report, keyboard
only, on a wide screen and a phone's, light and dark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.browsing import MOMENT, PATIENCE, chromium, expect, serious, served
from tests.twins import hospital_file

pytestmark = pytest.mark.slow

ROWS = 4000
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 800}
PROMISES = {
    "medical_specialty": "f-privacy(theta=1, floor=0.05)",
    "diag_1": "f-privacy(theta=1, floor=0.1)",
    "readmitted": "enhanced-beta-likeness(1)",
}
SHOTS = os.environ.get("SFUMATO_SHOTS")  # a folder for screenshots, to look at


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("data")
    hospital_file(folder / "stays.csv", ROWS)
    with served("--data", str(folder), "--state", str(tmp_path_factory.mktemp("state"))) as found:
        yield found


def press(page: Any, control: Any, key: str = "Enter") -> None:
    """What a hand on the keyboard does once it has come to a control; it can be come to."""
    expect(control).to_be_visible()
    assert control.evaluate("one => one.tabIndex") >= 0
    control.focus()
    page.keyboard.press(key)


def look(page: Any, name: str) -> None:
    """No width is exceeded, nothing serious is wrong, no flag is shown; in both themes."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for size in (WIDE, PHONE):
            page.set_viewport_size(size)
            page.wait_for_timeout(250)
            inside = page.evaluate("document.documentElement.scrollWidth")
            assert inside <= size["width"], f"{name} is {inside} wide at {size['width']}"
            if SHOTS:
                shot = Path(SHOTS) / f"{name}-{theme}-{size['width']}.png"
                page.screenshot(path=shot, full_page=True)
        assert serious(page) == [], (name, theme)
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="light")
    assert "--" not in page.locator("main").inner_text(), name


def test_three_sensitive_columns_from_the_file_to_the_report(address: str) -> None:
    with chromium() as browser:
        page = browser.new_context(viewport=WIDE, bypass_csp=True).new_page()
        page.set_default_timeout(MOMENT)
        page.goto(address)
        press(page, page.locator("button.file", has_text="stays.csv"))
        page.get_by_role("heading", level=1, name="Say what each column is").wait_for()
        press(page, page.get_by_role("button", name="Read as missing"))
        expect(page.get_by_role("button", name="Read as missing")).to_have_count(0)
        press(page, page.get_by_role("button", name="Accept").first)
        rest = page.get_by_label("All without a role")
        if rest.is_visible():
            rest.focus()
            rest.select_option("drop")
        press(page, page.get_by_label("Order"), "Tab")
        look(page, "columns")
        press(page, page.get_by_role("button", name="Continue to the promise"))
        refused = page.locator(".notice.bad", has_text="Rows without a sensitive value")
        chosen = page.get_by_role("heading", level=1, name="Choose the promise")
        refused.or_(chosen).first.wait_for(timeout=PATIENCE)
        if refused.is_visible():  # missing specialties: said at the button, in the page's words
            expect(refused).to_be_in_viewport()
            press(page, page.get_by_label("“Missing” is a value of its own"), "Space")
            press(page, page.get_by_role("button", name="Continue to the promise"))
        chosen.wait_for(timeout=PATIENCE)
        page.locator(".prediction blockquote").first.wait_for(timeout=PATIENCE)
        expect(page.get_by_role("button", name="Publish under this promise")).to_be_enabled()
        press(page, page.get_by_label("30 %"), "Space")
        press(page, page.get_by_role("button", name="Show three promises"))
        card = page.locator(".goal-card", has_text="balanced")
        card.wait_for(timeout=PATIENCE)
        press(
            page,
            page.get_by_role("button", name="promise", exact=False)
            .filter(has_text="Use the safer")
            .first,
        )
        expect(page.locator(".prediction:not([aria-busy]) .words blockquote").first).to_be_visible(
            timeout=PATIENCE
        )
        press(page, page.locator("summary", has_text="As text"))
        page.get_by_label("The promise", exact=True).focus()
        page.keyboard.press("Control+A")
        page.keyboard.insert_text(
            " and ".join(f"{c}: {promise}" for c, promise in PROMISES.items())
        )
        for column, promise in PROMISES.items():
            expect(page.get_by_label(column, exact=True)).to_have_value(promise)
        expect(page.locator(".headline")).to_contain_text("A count of 500", timeout=PATIENCE)
        expect(
            page.get_by_role("table", name="Risk and accuracy, before and after")
        ).to_be_visible()
        look(page, "promise")
        press(page, page.get_by_role("button", name="Publish under this promise"))
        page.get_by_role("heading", name="For the analyst").wait_for(timeout=PATIENCE)
        press(page, page.get_by_role("button", name="Ask", exact=True))
        answer = page.get_by_role("table", name="The answer")
        answer.wait_for(timeout=PATIENCE)
        assert "." not in answer.locator("td").nth(1).inner_text()
        press(page, page.get_by_role("button", name="Audit"))
        page.get_by_role("link", name="report").first.wait_for(timeout=PATIENCE)
        look(page, "release")
