"""Somebody who is no expert: from a CSV of hospital stays to an audited release, by three cards.

Patients have several stays, and `?` stands where nothing is known. No parameter is typed. On every
screen, in both themes, axe-core finds nothing serious.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sfumato.datasets import hospital
from tests.e2e.browsing import MOMENT, PATIENCE, chromium, expect, serious, served

STAYS = 2500
SIZES = {"1440": {"width": 1440, "height": 900}, "390": {"width": 390, "height": 844}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stays of patients who come again, each diagnosis by its chapter."""
    place = tmp_path_factory.mktemp("hospital")
    with (place / "stays.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["stay", "patient_nbr", "age", "sex", "region", "admission", "country", "diagnosis"]
        )
        for number, stay in enumerate(hospital(STAYS, 7, stays=3).to_pylist()):
            sex = "?" if number % 97 == 0 else stay["sex"]
            row = [stay["age"] // 10 * 10, sex, stay["region"].split()[0], stay["admission"]]
            patient = 100_000 + 7919 * stay["patient"]
            writer.writerow([9 * number + 4, patient, *row, "here", stay["diagnosis"][0]])
    (place / "ragged.csv").write_text("a,b\n1,2\n3,4,5\n6,7\n")
    return place


@pytest.fixture(scope="module")
def address(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    state = tmp_path_factory.mktemp("state")
    with served("--data", str(folder), "--state", str(state)) as found:
        yield found


@pytest.fixture(scope="module")
def tab(address: str) -> Iterator[Any]:
    """One tab that used the address; what the console complains of is an error."""
    with chromium() as browser:
        page = browser.new_context(bypass_csp=True).new_page()
        page.set_default_timeout(MOMENT)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(address)
        page.get_by_role("heading", level=1).wait_for()
        yield page
        assert wrong == []


def look(tab: Any, name: str) -> None:
    """No serious finding, at either size and in either theme; the page fits; pictures where they
    are wanted."""
    shots = os.environ.get("SFUMATO_SCREENSHOTS")
    before = tab.viewport_size
    for size, viewport in SIZES.items():
        tab.set_viewport_size(viewport)
        for theme in ("light", "dark"):
            tab.emulate_media(color_scheme=theme)
            tab.wait_for_timeout(300)
            inside = tab.evaluate("document.documentElement.scrollWidth")
            assert inside <= viewport["width"], f"{name}, {size}"
            if shots:
                tab.screenshot(path=Path(shots) / f"goal-{name}-{size}-{theme}.png", full_page=True)
            assert serious(tab) == [], f"{name}, {size}, {theme}"
    tab.emulate_media(color_scheme="light")
    tab.set_viewport_size(before)


def heading(tab: Any, text: str) -> None:
    tab.get_by_role("heading", level=1, name=text).wait_for(timeout=PATIENCE)


def counting_goes_on(tab: Any) -> None:
    """A counting that takes minutes, as a server would tell of it: a reload finds it again."""
    onward = tab.get_by_role("button", name="Continue to the promise")
    table = tab.evaluate("location.hash.split('/')[2]")
    about = {"id": "feed000000000002", "kind": "counts", "table": table, "stage": "counting"}
    told = {"job": RUNNING | about}

    def answer(route: Any) -> None:
        if route.request.url.endswith("/cancel"):
            told["job"] = told["job"] | {"state": "cancelled"}
        if route.request.url.endswith("/events"):
            body = f"data: {json.dumps(told['job'])}\n\n"
            route.fulfill(status=200, content_type="text/event-stream", body=body)
        else:
            route.fulfill(status=200, json=[told["job"]])

    tab.route("**/api/jobs", answer)
    tab.route("**/api/jobs/feed*/*", answer)
    tab.reload()
    tab.get_by_text("about 90 s left").wait_for()
    expect(onward).to_be_disabled()
    tab.get_by_role("button", name="Cancel").click()
    expect(onward).to_be_enabled()
    expect(tab.locator(".time-left")).to_have_count(0)
    tab.unroute_all()


@pytest.mark.slow
def test_from_a_file_to_an_audited_release(tab: Any, address: str) -> None:
    """One journey, looked at in both sizes."""
    size = "1440"
    tab.set_viewport_size(SIZES[size])
    tab.goto(address.split("#")[0] + "#/")
    heading(tab, "Choose a table of people")
    tab.get_by_role("button", name="stays.csv", exact=False).first.wait_for()
    look(tab, "1-table")

    # a file that does not fit together says so, and shows how it is cut
    tab.get_by_role("button", name=re.compile("^ragged.csv")).click()
    tab.get_by_text("Line 3 of ragged.csv has 3 cells").wait_for()
    tab.get_by_text("line 3 has 3").wait_for()
    tab.get_by_label("Between two cells").select_option(label="semicolon ;")
    tab.get_by_role("columnheader", name="a,b").wait_for()
    look(tab, "1-written")
    tab.get_by_role("button", name=re.compile("^stays.csv")).click()
    heading(tab, "Say what each column is")

    # what stands for nothing known is offered, and read again
    tab.get_by_text("“?” may stand for what is not known").wait_for()
    tab.get_by_role("button", name="Read as missing").click()
    tab.get_by_text("“?” may stand for what is not known").wait_for(state="detached")

    # people and rows are told apart at once
    who = tab.get_by_role("group", name="Who is a row?")
    expect(who).to_contain_text(f"in {STAYS:,} rows")
    look(tab, "2-columns")

    # many columns: arranged, searched, selected together; an identifier is left alone
    tab.get_by_label("Order").select_option("name")
    expect(tab.locator(".column-name").first).to_have_text("admission")
    tab.get_by_label("Find").fill("e")
    tab.get_by_label("Select all shown").check()
    tab.locator("#of-picked").select_option("quasi")
    tab.get_by_text("patient_nbr may name people, and became no quasi column").wait_for()
    tab.get_by_label("Find").fill("")
    tab.get_by_label("Select age").check()
    tab.locator("#of-picked").select_option("drop")
    age = tab.get_by_role("group", name="age", exact=True).locator("input:checked")
    expect(age).to_have_value("drop")

    # another tab goes on where this one is
    tab.wait_for_timeout(700)
    tab.evaluate("sessionStorage.removeItem(`sfumato-roles-${location.hash.split('/')[2]}`)")
    tab.reload()
    heading(tab, "Say what each column is")
    expect(age).to_have_value("drop")
    for name in ("admission", "age", "diagnosis", "sex", "region", "country"):
        group = tab.get_by_role("group", name=name, exact=True)
        role = {"diagnosis": "sensitive", "country": "drop"}.get(name, "quasi")
        group.get_by_text(role, exact=True).click()
    tab.get_by_role("button", name=re.compile("Accept .* suggestions")).click()
    tab.get_by_text("Every column has a role.").wait_for()
    roles = {
        "stay": "drop", "patient_nbr": "person", "age": "quasi", "sex": "quasi",
        "region": "quasi", "admission": "quasi", "diagnosis": "sensitive",
    }  # fmt: skip
    for name, role in roles.items():
        group = tab.get_by_role("group", name=name, exact=True)
        expect(group.locator("input:checked")).to_have_value(role)
    expect(who.locator("input:checked")).to_have_value("person")

    # an identifier made quasi warns
    patient = tab.get_by_role("group", name="patient_nbr", exact=True)
    patient.get_by_text("quasi").click()
    tab.get_by_text("Published as it is, it names people.").wait_for()
    patient.get_by_text("person").click()

    counting_goes_on(tab)
    tab.get_by_role("button", name="Continue to the promise").click()
    heading(tab, "Choose the promise")
    tab.go_back()
    tab.get_by_role("link", name="Go on with these counts").click()
    heading(tab, "Choose the promise")
    expect(tab.locator(".lead")).to_contain_text(f"in {STAYS:,} rows: one row of each is published")
    expect(tab.get_by_role("radio", name=re.compile("l-diversity"))).to_have_count(0)  # Advanced
    tab.get_by_role("button", name="Show three promises").click()
    tab.get_by_role("button", name="Use the balanced promise").wait_for(timeout=PATIENCE)
    expect(tab.locator(".goal-card")).to_have_count(3)
    tab.reload()  # it has not to be looked for again
    tab.get_by_role("button", name="Use the balanced promise").wait_for()
    expect(tab.locator(".goal-card")).to_have_count(3)
    card = tab.get_by_role("article", name="balanced")
    for said in ("Worst value", "People with no promise", "is wrong by about", "Holds against"):
        expect(card).to_contain_text(said)
    tab.get_by_role("button", name="Use the balanced promise").click()
    promised = card.locator("code").inner_text()
    tab.locator(".prediction blockquote").first.wait_for()
    headline = tab.locator(".headline[data-state=good]")
    headline.wait_for()
    expect(headline).to_contain_text(re.compile("Highest ceiling .* wrong by about"))
    look(tab, "3-promise")

    # words for parameters; the command for this very release
    tab.get_by_text("In these data:").first.wait_for()
    tab.get_by_text("By the command line, and what only it can do").click()
    tab.locator(".command code", has_text="sfumato publish stays.csv").first.wait_for()
    expect(tab.locator(".command").nth(9)).to_be_visible()
    look(tab, "3-commands")

    # the sentence stays in sight while the controls are
    for viewport in reversed(SIZES.values()):
        tab.set_viewport_size(viewport)
        tab.wait_for_timeout(300)
        tab.locator(".controls").scroll_into_view_if_needed()
        box = headline.bounding_box()
        assert box is not None
        assert -1 <= box["y"] < viewport["height"]

    # a number that cannot be read leaves nothing to publish
    publish = tab.get_by_role("button", name="Publish under this promise")
    number = tab.locator(".parameter input[type=text]").first
    before = number.input_value()
    number.fill("two")
    expect(publish).to_be_disabled()
    plain = publish.evaluate("one => getComputedStyle(one).color")
    publish.hover(force=True)
    assert publish.evaluate("one => getComputedStyle(one).color") == plain, "hover hides its label"
    number.fill(before)
    tab.locator(".headline[data-state=good]").wait_for()
    publish.click()
    tab.get_by_role("heading", name="What it promises").wait_for(timeout=PATIENCE)
    expect(tab.locator("main")).to_contain_text(promised.split("(")[0])

    # the audit stands before the download
    titles = tab.locator("main h2").all_inner_texts()
    assert titles.index("Does it hold?") < titles.index("Give it out")
    tab.get_by_role("button", name="Audit and attack it").click()
    progress, done = tab.locator(".time-left"), tab.get_by_text("The audit holds")
    progress.or_(done).first.wait_for(timeout=PATIENCE)
    if progress.is_visible():  # a fast machine may be through
        look(tab, "4-progress")
    done.wait_for(timeout=PATIENCE)

    # every adversary in a sentence, inside or outside; the line at the ceiling; coverage
    attacks = tab.get_by_role("region", name="The attacks")
    expect(attacks.locator("tbody tr").nth(4)).to_be_attached()
    expect(attacks).to_contain_text("inside the promise")
    expect(attacks).to_contain_text("outside the promise")
    tab.locator(".attacks .chart svg").wait_for()
    expect(tab.locator(".attacks .legend", has_text="highest ceiling promised")).to_have_count(1)
    expect(tab.locator(".attacks svg line[stroke='var(--bad)']")).to_have_count(1)
    tab.get_by_text("No figures on questions: some rows").wait_for()  # nobody knows which

    # charts follow their place and say what a mark is
    narrow, wide = {"width": 700, "height": 900}, SIZES[size]
    for viewport in (narrow, wide):
        tab.set_viewport_size(viewport)
        tab.wait_for_timeout(400)
        drawn, place = (
            tab.locator(at).first.bounding_box()
            for at in (".attacks .chart svg", ".attacks .chart")
        )
        assert drawn is not None
        assert place is not None
        assert 0.9 * place["width"] <= drawn["width"] <= place["width"] + 2
    tab.locator(
        ".attacks .chart svg path[aria-roledescription=point], .attacks .mark-symbol path"
    ).first.hover()
    tab.locator(".tip", has_text="right guesses").wait_for()
    tab.get_by_role("button", name="Ask", exact=True).click()
    tab.locator(".answer svg").wait_for()
    look(tab, "4-release")
    tab.get_by_role("link", name="Jobs").click()
    heading(tab, "Jobs")
    look(tab, "5-jobs")


COMPARED = {
    "id": "feed000000000001",
    "kind": "compare",
    "name": "stays.csv, 2 candidates",
    "created": "2026-11-16T05:00:00+00:00",
    "state": "done",
    "stage": "done",
    "done": 1,
    "total": 1,
    "error": None,
    "profile": "feed000000000009",
    "candidates": [{"guarantee": "l-diversity(2)"}, {"guarantee": "l-diversity(9)"}],
    "summary": {
        "covered_from": 0.93,
        "candidates": [
            {
                "guarantee": "l-diversity(2)", "mechanism": "optimal", "feasible": True,
                "kept": True, "error": 0.1, "attack": 0.02, "strongest": "linked",
                "ceiling": 0.5, "covered": 0.91,
            },
            {"guarantee": "l-diversity(9)", "feasible": False, "reason": "One value is common."},
        ],
    },
}  # fmt: skip
RUNNING = COMPARED | {
    "state": "running", "stage": "l-diversity(2): attacking: linked", "done": 40, "total": 100,
    "began": "2026-11-16T05:00:00+00:00", "left": 90.0, "summary": {},
}  # fmt: skip
FAILED = COMPARED | {"state": "failed", "error": "The table's file is gone.", "summary": {}}


@pytest.mark.slow
def test_other_screens_in_both_themes(tab: Any, address: str) -> None:
    """Comparison, progress, failure, what is not there, signed out: as a server would tell them."""
    tab.set_viewport_size(SIZES["1440"])
    base = address.split("#")[0]
    told = {"job": COMPARED}

    def answer(route: Any) -> None:
        if route.request.url.endswith("/events"):
            body = f"data: {json.dumps(told['job'])}\n\n"
            route.fulfill(status=200, content_type="text/event-stream", body=body)
        else:
            route.fulfill(status=200, json=told["job"])

    tab.route("**/api/jobs/feed*", answer)
    tab.route("**/api/jobs/feed*/events", answer)
    for name, job, title in (
        ("compared", COMPARED, "The candidates, measured"),
        ("running", RUNNING, "Comparing…"),
        ("failed", FAILED, "This did not work"),
    ):
        told["job"] = job
        tab.goto(f"{base}#/jobs")
        tab.goto(f"{base}#/job/{job['id']}")
        heading(tab, title)
        if name == "compared":
            expect(tab.locator(".tag.bad", has_text="91 %")).to_have_count(1)
        if name == "running":
            tab.get_by_text("about 90 s left").wait_for()
        expect(tab.get_by_role("button", name=re.compile("^(Cancel|Remove)")).first).to_be_visible()
        look(tab, f"6-{name}")
    tab.unroute_all()
    tab.goto(f"{base}#/job/0123456789abcdef")
    heading(tab, "This cannot be shown")
    look(tab, "7-nothing")
    tab.get_by_role("button", name="Sign out").click()
    heading(tab, "Signed out")
    look(tab, "8-signed-out")
    tab.reload()
    tab.get_by_text("This page needs the address").wait_for()
    look(tab, "9-no-session")
