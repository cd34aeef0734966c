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

# modules that still ask a plan what it is
ASKING = {
    "outlook/describe_perturbed.py",
    "outlook/describe_reconstruction.py",
    "outlook/prediction/__init__.py",
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
    found = {name: kinds_compared(tree) for name, tree in modules(outside="release/")}
    assert not {name: lines for name, lines in found.items() if lines}


def plans_asked(tree: ast.AST) -> list[int]:
    """The lines on which `isinstance` is asked of a plan.

    >>> plans_asked(ast.parse("isinstance(plan, CellPlan) or isinstance(self.plan, CellPlan)"))
    [1, 1]
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    asked = [call for call in calls if getattr(call.func, "id", "") == "isinstance"]
    return [
        call.lineno
        for call in asked
        if "plan" in (getattr(call.args[0], "id", ""), getattr(call.args[0], "attr", ""))
    ]


def test_only_engines_ask_a_plan_what_it_is() -> None:
    """Elsewhere a plan says itself what others need of it."""
    asking = {name for name, tree in modules(outside="engines/") if plans_asked(tree)}
    assert asking <= ASKING


def test_kinds_are_those_of_the_schema_and_plans_name_no_other() -> None:
    assert set(KINDS) == set(manifest_schema()["properties"]["kind"]["enum"])
    assert all(cls.kind == kind for kind, cls in KINDS.items())
    plans = [Plan]
    for plan in plans:
        plans += plan.__subclasses__()
    stated = {plan.kind for plan in plans if not inspect.isabstract(plan)}
    assert stated == set(KINDS)
