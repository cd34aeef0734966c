"""The steward's page in Chromium: from `sfumato serve` to a downloaded, audited release."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato
from tests.e2e.browsing import MOMENT, PATIENCE, chromium, expect, served

pytestmark = pytest.mark.slow

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[3] / "shared" / "data"))
CENSUS_ROWS = int(os.environ.get("SFUMATO_CENSUS_ROWS", "2000"))  # attacks on all 100,000: minutes
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 400, "height": 800}
ZOOMED = {"width": 640, "height": 400}  # what is left of 1280 × 800 at 200 %
HOSTILE_COLUMN = "<img src=x onerror=alert(1)>"
HOSTILE_VALUES = ("<script>alert(2)</script>", "=HYPERLINK(1)", '"><b>bold</b>', "plain")


class Visit:
    """A tab that notes what must not happen: console errors, dialogs, requests to elsewhere."""

    def __init__(self, page: Any, base: str) -> None:
        self.page, self.base = page, base
        self.wrong: list[str] = []
        self.refused = 0  # answers of 400 and above, which the browser logs as errors
        page.set_default_timeout(MOMENT)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))
        page.on("request", self._request)
        page.on("response", self._response)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning") and "status of 4" not in message.text:
            self.wrong.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.wrong.append(f"request: {request.url}")

    def _response(self, response: Any) -> None:
        self.refused += response.status >= 400

    def go(self, address: str) -> None:
        self.page.goto(f"{self.base}{address}")

    def heading(self, text: str) -> None:
        self.page.get_by_role("heading", level=1, name=text).wait_for(timeout=PATIENCE)

    def fits(self, name: str) -> None:
        """Check that the page fits at every size, that all has a name, and that what is not
        protected is in sight."""
        for viewport in (WIDE, ZOOMED, NARROW):
            self.page.set_viewport_size(viewport)
            self.page.wait_for_timeout(250)  # charts follow the width a moment later
            inside = self.page.evaluate("document.documentElement.scrollWidth")
            assert inside <= viewport["width"], f"{name} is {inside} wide at {viewport['width']}"
            assert self.page.evaluate(NAMELESS) == [], f"controls without a name in {name}"
        self.page.set_viewport_size(WIDE)
        self.page.get_by_role("complementary").get_by_role("listitem").first.wait_for()


NAMELESS = """() => [...document.querySelectorAll(
    "button, a[href], input, select, textarea, progress")]
  .filter((one) => one.checkVisibility())
  .filter((one) => !(one.labels?.length || one.ariaLabel || one.textContent.trim()))
  .map((one) => one.outerHTML)"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the server is given: a census table, a large one, hostile and wrong ones."""
    from sfumato.datasets import census

    folder = tmp_path_factory.mktemp("data")
    given = DATA / "occ100k.parquet"
    people = pq.read_table(given) if given.exists() else census(CENSUS_ROWS, seed=1)
    pq.write_table(people.slice(0, CENSUS_ROWS), folder / "census.parquet")
    rng = np.random.default_rng(0)
    rows = 6_000_000  # attacking them takes minutes, time enough to cancel it
    large = {
        "age": rng.integers(18, 90, rows).astype(np.int8),
        "region": rng.integers(0, 50, rows).astype(np.int8),
        "disease": rng.integers(0, 40, rows).astype(np.int8),
    }
    pq.write_table(pa.table(large), folder / "large.parquet")
    values = rng.integers(0, len(HOSTILE_VALUES), 400)
    hostile = {
        HOSTILE_COLUMN: pa.array([HOSTILE_VALUES[code] for code in values]),
        "__proto__": pa.array(rng.integers(0, 5, 400)),
    }
    (folder / "inner").mkdir()
    pq.write_table(pa.table(hostile), folder / "inner" / "hostile.parquet")
    (folder / "wrong.parquet").write_bytes(b"PAR1 this is no table PAR1")
    return folder


