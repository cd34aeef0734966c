"""Moving expressions between the stages of the virtual table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from sfumato.queries.dialect import Node, sql_text
from sfumato.queries.question import Term

# Parts of these are evaluated only when a condition chose them, so that they may guard a CAST:
# only bare columns leave them.
_GUARDS = (exp.Case, exp.If, exp.Coalesce)


class Stage:
    """The columns of one SELECT: each expression once, under a short name.

    >>> stage = Stage("m")
    >>> stage.add("age > 3"), stage.add("sex"), stage.add("age > 3")
    ('m0', 'm1', 'm0')
    >>> stage.listed()
    ['age > 3 AS m0', 'sex AS m1']
    """

    def __init__(self, letter: str) -> None:
        self._letter = letter
        self._names: dict[str, str] = {}

    def add(self, sql: str) -> str:
        return self._names.setdefault(sql, f"{self._letter}{len(self._names)}")

    @property
    def names(self) -> list[str]:
        return list(self._names.values())

    def by_name(self) -> dict[str, str]:
        return {name: sql for sql, name in self._names.items()}

    def listed(self) -> list[str]:
        return [f"{sql} AS {name}" for sql, name in self._names.items()]


def over(term: Term, columns: Mapping[str, Node]) -> str:
    """A term as text, every column replaced."""
    return sql_text(_replaced(term.tree, columns))


def _replaced(tree: Node, columns: Mapping[str, Node]) -> Node:
    def replace(node: Node) -> Node:
        return columns[node.name].copy() if isinstance(node, exp.Column) else node

    return tree.transform(replace)


def hoisted(
    term: Term,
    records: Mapping[str, Node],
    originals: Mapping[str, Node],
    carry: Callable[[str], Node],
) -> str:
    """A term that mixes quasi and sensitive columns, as text for the weighted stage.

    Its largest quasi-only parts are computed on the records (`carry` takes their text and answers
    the column that will hold them), so that `age > 40 OR disease = 'flu'` splits the records in
    two and not by every age.
    """

    def lift(node: Node, guarded: bool) -> Node:
        if isinstance(node, exp.Column) and node.name in originals:
            return originals[node.name].copy()
        used = {column.name for column in node.find_all(exp.Column)}
        if not used:
            return node.copy()
        if not used & originals.keys() and (not guarded or isinstance(node, exp.Column)):
            return carry(sql_text(_replaced(node, records)))
        guarded = guarded or isinstance(node, _GUARDS)
        lifted = node.copy()
        for place, value in node.args.items():
            if isinstance(value, exp.Expr):
                lifted.set(place, lift(value, guarded))
            elif isinstance(value, list):
                parts = [lift(v, guarded) if isinstance(v, exp.Expr) else v for v in value]
                lifted.set(place, parts)
        return lifted

    return sql_text(lift(term.tree, False))
