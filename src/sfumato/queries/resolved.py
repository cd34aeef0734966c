"""What the names of a question mean: sqlglot resolves aliases, numbers, stars and sub-queries.

`qualify` writes every name out, with the table that it is from; `merge_subqueries` reads what only
renames or filters as one SELECT.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from sqlglot import exp
from sqlglot.errors import SqlglotError

from sfumato.columns import list_some
from sfumato.errors import QueryError
from sfumato.queries.dialect import Node, refuse

_NAMELESS = re.compile(r"_col_\d+")


def resolved(tree: Node, columns: Sequence[str]) -> Node:
    """The statement with every column of `release` under its exact name, sub-queries merged.

    >>> import sqlglot
    >>> sql = "WITH old AS (SELECT *, AGE // 10 AS d FROM release) SELECT D, COUNT(*) FROM old"
    >>> resolved(sqlglot.parse_one(sql + " GROUP BY 1", dialect="duckdb"), ["Age"]).sql("duckdb")
    'SELECT release."Age" // 10 AS "d", COUNT(*) FROM release AS release GROUP BY ...'
    """
    from sqlglot.optimizer.merge_subqueries import merge_subqueries
    from sqlglot.optimizer.qualify import qualify

    for select in _outermost(tree):
        source = select.args.get("from_")
        table = None if source is None else source.this
        made = {expression.alias.lower() for expression in tree.find_all(exp.CTE)}
        plain = isinstance(table, exp.Table) and table.name.lower() not in made
        if plain and any(item.is_star for item in select.expressions):
            refuse(
                "SELECT *",
                "`complete` makes tables with likely values for every record, and "
                "`release.to_pandas()` gives the published rows as they are.",
            )
    spelled = {alias.alias.lower(): alias.alias for alias in tree.find_all(exp.Alias)}
    written = {part.name.lower(): part.name for part in tree.find_all(exp.Identifier)}
    twins = Counter(name.lower() for name in columns)
    # names that differ in case only stand apart under others while sqlglot looks at them
    keys = {n: n if twins[n.lower()] == 1 else f"{n} {place}" for place, n in enumerate(columns)}

    def apart(node: Node) -> Node:
        if not isinstance(node, exp.Column) or twins[node.name.lower()] < 2:
            return node
        if node.name not in keys:
            alike = [name for name in columns if name.lower() == node.name.lower()]
            raise QueryError(
                f"The name {node.name!r} could mean {' or '.join(alike)}. Write it exactly, in "
                "quotes."
            )
        return exp.column(keys[node.name], table=node.args.get("table"), quoted=True)

    schema: dict[str, object] = {"release": dict.fromkeys(keys.values(), "VARCHAR")}
    try:
        tree = qualify(
            tree.transform(apart),
            schema=schema,
            dialect="duckdb",
            validate_qualify_columns=False,
            quote_identifiers=False,
            identify=False,
        )
        tree = merge_subqueries(tree)
    except SqlglotError as error:
        raise QueryError(
            f"Cannot read the SQL: {str(error).split('. Line: ')[0]}. Write names, or the numbers "
            "of what is selected."
        ) from None
    _under_exact_names(tree, {key.lower(): name for name, key in keys.items()}, written)
    for select in _outermost(tree):
        _without_made_names(select, spelled)
    return tree


def _under_exact_names(tree: Node, exact: Mapping[str, str], written: Mapping[str, str]) -> None:
    made = {part.alias for part in tree.find_all(exp.CTE, exp.Subquery)}
    tables = {t.alias_or_name for t in tree.find_all(exp.Table) if t.name not in made}
    for column in tree.find_all(exp.Column):
        if column.args.get("db") or column.is_star:
            continue
        if column.table and column.table not in tables | made:
            raise QueryError(
                f"There is no table {column.table!r} in this question. Write {column.name} alone."
            )
        if column.table in tables:
            if column.name not in exact:
                raise unknown(written.get(column.name, column.name), list(exact.values()))
            column.set("this", exp.to_identifier(exact[column.name], quoted=True))
        elif not column.table:
            column.set("this", exp.to_identifier(written.get(column.name, column.name)))


def unknown(name: str, columns: Sequence[str]) -> QueryError:
    if name.lower() in map(str.lower, columns):
        return QueryError(f"The sub-query has no column {name!r}. Select it there.")
    return QueryError(
        f"The release has no column {name!r}. Columns there are: {list_some(columns, 40)}."
    )


def _outermost(tree: Node) -> list[exp.Select]:
    if isinstance(tree, exp.SetOperation):
        return [*_outermost(tree.left), *_outermost(tree.right)]
    if isinstance(tree, exp.Subquery):
        return _outermost(tree.this)
    return [tree] if isinstance(tree, exp.Select) else []


def _without_made_names(select: exp.Select, spelled: Mapping[str, str]) -> None:
    """Items under the names that the question gave them, and no others."""
    items, nameless = [], {}
    for item in select.expressions:
        if item.alias in spelled:
            item.set("alias", exp.to_identifier(spelled[item.alias], quoted=True))
        elif _NAMELESS.fullmatch(item.alias):
            nameless[item.alias] = item = item.unalias()
        elif isinstance(item.unalias(), exp.Column) and item.unalias().table in {
            table.alias_or_name for table in select.find_all(exp.Table)
        }:
            item = item.unalias()
        items.append(item)
    select.set("expressions", items)
    for ordered in select.args["order"].expressions if select.args.get("order") else ():
        if isinstance(ordered.this, exp.Column) and ordered.this.name in nameless:
            ordered.set("this", nameless[ordered.this.name].copy())


def flat(select: exp.Select) -> exp.Select:
    """The SELECT over the release itself; a sub-query that could not be merged is refused."""
    made = {expression.alias for expression in select.find_all(exp.CTE)}
    source = select.args["from_"].this if select.args.get("from_") else None
    if isinstance(source, exp.Subquery) or (isinstance(source, exp.Table) and source.name in made):
        refuse(
            "a sub-query that groups, sorts or cuts where a sensitive column takes part",
            "Write one SELECT, with HAVING for conditions on groups and ORDER BY and LIMIT at its "
            "end; compute what goes beyond from the answer.",
        )
    select = select.copy()
    select.set("with_", None)  # what is defined and not used
    return select
