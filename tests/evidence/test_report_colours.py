"""The report's colours are the steward's page's, and can be read in both themes."""

from __future__ import annotations

import re
from importlib import resources

import pytest

READABLE = 4.5  # WCAG 2.2, 1.4.3


def themes(css: str) -> list[dict[str, str]]:
    light, _, rest = css.partition("prefers-color-scheme: dark")
    dark = rest.split("}\n}")[0] if "}\n}" in rest else rest
    read = [dict(re.findall(r"--([a-z-]+):\s*(#[0-9a-f]{6})", part)) for part in (light, dark)]
    return [read[0], {**read[0], **read[1]}]


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def text_of(package: str, *names: str) -> str:
    place = resources.files(package)
    for name in names:
        place = place.joinpath(name)
    return place.read_text("utf-8")


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_of_a_report(theme: int) -> None:
    page = themes(text_of("sfumato.web", "static", "style.css"))[theme]
    report = themes(text_of("sfumato.pages", "page.css"))[theme]
    for name in ("paper", "ink", "line", "wash", "good", "bad", "accent", "sheet"):
        assert report[name] == page[name], name
    for text in ("ink", "soft", "good", "bad", "private", "accent"):
        for ground in ("paper", "wash"):
            bright, dim = sorted((luminance(report[text]), luminance(report[ground])))[::-1]
            assert (bright + 0.05) / (dim + 0.05) >= READABLE, (text, ground)