@pytest.fixture(scope="module")
def address(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    state = tmp_path_factory.mktemp("state")
    with served(str(data), "--state", str(state)) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def session(browser: Any, address: str) -> Any:
    """The session that the one-time address gave: a script that hands it to a new tab."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    page.get_by_role("heading", level=1).wait_for()
    assert "token" not in page.url
    assert context.cookies() == [], "a cookie goes to every port of a machine"
    kept = page.evaluate("sessionStorage.getItem('sfumato-session')")
    context.close()
    # a report is sandboxed and has no storage
    return f"try {{ sessionStorage.setItem('sfumato-session', {json.dumps(kept)}) }} catch {{ }}"


@pytest.fixture
def visit(browser: Any, session: Any, address: str) -> Iterator[Callable[[], Visit]]:
    """Open tabs; at the end none of them may have seen anything wrong."""
    base = address.split("#")[0]
    context = browser.new_context(viewport=WIDE, accept_downloads=True)
    context.add_init_script(session)
    opened: list[Visit] = []

    def new() -> Visit:
        opened.append(Visit(context.new_page(), base))
        return opened[-1]

    yield new
    context.close()
    assert [wrong for one in opened for wrong in one.wrong] == []


STATIC = Path(sfumato.__file__).parent / "web" / "static"


def test_scripts_never_read_markup_or_leave_the_server() -> None:
    for script in STATIC.glob("*.js"):
        text = script.read_text("utf-8")
        found = re.findall(r"innerHTML|outerHTML|insertAdjacent|DOMParser|\beval\b|https?://", text)
        assert set(found) <= {"http://"}, script.name
        assert text.count("http://") == text.count("http://www.w3.org/2000/svg"), script.name


def choose(one: Visit, name: str) -> None:
    one.go("#/")
    one.page.locator("button.file", has_text=name).click()
    one.heading("Say what each column is")


def give_roles(one: Visit, sensitive: str | None = None, drop: tuple[str, ...] = ()) -> None:
    """Give roles; all other columns without one become quasi columns. On to the promise."""
    named = [(name, "sensitive") for name in (sensitive,) if name]
    for column, role in (*named, *((name, "drop") for name in drop)):
        one.page.get_by_role("group", name=column, exact=True).get_by_text(role).click()
    if one.page.get_by_label("All without a role").is_visible():
        one.page.get_by_label("All without a role").select_option("quasi")
    one.page.get_by_text("Every column has a role.").wait_for()
    one.page.get_by_role("button", name="Continue to the promise").click()
    one.heading("Choose the promise")
    one.page.locator(".prediction blockquote").first.wait_for()


def promise(one: Visit, text: str) -> None:
    """Write the promise as text, and wait until it has been predicted."""
    field = one.page.get_by_label("The promise", exact=True)
    if not field.is_visible():
        one.page.get_by_text("As text", exact=True).click()
    field.fill(text)
    one.page.locator(".prediction:not([aria-busy]) .words").wait_for()


def publish(one: Visit, name: str) -> None:
    one.page.get_by_label("A name for it").fill(name)
    one.page.get_by_role("button", name="Publish under this promise").click()


def test_the_whole_journey(visit: Callable[[], Visit], tmp_path: Path) -> None:
    one = visit()
    page = one.page
    one.go("")
    one.heading("Choose a table of people")
    page.locator("button.file", has_text="census.parquet").wait_for()
    one.fits("1-table")

    page.locator("button.file", has_text="census.parquet").click()
    one.heading("Say what each column is")
    expect(page.locator(".segments input:checked")).to_have_count(0)  # no role was guessed
    one.fits("2-columns")
    page.get_by_role("button", name="Continue to the promise").click()
    page.get_by_text("Every column needs a role").wait_for()
    give_roles(one, "occupation", drop=("country", "race"))

    page.locator(".chart svg").nth(1).wait_for()
    promise(one, "l-diversity(4)")
    page.locator("blockquote", has_text="1 in 4").wait_for()
    one.fits("3-promise")
    slider = page.get_by_role("slider").first
    before = page.locator(".headline").text_content()
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.locator("blockquote", has_text="1 in 7").wait_for()
    expect(page.locator(".headline")).not_to_have_text(before)

    promise(one, "beta-likeness(3)")
    page.locator("blockquote", has_text="4 times").wait_for()
    publish(one, "Census for analysts")
    one.heading("Census for analysts")
    one.fits("6-release")
    page.get_by_role("button", name="Audit and attack it").click()
    page.get_by_text("The audit holds").wait_for(timeout=PATIENCE)
    page.get_by_text("The strongest attack").wait_for()
    one.fits("7-evidence")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Open the report").click()
    report = Visit(opened.value, one.base)
    report.page.get_by_role("heading").first.wait_for()
    assert report.wrong == []
    report.page.close()

    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator(".answer svg").wait_for()
    page.locator("#sql").fill("SELECT COUNT(*) FROM release WHERE age < 30")
    page.keyboard.press("Control+Enter")
    page.locator(".answer .single").wait_for()
    one.fits("9-asked")

    with page.expect_download() as coming:
        page.get_by_role("link", name="Download the release").click()
    bundle = tmp_path / "release.zip"
    coming.value.save_as(bundle)
    with zipfile.ZipFile(bundle) as held:
        names = {Path(name).name: name for name in held.namelist()}
        manifest = json.loads(held.read(names["manifest.json"]))
    assert manifest["guarantee"] == "beta-likeness(3)"
    assert {"part-00000.parquet", "manifest.json"} <= set(names)
    assert one.refused == 0

    page.get_by_role("link", name="Jobs").click()
    one.heading("Jobs")
    page.get_by_role("link", name="Census for analysts", exact=True).wait_for()
    one.fits("10-jobs")
    page.get_by_role("link", name="Census for analysts", exact=True).click()
    page.get_by_text("The audit holds").wait_for()


def test_cancel_and_reload(visit: Callable[[], Visit]) -> None:
    """A running job is found again after a reload; cancelled, it says that nothing is left.

    It is the audit and the attacks of millions of rows, which take minutes: a publication of them
    could end before a busy browser had looked.
    """
    one = visit()
    page = one.page
    choose(one, "large.parquet")
    page.get_by_role("group", name="age", exact=True).get_by_text("quasi").click()
    page.reload()
    one.heading("Say what each column is")
    kept = page.get_by_role("group", name="age", exact=True).get_by_label("quasi")
    expect(kept).to_be_checked()
    give_roles(one, "disease")
    promise(one, "rho-privacy(0.1, 0.4)")
    page.reload()
    expect(page.get_by_label("The promise", exact=True)).to_have_value("rho-privacy(0.1, 0.4)")
    publish(one, "Large")
    one.heading("Large")
    page.get_by_role("button", name="Audit and attack it").click()
    page.reload()
    one.heading("Large")
    page.locator(".share", has_text="%").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("The audit was cancelled.").wait_for()
    one.fits("cancelled")
    page.get_by_role("link", name="Back to the promise").click()
    one.heading("Choose the promise")
    assert one.refused == 0


def test_a_second_file_does_not_cancel_the_first(visit: Callable[[], Visit]) -> None:
    one = visit()
    page = one.page
    one.go("#/")
    page.locator("button.file", has_text="large.parquet").click()
    page.get_by_text("Counting the columns of large.parquet").first.wait_for()
    page.locator("button.file", has_text="census.parquet").click()
    one.heading("Say what each column is")
    page.get_by_role("heading", name="occupation").wait_for()  # of the second, which was asked last
    one.go("#/")
    large = page.get_by_role("link", name="large.parquet")
    for _ in range(60):  # it is counted all the same, and stands in the list
        page.get_by_role("button", name="Forget this table: census.parquet").first.wait_for()
        if large.count():
            break
        page.wait_for_timeout(2000)
        page.reload()
    expect(large.first).to_be_visible()


def test_markup_in_names_and_values_is_text(visit: Callable[[], Visit]) -> None:
    one = visit()
    page = one.page
    one.go("#/")
    page.get_by_role("button", name="inner").click()
    page.locator("button.file", has_text="hostile.parquet").click()
    one.heading("Say what each column is")
    page.get_by_role("heading", name=HOSTILE_COLUMN).wait_for()
    one.fits("hostile-columns")
    checked = page.locator(".segments input:checked")
    expect(checked).to_have_count(0)  # no suggestion is taken for granted
    page.get_by_role("button", name=f"Accept the suggestion sensitive for {HOSTILE_COLUMN}").click()
    expect(checked).to_have_count(1)
    give_roles(one)
    page.locator(".chart svg").first.wait_for()
    page.get_by_text("All ceilings as a table").click()
    for value in HOSTILE_VALUES:
        expect(page.get_by_role("rowheader", name=value, exact=True)).to_be_visible()
    promise(one, "l-diversity(2)")
    page.locator("blockquote", has_text="1 in 2").wait_for()
    publish(one, "<b>bold</b>")
    one.heading("<b>bold</b>")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator(".answer svg").wait_for()
    one.fits("hostile-answer")
    assert page.locator("main img, main script, main b").count() == 0
    assert one.refused == 0
