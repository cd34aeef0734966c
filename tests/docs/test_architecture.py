"""The page on the architecture: its packages and names exist, and its record passes them."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import sfumato as sf

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sfumato"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", PAGE)) - {"patients.csv"})


def lookup(name: str) -> Any:
    """What a dotted name under `sfumato` stands for."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = import_module(".".join(["sfumato", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    raise AttributeError(name)


def test_every_package_is_listed() -> None:
    table = PAGE.split("## Packages", 1)[1].split("## One record", 1)[0]
    for path in SOURCE.iterdir():
        if (path / "__init__.py").exists():
            assert f"`{path.name}`" in table, path.name


@pytest.mark.parametrize("name", NAMES)
def test_every_name_exists(name: str) -> None:
    assert lookup(name) is not None


def codes_of(value: Any) -> Iterator[CodeType]:
    """What may run when a name is passed: a function's code, or that of any method of a class."""
    if isinstance(value, type):
        for member in vars(value).values():
            yield from codes_of(getattr(member, "__func__", getattr(member, "fget", member)))
    elif hasattr(value, "__code__"):
        yield value.__code__
    elif hasattr(value, "__func__"):
        yield value.__func__.__code__


def test_the_record_passes_every_name(tmp_path: Path) -> None:
    """Publish the page's table, ask the page's question, and see what is called."""
    diseases = ["cold", "asthma", "flu"]
    lines = ["Paul,41,M,cold", "Mary,28,F,asthma", "Anna,34,F,flu"]
    lines += [f"p{k},{20 + k % 50},{'FM'[k % 2]},{diseases[k % 3]}" for k in range(600)]
    table = tmp_path / "patients.csv"
    table.write_text("name,age,sex,disease\n" + "\n".join(lines))
    called: set[CodeType] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        called.add(frame.f_code)

    before = sys.getprofile()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        sf.publish(
            table,
            "rho-privacy(0.4, 0.7)",
            to=tmp_path / "release",
            mechanism="uniform",
            quasi=["age", "sex"],
            sensitive="disease",
            drop=["name"],
        )
        question = "SELECT COUNT(*) FROM release WHERE age > 30 AND disease = 'flu'"
        answer = sf.open(tmp_path / "release").sql(question)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]
    assert answer.stderr > 0
    missed = [name for name in NAMES if called.isdisjoint(codes_of(lookup(name)))]
    assert not missed, f"the record does not pass {missed}"
