"""Seven candidates on CENSUS at comparable ceilings, compared.

1,000 questions each should take at most 5 minutes on two cores, and the page at most 3 MB.

    SFUMATO_DATA=… python -m benchmarks.compare [FOLDER]

Needs occ100k.parquet in $SFUMATO_DATA. The report goes to FOLDER, or to a temporary place. Where
Chromium and Playwright are there, the page is opened from disk and every chart looked for.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import print_table
from sfumato.evidence.compare import compare
from sfumato.table import read

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
QUASI = "age,gender,education,marital,race,workclass,country"
# about one chance in five: rho2, 1/l and 1/c; theta = 3 allows the commonest value 22 %
CANDIDATES = (
    "rho-privacy(0.08, 1/5) by uniform",
    "rho-privacy(0.08, 1/5) by partitioned",
    "fine-rho-privacy(theta=3) by fine-grain",
    "small-sum(groups=5) by splu",
    "reconstruction-privacy(0.3, 0.3) by sps",
    "l-diversity(5) by optimal",
    "l-diversity(5) by heterogeneous",
)
MINUTES, MEGABYTES = 5, 3


def main() -> None:
    path = DATA / "occ100k.parquet"
    if not path.is_file():
        print("(no occ100k.parquet in $SFUMATO_DATA)")
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "report"
        table = read(
            path,
            quasi=QUASI,
            sensitive="occupation",
            categorical="gender,marital,race,workclass,country",
        )
        began = time.perf_counter()
        found = compare(table, CANDIDATES, out=out)
        seconds = time.perf_counter() - began
        print_table(
            "Seven candidates compared on occ100k, 1,000 questions each",
            ("candidate", "kept", "advantage", "median error", "predicted/measured", "seconds"),
            [
                (
                    str(row.candidate),
                    row.kept,
                    "–" if row.strongest is None else f"{row.strongest[1].value:.1%}",
                    "–" if row.failed else f"{row.error.value:.1%}",
                    _ratio(row.result),
                    sum(row.result.get("seconds", {}).values()),
                )
                for row in found.rows
            ],
        )
        size = found.page.stat().st_size / 1e6
        print_table(
            "The comparison as a whole",
            ("what", "measured", "limit"),
            [
                ("minutes", seconds / 60, MINUTES),
                ("megabytes of the page", size, MEGABYTES),
                *_in_browser(found.page),
            ],
        )


def _ratio(result: dict[str, object] | object) -> str:
    assert isinstance(result, dict)
    predicted = (result.get("predicted") or {}).get("mean_absolute_error")
    if not predicted:
        return "–"
    return f"{predicted / result['accuracy']['mean_absolute_error']:.2f}"


def _in_browser(page: Path) -> list[tuple[str, object, object]]:
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        return [("charts drawn", "no browser here", "all")]
    said: list[str] = []
    asked: list[str] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        tab = browser.new_page()
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(page.resolve().as_uri())
        tab.wait_for_function(
            "[...document.querySelectorAll('.chart')].every(chart => chart.dataset.drawn)"
        )
        drawn = tab.evaluate(
            "[...document.querySelectorAll('.chart')].filter(c => c.dataset.drawn === 'yes' "
            "&& c.querySelector('svg path')).length"
        )
        charts = tab.evaluate("document.querySelectorAll('.chart').length")
        browser.close()
    return [
        ("charts drawn", drawn, charts),
        ("messages on the console", len(said), 0),
        ("requests besides the file", len(asked) - 1, 0),
    ]


if __name__ == "__main__":
    main()
