"""The public names: one list, complete, loaded late, each with an example."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.guarantees import GUARANTEES

NAMES = sorted(sf.__all__)
HEAVY = ("numpy", "pyarrow", "duckdb", "scipy", "sqlglot", "typer")


def test_the_list_is_all_of_the_stub() -> None:
    """What type checkers see is what loads, name for name."""
    stub = ast.parse(Path(f"{sf.__file__}i").read_text("utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(stub.body), "the stub holds imports and nothing else"
    aliases = [(node.module, alias) for node in imports for alias in node.names]
    # in a stub, only a name that is imported as itself is exported
    assert all(alias.asname == alias.name for _, alias in aliases)
    assert {alias.name: module for module, alias in aliases} == sf._PLACES
    assert set(NAMES) == set(sf._PLACES)


def test_the_verbs_are_there() -> None:
    verbs = {"read", "describe", "advise", "publish", "open", "audit", "attack", "check", "compare"}
    assert verbs | {"report"} <= set(functions())


@pytest.mark.parametrize("name", NAMES)
def test_every_name_loads(name: str) -> None:
    assert getattr(sf, name) is not None
    assert name in dir(sf)


def test_every_guarantee_is_public() -> None:
    """One was forgotten once."""
    assert {cls.__name__ for cls in GUARANTEES.values()} <= set(NAMES)


def test_importing_loads_nothing_heavy() -> None:
    code = f"import sfumato, sys; print([name for name in {HEAVY} if name in sys.modules])"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'survey'"):
        _ = sf.survey


def functions() -> list[str]:
    return [name for name in NAMES if inspect.isfunction(getattr(sf, name))]


@pytest.mark.parametrize("name", functions())
def test_every_function_has_an_example_that_runs(name: str) -> None:
    """Doctests run with the suite; here it is that there is one, and that it calls the function."""
    text = inspect.getdoc(getattr(sf, name)) or ""
    own = getattr(sf, name).__name__
    assert f"{own}(" in text.partition(">>>")[2], f"{name} has no example"
