"""Rules that no type checker knows: read from the syntax of every module."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import sfumato
from sfumato.mechanisms import Plan
from sfumato.release import KINDS, manifest_schema

SOURCE = Path(sfumato.__file__).parent

# the one module of `queries` that writes SQL, as syntax trees and, for settings, as text
STATEMENTS = "queries/statements.py"
_SQL = re.compile(
    r"\b(SELECT\b.*\bFROM|FROM (records|\()|(CROSS|LEFT) JOIN|GROUP BY \d|UNION ALL|FILTER \(WHERE|"
    r"CAST\(.*\bAS|CREATE (TABLE|VIEW)|IS NOT DISTINCT FROM)|^\s*(SELECT|WITH|SET|CREATE|WHERE|"
    r"GROUP BY|ORDER BY|LIMIT) ",
    re.DOTALL,
)
_SAYING = {"refuse", "_refuse", "warn", "QueryError", "SingularOperator", "UsageError"}


@cache
def parsed() -> dict[str, ast.Module]:
    """Every module of the package by its path; parsed once."""
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def modules(*, outside: str) -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package but those of one package, by its path."""
    for name, tree in parsed().items():
        if not name.startswith(outside):
            yield name, tree


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


def test_no_package_but_release_compares_names_of_kinds() -> None:
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
    found = {name: plans_asked(tree) for name, tree in modules(outside="engines/")}
    assert not {name: lines for name, lines in found.items() if lines}


def test_kinds_are_those_of_the_schema_and_plans_name_no_other() -> None:
    assert set(KINDS) == set(manifest_schema()["discriminator"]["mapping"])
    assert all(cls.kind == kind for kind, cls in KINDS.items())
    plans = [Plan]
    for plan in plans:
        plans += plan.__subclasses__()
    stated = {plan.kind for plan in plans if not inspect.isabstract(plan)}
    assert stated == set(KINDS)


def built_sql(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts that look like SQL and are put together with something: line and text.

    Messages to the analyst speak of SQL as well; they are left alone, and so are docstrings.
    """
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Raise):
            continue
        if isinstance(child, ast.Call):
            name = child.func.attr if isinstance(child.func, ast.Attribute) else child.func
            if (name.id if isinstance(name, ast.Name) else name) in _SAYING:
                continue
        text = None
        if isinstance(child, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else "…" for p in child.values]
            text = "".join(map(str, parts))
        elif isinstance(child, ast.BinOp) and isinstance(child.op, ast.Add | ast.Mod):
            found = (p.value for p in ast.walk(child) if isinstance(p, ast.Constant))
            text = "".join(each for each in found if isinstance(each, str))
        elif isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
            owner = child.func.value
            if child.func.attr in ("join", "format", "replace") and isinstance(owner, ast.Constant):
                text = f" {owner.value} ".replace("…", "") if owner.value != " AND " else None
        if text and _SQL.search(text):
            yield child.lineno, text
        else:
            yield from built_sql(child)


def test_sql_is_built_in_one_module_of_queries() -> None:
    found = {
        name: lines
        for name, tree in modules(outside="release/")
        if name.startswith("queries/") and (lines := list(built_sql(tree)))
    }
    assert set(found) <= {STATEMENTS, "queries/session.py"}, found
