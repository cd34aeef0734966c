"""Expressions of a question with their columns, and what the columns of its answer are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sfumato.columns import Column
from sfumato.errors import QueryError
from sfumato.queries.dialect import AGGREGATES, Node, as_written, check_scalar, refuse, unwrap
from sfumato.queries.question import ERRORS, Term
from sfumato.queries.recoded import Lumps, as_lumps
from sfumato.queries.resolved import unknown


class Names:
    """The columns of a release."""

    def __init__(self, columns: Sequence[Column], lumps: Mapping[str, Lumps]) -> None:
        self._roles = {column.name: column.role for column in columns}
        self._lumps = lumps

    def column(self, node: exp.Column) -> str:
        """The column that a node means; `QueryError` where sqlglot found none."""
        if node.args.get("db") or not isinstance(node.this, exp.Identifier):
            refuse(
                f"the name {node.sql(dialect='duckdb', comments=False)!r}",
                "Write the column's name alone.",
            )
        if not node.table:
            raise unknown(node.name, list(self._roles))
        return node.name

    def term(self, node: Node, clause: str) -> Term:
        """A scalar expression with its columns; aggregates do not belong in one."""
        inner = unwrap(node)
        check_scalar(inner, clause)
        used: set[str] = set()

        def plain(part: Node) -> Node:
            if isinstance(part, exp.Column):
                name = self.column(part)
                used.add(name)
                return exp.column(name, quoted=True)
            return part

        tree = as_lumps(inner.transform(plain), self._lumps)
        quasi = frozenset(name for name in used if self._roles[name] == "quasi")
        return Term(tree, quasi, frozenset(used) - quasi)

    def conjuncts(self, node: Node, clause: str) -> tuple[Term, ...]:
        """The terms of a condition that all have to hold."""
        inner = unwrap(node)
        if isinstance(inner, exp.And):
            return self.conjuncts(inner.left, clause) + self.conjuncts(inner.right, clause)
        return (self.term(inner, clause),)


def output_names(items: Sequence[tuple[str, Node, bool]]) -> list[str]:
    """From what an item was called, the item, and whether it has errors beside it: what has no name
    is called after what it is, with a number where that is taken."""
    taken: set[str] = set()
    names: dict[int, str] = {}
    for position, (given, item, errors) in sorted(enumerate(items), key=lambda one: not one[1][0]):
        base = name = given or _title(item)
        number = 1
        while taken & (wanted := _all_names(name, errors)):
            if given:
                raise QueryError(
                    f"Two columns of the answer would be called {name!r} (an aggregate c also "
                    "brings c_stderr, c_low and c_high). Rename one with AS."
                )
            number += 1
            name = f"{base}_{number}"
        taken |= wanted
        names[position] = name
    return [names[position] for position in range(len(items))]


def _all_names(name: str, errors: bool) -> set[str]:
    return {name.lower(), *(f"{name}_{error}".lower() for error in ERRORS if errors)}


def _title(item: Node) -> str:
    call = unwrap(item.this) if isinstance(item, exp.Filter) else item
    if not isinstance(call, exp.AggFunc):
        return call.name if isinstance(call, exp.Column) else as_written(item)
    rule = AGGREGATES.get(type(call))
    name = rule.name if rule else call.sql_name().lower()
    inside = [unwrap(part) for part in (call.this, call.args.get("expression")) if part]
    if isinstance(call.this, exp.Distinct):
        name, inside = f"{name}_distinct", call.this.expressions
    inside = [part for part in inside if not isinstance(part, exp.Literal)]
    columns = all(isinstance(part, exp.Column) for part in inside)
    return "_".join([name, *(part.name for part in inside)]) if columns else name
