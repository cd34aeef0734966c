"""The README's pictures, made from the demonstration: `python -m docsite.pictures`.

A browser shows the report and a chart of answers with their intervals, in a window of fixed size.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ASSETS = Path(__file__).parents[1] / "docs" / "assets"
ASKED = (
    "SELECT occupation, COUNT(*) AS people FROM release WHERE education >= 14 AND age >= 45 "
    "GROUP BY occupation ORDER BY COUNT(*) DESC LIMIT 8"
)
WINDOWS = {"report": (1080, 590), "answer": (760, 900)}


def sfumato(folder: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "sfumato", *words], cwd=folder, check=True)


def photograph(pages: dict[str, Path]) -> None:
    """A PNG of the top of the report, one of the chart of answers."""
    from playwright.sync_api import sync_playwright

    ASSETS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        program = os.environ.get("CHROMIUM", shutil.which("chromium"))
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, page_file in pages.items():
            width, height = WINDOWS[name]
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(page_file.as_uri())
            page.wait_for_load_state("networkidle")
            shown = page.locator("figure").first if name == "answer" else page
            shown.screenshot(path=ASSETS / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        sfumato(folder, "demo")
        demo = folder / "demo"
        sfumato(demo, "query", ASKED, "--plot", "answer.html")
        photograph({"report": demo / "report" / "report.html", "answer": demo / "answer.html"})
