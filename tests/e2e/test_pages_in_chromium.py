"""Reports in headless Chromium: opened from disk, every chart drawn, nothing asked of anybody."""

from __future__ import annotations

import re
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from tests.e2e.browsing import chromium

pytestmark = pytest.mark.slow

EVIL = "</script><script>alert(1)</script>"
DISEASES = ("angina", "asthma", "flu", "gastritis", "ulcer", EVIL, "<img src=x onerror=alert(1)>")
CHARTS = {  # what the charts of a comparison and of reports are called
    "compare": {"risk", "count", "value", "attacks"},
    "partitioned": {"attacks", "count", "value"},
    "uniform": {"attacks", "count", "value"},
}


def table(rows: int = 3000) -> sf.Table:
    rng = np.random.default_rng(2)
    people = pa.table(
        {
            "age": pa.array(rng.integers(20, 80, rows)),
            f"sex {EVIL}": pa.array(np.array(["F", EVIL])[rng.integers(0, 2, rows)]),
            "disease": pa.array(np.array(DISEASES)[rng.integers(0, len(DISEASES), rows)]),
        }
    )
    return sf.read(people, quasi=f"age,sex {EVIL}", sensitive="disease")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A comparison and two reports, by name."""
    folder = tmp_path_factory.mktemp("pages")
    people = table()
    found = sf.compare(
        people,
        ["rho-privacy(1/4, 1/2) by uniform", "l-diversity(4) by optimal",
         "l-diversity(4) by heterogeneous", "l-diversity(50) by ring"],
        out=folder / "compare", questions=200, targets=500, fresh=False,
    )  # fmt: skip
    made = {"compare": found.page}
    for mechanism in ("partitioned", "uniform"):
        sf.publish(people, "rho-privacy(1/4, 1/2)", mechanism=mechanism, to=folder / mechanism)
        report = sf.report(
            folder / mechanism, table=people, out=folder / f"{mechanism}-report", questions=200
        )
        made[mechanism] = report.page
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


class Opened:
    """A page opened from disk, and everything that it said or asked for meanwhile."""

    def __init__(self, browser: Any, path: Path, width: int) -> None:
        self.tab = browser.new_page(viewport={"width": width, "height": 900})
        self.said: list[str] = []
        self.asked: list[str] = []
        self.tab.on("console", lambda message: self.said.append(message.text))
        self.tab.on("pageerror", lambda error: self.said.append(str(error)))
        self.tab.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.tab.goto(path.as_uri())
        self.tab.wait_for_function(
            "[...document.querySelectorAll('.chart')].every(chart => chart.dataset.drawn)"
        )


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", list(CHARTS))
def test_every_chart_is_drawn(pages: dict[str, Path], browser: Any, name: str, width: int) -> None:
    opened = Opened(browser, pages[name], width)
    charts = opened.tab.query_selector_all(".chart")
    drawn = {re.match(r"chart-([a-z]+)", chart.get_attribute("id"))[1] for chart in charts}  # type: ignore[index]
    assert drawn == CHARTS[name]
    for chart in charts:
        where = chart.get_attribute("id")
        assert chart.get_attribute("data-drawn") == "yes", where
        box = chart.query_selector("svg").bounding_box()
        assert box["width"] > 200, where
        assert box["height"] > 40, where
        assert colours(chart.screenshot()) > 20, f"{where} is blank"
    assert opened.said == []
    assert opened.asked == [pages[name].as_uri()]
    # nothing is wider than the window: a phone scrolls down, never sideways
    assert opened.tab.evaluate("document.documentElement.scrollWidth") <= width
    opened.tab.close()


def colours(picture: bytes) -> int:
    """How many different bytes the pixels of a PNG have: a blank one has hardly any."""
    data, place = b"", 8
    while place < len(picture):
        length = int.from_bytes(picture[place : place + 4], "big")
        if picture[place + 4 : place + 8] == b"IDAT":
            data += picture[place + 8 : place + 8 + length]
        place += length + 12
    return len(np.unique(np.frombuffer(zlib.decompress(data), np.uint8)))


def test_values_of_the_table_stay_text(pages: dict[str, Path], browser: Any) -> None:
    for name in CHARTS:
        opened = Opened(browser, pages[name], 1280)
        assert opened.tab.query_selector("img") is None
        text = opened.tab.evaluate("document.body.textContent")
        assert EVIL in text
        assert opened.said == []  # no dialog either
        opened.tab.close()


def test_the_page_may_ask_nobody(pages: dict[str, Path], browser: Any) -> None:
    """Even a script that got in could not send anything out: the page's own policy forbids it."""
    opened = Opened(browser, pages["compare"], 1280)
    with socket.create_server(("127.0.0.1", 0)) as server:
        refused = opened.tab.evaluate(
            """async (address) => {
                const image = new Promise(done => { const i = new Image();
                  i.onload = () => done(false); i.onerror = () => done(true);
                  i.src = address + 'x.png'; });
                const fetched = fetch(address).then(() => false, () => true);
                const script = document.createElement('script');
                script.textContent = 'window.gotIn = true'; document.body.append(script);
                return (await image) && (await fetched) && !window.gotIn; }""",
            f"http://127.0.0.1:{server.getsockname()[1]}/",
        )
        assert refused
        server.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody knocked
            server.accept()
    opened.tab.close()
