"""The page on the architecture: its rooms and names exist, and its record goes that way."""

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
NAME = re.compile(r"`([a-z_]+(?:\.\w+)+)`")
ASIDE = re.compile(r"^\(By .*?\)$", re.MULTILINE | re.DOTALL)  # what the record does not pass


def rooms_shown() -> list[str]:
    """The rooms in the page's tree."""
    tree = PAGE.split("## The rooms", 1)[1].split("```text\n", 1)[1].split("```", 1)[0]
    return [line.split()[0].rstrip("/") for line in tree.splitlines()]


def find(name: str) -> Any:
    """What a dotted name under `sfumato` stands for."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(["sfumato", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def names(text: str) -> list[str]:
    rooms = {room.removesuffix(".py") for room in rooms_shown()}
    return [name for name in NAME.findall(text) if name.split(".")[0] in rooms]


def test_every_room_is_shown() -> None:
    there = [
        path.name
        for path in SOURCE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    ]
    assert sorted(rooms_shown()) == sorted(name for name in there if name != "__init__.py")


def test_rooms_stand_in_the_order_of_imports() -> None:
    """As import-linter's layers do; rooms of one layer in any order."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    layers = project.split("layers = [", 1)[1].split("]", 1)[0]
    order = {
        room: place
        for place, layer in enumerate(re.findall(r'"(.*?)"', layers))
        for room in re.findall(r"sfumato\.(\w+)", layer)
    }
    shown = [order[room] for name in rooms_shown() if (room := name.removesuffix(".py")) in order]
    assert len(shown) == len(order)
    assert shown == sorted(shown)


@pytest.mark.parametrize("name", names(PAGE))
def test_every_name_exists(name: str) -> None:
    assert find(name) is not None


def codes_of(found: Any) -> Iterator[CodeType]:
    """What may run when a name is passed: a function's code, or that of any method of a class."""
    if isinstance(found, type):
        for each in vars(found).values():
            yield from codes_of(getattr(each, "__func__", getattr(each, "fget", each)))
    elif hasattr(found, "__code__"):
        yield found.__code__
    elif hasattr(found, "__func__"):
        yield found.__func__.__code__


def test_the_record_passes_every_name(tmp_path: Path) -> None:
    """Publish the page's table, ask the page's question, and watch what is called."""
    walk = ASIDE.sub("", PAGE.split("## One record", 1)[1])
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
    missed = [name for name in names(walk) if called.isdisjoint(codes_of(find(name)))]
    assert len(names(walk)) > 30
    assert not missed, f"the record does not pass {missed}"
