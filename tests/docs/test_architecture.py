"""The page on the architecture: its packages and names exist, and its record passes them."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

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
