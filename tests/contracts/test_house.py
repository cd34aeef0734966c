"""Rules of the house that no type checker knows: read from the syntax of every module."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato
from sfumato.mechanisms import Plan
from sfumato.release import KINDS, manifest_schema

SOURCE = Path(sfumato.__file__).parent

# rooms that still compare names of kinds: each leaves this list when it is rewritten
COMPARING = {
    "queries/__init__.py",
    "queries/weights.py",
    "workloads/answers.py",
    "workloads/shown.py",
}


def modules(*, outside: str) -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package but those of one room, by its path."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(outside):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def dispatched(tree: ast.AST) -> Iterator[ast.AST]:
    """What decisions are made by: sides of comparisons, cases of a match, keys, members of sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield from (node.left, *node.comparators)
        elif isinstance(node, ast.MatchValue):
            yield node.value
        elif isinstance(node, ast.Dict):
            yield from (key for key in node.keys if key is not None)
        elif isinstance(node, ast.Subscript):
            yield node.slice
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("set", "frozenset"):
            yield from node.args


def kinds_compared(tree: ast.AST) -> list[str]:
    """The names of kinds by which something is decided, with their lines.

    >>> kinds_compared(ast.parse("if kind in ('bucketed', 'other'): pass"))
    ["1: 'bucketed'"]
    >>> kinds_compared(ast.parse("kind = 'bucketed'"))
    []
    """
    return [
        f"{inside.lineno}: {inside.value!r}"
        for side in dispatched(tree)
        for inside in ast.walk(side)
        if isinstance(inside, ast.Constant) and inside.value in KINDS
    ]


@pytest.mark.parametrize(
    "text",
    [
        "release.kind == 'bucketed'",
        "'generalized' != kind",
        "kind in ('perturbed', 'synthetic')",
        "kind in {'perturbed'}",
        "{'perturbed': answer_perturbed, 'other': None}[kind]",
        "CHECKS = {'synthetic': [check]}",
        "kinds = frozenset({'bucketed'})",
        "found['bucketed']",
        "match kind:\n    case 'bucketed' | 'other':\n        pass",
        "{now.kind, then.kind} != {'perturbed'}",
    ],
)
def test_a_comparison_of_kinds_is_noticed(text: str) -> None:
    assert kinds_compared(ast.parse(text))


def test_no_room_but_release_compares_names_of_kinds() -> None:
    found = {
        name: lines for name, tree in modules(outside="release/") if (lines := kinds_compared(tree))
    }
    assert set(found) <= COMPARING, found


def test_kinds_are_those_of_the_schema_and_plans_name_no_other() -> None:
    assert set(KINDS) == set(manifest_schema()["properties"]["kind"]["enum"])
    assert all(cls.kind == kind for kind, cls in KINDS.items())
    plans = [Plan]
    for plan in plans:
        plans += plan.__subclasses__()
    stated = {plan.kind for plan in plans if not inspect.isabstract(plan)}
    assert stated == set(KINDS)
