"""Which column a name means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sfumato.columns import Column, list_some
from sfumato.errors import QueryError
from sfumato.queries.dialect import Node, check_scalar, refuse, unwrap
from sfumato.queries.question import Term
from sfumato.queries.recoded import Lumps, as_lumps


class Names:
    """The columns of a release, found by name as SQL finds them: exactly, else ignoring case."""

    def __init__(self, columns: Sequence[Column], table: str, lumps: Mapping[str, Lumps]) -> None:
        self._roles = {column.name: column.role for column in columns}
        self._table, self._lumps = table, lumps

    def find(self, name: str) -> str | None:
        """The exact name of the column meant, or None."""
        if name in self._roles:
            return name
        alike = [role for role in self._roles if role.lower() == name.lower()]
        return alike[0] if len(alike) == 1 else None

    def column(self, node: exp.Column) -> str:
        """The exact name of the column that a node means, or a `QueryError` with the list."""
        if node.args.get("db") or not isinstance(node.this, exp.Identifier):
            refuse(
                f"the name {node.sql(dialect='duckdb', comments=False)!r}",
                "Write the column's name alone.",
            )
        if node.table and node.table.lower() != self._table.lower():
            raise QueryError(
                f"There is no table {node.table!r} in this question. Write {node.name} alone, or "
                f"{self._table}.{node.name}."
            )
        found = self.find(node.name)
        if found is None:
            raise self.unknown(node.name)
        return found

    def unknown(self, name: str) -> QueryError:
        alike = [role for role in self._roles if role.lower() == name.lower()]
        if alike:
            return QueryError(
                f"The name {name!r} could mean {' or '.join(alike)}. Write it exactly, in quotes."
            )
        return QueryError(
            f"The release has no column {name!r}. Columns there are: "
            f"{list_some(list(self._roles), 40)}."
        )

    def term(self, node: Node, clause: str) -> Term:
        """A scalar expression with its columns resolved; aggregates do not belong in one."""
        inner = unwrap(node)
        check_scalar(inner, clause)
        used: set[str] = set()

        def resolve(part: Node) -> Node:
            if isinstance(part, exp.Column):
                name = self.column(part)
                used.add(name)
                return exp.column(name, quoted=True)
            return part

        tree = as_lumps(inner.transform(resolve), self._lumps)
        quasi = frozenset(name for name in used if self._roles[name] == "quasi")
        return Term(tree, quasi, frozenset(used) - quasi)

    def conjuncts(self, node: Node, clause: str) -> tuple[Term, ...]:
        """The terms of a condition that all have to hold."""
        inner = unwrap(node)
        if isinstance(inner, exp.And):
            return self.conjuncts(inner.left, clause) + self.conjuncts(inner.right, clause)
        return (self.term(inner, clause),)
