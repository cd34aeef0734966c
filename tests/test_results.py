"""What a prompt and a notebook show of every result."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf

EVIL = "<b>flu</b>"
LONGEST = 6000  # characters at a prompt


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, str]]:
    """Every result, with a word that its `repr` must have."""
    folder = tmp_path_factory.mktemp("results")
    rng = np.random.default_rng(2)
    rows = 600
    people = pa.table(
        {
            "age": rng.integers(20, 40, rows),
            "sex": np.array(["F", "M"])[rng.integers(0, 2, rows)],
            "ill": np.array([EVIL, "HIV", "none", "ulcer"])[rng.integers(0, 4, rows)],
        }
    )
    table = sf.read(people, quasi="age,sex", sensitive="ill")
    made = sf.publish(table, "l-diversity(2)", to=folder / "release")
    opened = sf.open(made.release)
    known: dict[str, Any] = {"min_count": 50}
    return {
        "Table": (table, "quasi age, sex"),
        "Publication": (made, "Published 600 of 600 rows"),
        "OpenedRelease": (opened, "l-diversity(2)"),
        "Answer": (
            opened.sql("SELECT ill, COUNT(*) FROM release WHERE age % 2 = 1 GROUP BY ill"),
            "(95 %",
        ),
        "Verdict": (sf.audit(table, opened), "The release keeps its promise"),
        "Outcome": (
            sf.attack(table, opened, attacks="naive-bayes", targets=50, fresh=False)[0],
            "right guesses",
        ),
        "Check": (sf.check(people, quasi="age,sex", sensitive="ill"), "k-anonymity"),
        "Advice": (sf.advise(table, **known), "average ceiling"),
        "Cost": (
            sf.advise(table, guarantee="l-diversity(2)", mechanism="optimal", **known),
            "at most 0.5 for a person's own value",
        ),
        "first look": (sf.describe(people), "sensitive?"),
        "Description": (sf.describe(table), "Histogram. ill"),
        "described release": (sf.describe(made.release), "1 in 2"),
        "Report": (sf.report(opened, out=folder / "report"), "Not audited"),
        "Comparison": (
            sf.compare(table, ["l-diversity(2)"], out=folder / "page", questions=10, attacks=[]),
            "1 candidate",
        ),
    }


class Tags(HTMLParser):
    """Fails where tags do not close in order; keeps their names and the texts between them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_every_public_result_is_here(results: dict[str, tuple[Any, str]]) -> None:
    shown = {type(result).__mro__ for result, _ in results.values()}
    public = {name: getattr(sf, name) for name in sf.__all__}
    classes: dict[str, Callable[..., Any]] = {
        name: cls for name, cls in public.items() if isinstance(cls, type)
    }
    results_of = {name for name, cls in classes.items() if "_repr_html_" in dir(cls)}
    assert results_of == {name for name in results if name in classes}
    for name in results_of:
        assert any(classes[name] in mro for mro in shown), name


def test_a_prompt_shows_them(results: dict[str, tuple[Any, str]]) -> None:
    for name, (result, word) in results.items():
        text = repr(result)
        assert word in text, f"{name}: {text}"
        assert " object at 0x" not in text, name
        assert len(text) < LONGEST, name
        assert f"{type(result).__name__}(" not in text, f"{name} shows its fields, not itself"


def test_a_notebook_shows_them(results: dict[str, tuple[Any, str]]) -> None:
    for name, (result, _) in results.items():
        parser = Tags()
        parser.feed(result._repr_html_())
        assert not parser.open, name
        assert parser.seen & {"table", "pre", "p"}, name
        assert "b" not in parser.seen, f"{name}: a value turned into markup"
        assert parser.text.strip(), name


def test_values_stay_texts(results: dict[str, tuple[Any, str]]) -> None:
    parser = Tags()
    parser.feed(results["Answer"][0]._repr_html_())
    assert EVIL in parser.text


def test_a_printed_publication_names_no_path_twice(
    results: dict[str, tuple[Any, str]],
) -> None:
    made = results["Publication"][0]
    assert str(made).count(str(made.release)) == 1
    assert isinstance(made.release, Path)
