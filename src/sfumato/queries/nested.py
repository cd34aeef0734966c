"""Sub-selects and WITH that only rename, filter or group, read as one SELECT over the release.

`SELECT n FROM (SELECT sex, COUNT(*) AS n FROM release GROUP BY sex) WHERE n > 100` means what
`SELECT COUNT(*) AS n FROM release GROUP BY sex HAVING COUNT(*) > 100` means. Every name of the
outer SELECT is replaced by what the inner one calls so; conditions move to WHERE, or to HAVING
where the inner SELECT has grouped. What cannot be read that way is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from sfumato.columns import list_some
from sfumato.errors import QueryError
from sfumato.queries.dialect import Node, filled, is_aggregate, refuse, unwrap

_INNER = {"expressions", "from_", "where", "group", "having"}
_OUTER = ("order", "limit", "offset")
_PLACES = ("where", "group", "having", "order")


def flattened(
    select: exp.Select, columns: Collection[str], known: Mapping[str, exp.Select] | None = None
) -> exp.Select:
    """The one SELECT over `release`, with these columns, that a nested one stands for.

    >>> import sqlglot
    >>> sql = "WITH old AS (SELECT * FROM release WHERE age > 60) SELECT COUNT(*) FROM old"
    >>> flattened(sqlglot.parse_one(sql, dialect="duckdb"), ["age"]).sql()
    'SELECT COUNT(*) FROM release WHERE age > 60'
    """
    known = dict(known or {})
    clause = select.args.get("with_")
    if clause is not None:
        if clause.args.get("recursive"):
            refuse("WITH RECURSIVE", "Write the question without it.")
        for expression in clause.expressions:
            if not isinstance(expression.this, exp.Select) or expression.args["alias"].args.get(
                "columns"
            ):
                refuse("this form of WITH", "Write WITH name AS (SELECT …).")
            known[expression.alias.lower()] = flattened(expression.this, columns, known)
        select = select.copy()
        select.set("with_", None)
    source = select.args.get("from_")
    inner = None if source is None else _inner(source.this, columns, known)
    if source is None or inner is None:
        return select
    named = _outputs(inner, columns)
    select = _spelled_out(select, named or columns, ("group", "having"))
    return _merged(select, _spelled_out(inner, columns, _PLACES), named, source.this.alias_or_name)


def _spelled_out(
    select: exp.Select, columns: Collection[str], clauses: Collection[str]
) -> exp.Select:
    """Numbers and aliases in these clauses as what the SELECT list calls so: it is about to be
    replaced by another."""
    select, real = select.copy(), {name.lower() for name in columns}
    items = [item.unalias() for item in select.expressions]
    aliases = {item.alias.lower(): item.this for item in select.expressions if item.alias}

    def meant(node: Node, aliases_first: bool) -> Node:
        name = node.name.lower() if isinstance(node, exp.Column) and not node.table else ""
        if name not in aliases or (name in real and not aliases_first):
            return node
        return exp.Paren(this=aliases[name].copy())

    for clause in [select.args[claus] for claus in clauses if select.args.get(claus)]:
        in_order = isinstance(clause, exp.Order)
        for expression in clause.expressions:
            node = expression.this if in_order else expression
            number = int(node.name) if isinstance(node, exp.Literal) and node.is_int else 0
            if 1 <= number <= len(items):
                node.replace(items[number - 1].copy())
        if not isinstance(clause, exp.Where):
            select.set(clause.key, clause.transform(lambda n, f=in_order: meant(n, f)))
    return select


def _inner(
    table: Node, columns: Collection[str], known: Mapping[str, exp.Select]
) -> exp.Select | None:
    """The SELECT that a table is, None for the release itself."""
    if isinstance(table, exp.Subquery):
        if not isinstance(table.this, exp.Select):
            refuse("this sub-query", "Write FROM (SELECT … FROM release …).")
        return flattened(table.this, columns, known)
    if isinstance(table, exp.Table) and not table.args.get("db"):
        return known.get(table.name.lower())
    return None


def _merged(
    outer: exp.Select, inner: exp.Select, named: Mapping[str, Node], name: str
) -> exp.Select:
    if outer.args.get("joins") or outer.args.get("laterals"):
        refuse("a join", "A release is one table, `release`; ask it alone.")
    grouped = inner.args.get("group") is not None or any(map(_aggregates, inner.expressions))
    extra = set(filled(inner)) - _INNER - (set(_OUTER) if grouped else set())
    if extra:
        listed = ", ".join(sorted(extra)).strip("_").replace("_", " ").upper()
        refuse(f"{listed} in a sub-query", "Move it to the outer SELECT, or leave it out.")
    if grouped and (outer.args.get("group") or any(map(_aggregates, outer.expressions))):
        refuse(
            "an aggregate of an aggregate",
            "A sub-query that groups can be filtered, renamed and sorted; sums over its rows have "
            "to be computed from the answer.",
        )
    result = outer.copy()
    result.set("expressions", _selected(outer, named, name))
    renamed = {expression.alias.lower() for expression in outer.expressions if expression.alias}
    for clause in _PLACES:
        if result.args.get(clause) is not None:
            own_names = renamed if clause == "order" else set()
            result.set(clause, _replaced(result.args[clause], named, name, own_names))
    result.set("from_", inner.args["from_"].copy())
    conditions = result.args.get("where")
    if not grouped:
        result.set("where", _both(inner.args.get("where"), conditions, exp.Where))
        return result
    if inner.args.get("limit") or inner.args.get("offset"):
        for clause in ("where", "order", "offset"):
            if outer.args.get(clause) is not None:
                refuse(
                    f"{clause.upper()} over a sub-query with LIMIT or OFFSET",
                    "Move the LIMIT to the outer SELECT, or all of it inside.",
                )
    for clause in ("where", "group"):
        result.set(clause, inner.args[clause].copy() if inner.args.get(clause) else None)
    result.set("having", _both(inner.args.get("having"), conditions, exp.Having))
    for clause in _OUTER:
        if inner.args.get(clause) is not None:
            if outer.args.get(clause) is not None:
                refuse(f"{clause.upper()} in a sub-query and outside", "Write it once, outside.")
            result.set(clause, inner.args[clause].copy())
    return result


def _aggregates(node: Node) -> bool:
    return any(is_aggregate(part) for part in node.walk())


def _outputs(inner: exp.Select, columns: Collection[str]) -> dict[str, Node]:
    """What the names of the inner SELECT stand for, the first of two as in DuckDB; empty where it
    selects everything and no more."""
    outputs: dict[str, Node] = {}
    for item in inner.expressions:
        if isinstance(item, exp.Star):
            if filled(item):
                refuse("* with EXCLUDE or REPLACE in a sub-query", "Name the columns.")
            if len(inner.expressions) == 1:
                return {}
            for name in columns:
                outputs.setdefault(name, exp.column(name, quoted=True))
            continue
        if not item.alias_or_name:
            shown = item.sql(dialect="duckdb", comments=False)[:60]
            raise QueryError(f"{shown!r} in the sub-query has no name. Give it one with AS.")
        outputs.setdefault(item.alias_or_name, unwrap(item.unalias()))
    return outputs


def _selected(outer: exp.Select, named: Mapping[str, Node], name: str) -> list[Node]:
    """The outer SELECT list; its columns keep the names that they had."""
    items: list[Node] = []
    for item in outer.expressions:
        if isinstance(item, exp.Star) and not filled(item) and named:
            items += [exp.alias_(node.copy(), key, quoted=True) for key, node in named.items()]
            continue
        replaced = _replaced(item, named, name)
        if isinstance(item, exp.Column) and replaced.name != item.name:
            replaced = exp.alias_(replaced, item.name, quoted=True)
        items.append(replaced)
    return items


def _replaced(
    node: Node, named: Mapping[str, Node], name: str, renamed: Collection[str] = ()
) -> Node:
    """`renamed` are names of the outer SELECT, which it may sort by."""
    folded = {key.lower(): replacement for key, replacement in reversed(list(named.items()))}

    def replace(part: Node) -> Node:
        if not isinstance(part, exp.Column) or part.name.lower() in renamed:
            return part
        if part.table and part.table.lower() != name.lower():
            raise QueryError(
                f"There is no table {part.table!r} in this question. Write {part.name} alone."
            )
        if not named:
            return exp.Column(this=part.this.copy())
        replacement = named.get(part.name) or folded.get(part.name.lower())
        if replacement is None:
            raise QueryError(
                f"The sub-query has no column {part.name!r}. Columns there are: "
                f"{list_some(list(named), 40)}."
            )
        return (
            replacement.copy()
            if isinstance(replacement, exp.Column)
            else exp.Paren(this=replacement.copy())
        )

    return unwrap(node.transform(replace))


def _both(inner: Node | None, outer: Node | None, made: type[Node]) -> Node | None:
    """Two conditions that have to hold together."""
    conditions = [query.this.copy() for query in (inner, outer) if query is not None]
    if not conditions:
        return None
    return made(this=exp.and_(*conditions) if len(conditions) > 1 else conditions[0])
