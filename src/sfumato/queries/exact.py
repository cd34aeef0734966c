"""Questions that name no sensitive column: DuckDB answers them whole, and nothing is estimated.

What is published of quasi-identifiers is published exactly, so that any SELECT over them has a
right answer: DISTINCT, windows, sub-queries, whatever stands on the list below. The list is the
wall: a syntax node that is not on it does not reach the database, which is locked besides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.limits import check_rows
from sfumato.queries.answer import Answer
from sfumato.queries.clauses import output_names
from sfumato.queries.dialect import (
    AGGREGATES,
    OF_TABLES,
    PARTS,
    SCALARS,
    Node,
    check_nodes,
    filled,
    sql_text,
    unwrap,
)
from sfumato.queries.question import ENDS
from sfumato.queries.recoded import Lumps, as_lumps, lumps_of, placed
from sfumato.queries.resolved import unknown
from sfumato.queries.session import session_of
from sfumato.queries.spelling import check_literals
from sfumato.queries.statements import literal

if TYPE_CHECKING:
    from sfumato.queries.sources import Request
    from sfumato.release import Release

_OVER_ROWS = (exp.AggFunc, exp.Window, exp.Select, exp.Filter, exp.WithinGroup)


def answered_exactly(release: Release, tree: Node, request: Request) -> Answer | None:
    """The answer of a question without a sensitive column; None where it has to be estimated, or
    asks for what only estimates have: their errors, several groupings."""
    if not _concerns(release, tree, request):
        return None
    check_nodes(tree, SCALARS | PARTS | OF_TABLES | AGGREGATES.keys())
    tree = _prepared(release, tree)
    outer = _outer(tree)
    sources = _sources(tree)
    estimated = [_is_figure(item, sources) for item in outer.expressions]
    named = zip(outer.expressions, estimated, strict=True)
    names = output_names([(item.alias, unwrap(item), figure) for item, figure in named])
    session = session_of(release, request.threads)
    session.remembered("release", lambda: session.show("release", [c.name for c in release.quasi]))
    inside = any(part.args.get("order") for part in tree.find_all(exp.Select) if part is not outer)
    cut = outer.args.get("limit") or outer.args.get("offset")
    # what a sub-query put in order and the question cuts without an order of its own stays so
    if outer is tree and not (inside and cut and not outer.args.get("order")):
        _put_in_order(outer, lumps_of(release.columns, release.merges), estimated)
    table = session.run(sql_text(tree)).rename_columns(names)
    check_rows(len(table))
    return _answer(table, outer.expressions, estimated, request)


def with_known_parts(release: Release, tree: Node, request: Request) -> Node:
    """A question that is estimated, with what it asks of quasi-identifiers alone as values:
    `IN (SELECT …)`, a total to divide by, and `SUM(COUNT(*)) OVER ()`, which is one."""
    tree = tree.copy()
    for window in list(tree.find_all(exp.Window)):
        total = _total_behind(window)
        if total is not None:
            window.replace(total)
    for part in list(tree.find_all(exp.Subquery)):
        inside = isinstance(part.parent, exp.From | exp.Subquery)
        if inside or len(_outer(part.this).expressions) > 1:
            continue
        exact_answer = answered_exactly(release, part.this, request)
        if exact_answer is None:
            continue
        values = [_found(value) for value in exact_answer.table.column(0).to_pylist()]
        if isinstance(part.parent, exp.In) and values:
            part.parent.set("expressions", values)
            part.parent.set("query", None)
        elif isinstance(part.parent, exp.In):
            part.parent.replace(exp.Boolean(this=False))
        else:
            part.replace(part if len(values) > 1 else (values or [exp.Null()])[0])
    return tree


def _found(value: Any) -> Node:
    """A value that a sub-query found: nobody wrote it, so it is no misspelling."""
    if isinstance(value, str):
        return exp.cast(exp.Literal.string(value), "VARCHAR")
    return literal(value)


def _total_behind(window: exp.Window) -> exp.Subquery | None:
    """`SUM(COUNT(*)) OVER ()` counts the records that the SELECT is about, where no group was
    left out of it."""
    above, counted = window.find_ancestor(exp.Select), window.this
    plain = isinstance(counted, exp.Sum) and isinstance(counted.this, exp.Count)
    if (
        above is None
        or not plain
        or above.args.get("having")
        or set(filled(window)) - {"this", "over"}
    ):
        return None
    if not isinstance(counted.this.this, exp.Star) or not isinstance(
        above.args["from_"].this, exp.Table
    ):
        return None
    total = exp.Select(expressions=[exp.Count(this=exp.Star(), big_int=True)])
    for clause in ("from_", "where"):
        if above.args.get(clause) is not None:
            total.set(clause, above.args[clause].copy())
    return exp.Subquery(this=total)


def _concerns(release: Release, tree: Node, request: Request) -> bool:
    names = [column.name.lower() for column in release.columns]
    if not release.quasi or not release.counts_quasi_exactly or len(set(names)) < len(names):
        return False
    if request.estimator is not None:
        return False
    sensitive = {column.name.lower() for column in release.sensitive}
    columns = list(tree.find_all(exp.Column))
    if any(column.name.lower() in sensitive for column in columns):
        return False
    strange = _strange(tree, columns)
    if not strange:
        return True
    items = [item for item in _outer(tree).expressions if item.unalias() not in strange]
    shown = output_names([(item.alias, unwrap(item), True) for item in items])
    given = {f"{name}{end}".lower() for name in shown for end in ENDS}  # by the answer
    for column in strange:
        if column.name.lower() not in given:
            raise unknown(column.name, [column.name for column in release.columns])
    return False


def _strange(tree: Node, columns: Sequence[exp.Column]) -> list[exp.Column]:
    """The columns that are neither of the release nor named in the question."""
    nowhere = [column for column in columns if not column.table]
    made = [part for part in tree.find_all(exp.Alias) if part.this not in nowhere]
    names = {part.alias.lower() for part in made}
    return [column for column in nowhere if column.name.lower() not in names]


def _prepared(release: Release, tree: Node) -> Node:
    """Literals as the columns hold them."""
    named = {column.name.lower(): column for column in release.quasi}
    for alias in tree.find_all(exp.Alias):
        shown = unwrap(alias.this)
        same_name = isinstance(shown, exp.Column) and shown.name.lower() == alias.alias.lower()
        if not same_name:  # from here on the name may mean something else
            named.pop(alias.alias.lower(), None)
    columns = list(named.values())
    tree = as_lumps(tree, lumps_of(columns, release.merges))
    check_literals(tree, columns)
    return tree


def _outer(tree: Node) -> exp.Select:
    """The SELECT that names the answer's columns: of a UNION, the first."""
    while not isinstance(tree, exp.Select):
        tree = tree.this
    return tree


def _sources(tree: Node) -> dict[str, dict[str, Node]]:
    """What the sub-queries that are there select, by their names and those of their columns."""
    named = {part.alias: part.this for part in tree.find_all(exp.Subquery, exp.CTE)}
    for table in tree.find_all(exp.Table):
        if table.name in named:
            named[table.alias_or_name] = named[table.name]
    return {
        name: {item.alias_or_name.lower(): item for item in _outer(inner).expressions}
        for name, inner in named.items()
    }


def _is_figure(item: Node, sources: Mapping[str, Mapping[str, Node]], deep: int = 0) -> bool:
    """Whether an item of a SELECT is computed over several records, not read off one."""
    if any(isinstance(part, _OVER_ROWS) for part in item.walk()):
        return True
    inside = [
        sources.get(column.table, {}).get(column.name.lower())
        for column in item.find_all(exp.Column)
    ]
    return deep < len(sources) and any(
        _is_figure(part, sources, deep + 1) for part in inside if part is not None
    )


def _put_in_order(outer: exp.Select, lumps: Mapping[str, Lumps], estimated: Sequence[bool]) -> None:
    """Rows by what the question says, then by their keys, ranges by their numbers."""
    aliases = {alias.alias.lower(): unwrap(alias.this) for alias in outer.find_all(exp.Alias)}

    def ranked(node: Node) -> Node:
        meant = unwrap(node)
        if isinstance(meant, exp.Column):
            meant = aliases.get(meant.name.lower(), meant)
        texts = lumps.get(meant.name) if isinstance(meant, exp.Column) else None
        return node if texts is None else placed(meant.copy(), texts.labels)

    order = outer.args.get("order")
    rows = [] if order is None else list(order.expressions)
    for row in rows:
        row.set("this", ranked(row.this))
    for item, figure in zip(outer.expressions, estimated, strict=True):
        if not figure and item.find(exp.Column):  # a constant puts nothing in order
            key = ranked(item.unalias().copy())
            rows.append(exp.Ordered(this=key, desc=False, nulls_first=False))
    if rows:
        outer.set("order", exp.Order(expressions=rows))


def _answer(
    table: pa.Table, items: Sequence[Node], estimated: Sequence[bool], request: Request
) -> Answer:
    """Figures beside the errors that they do not have."""
    columns: dict[str, pa.ChunkedArray] = {}
    aggregates = []
    for name, figure in zip(table.column_names, estimated, strict=True):
        column = table.column(name)
        number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if not figure or not (number or pa.types.is_decimal(column.type)):
            columns[name] = column
            continue
        aggregates.append(name)
        values = column.cast(pa.float64())
        zeros = pc.if_else(values.is_null(), pa.scalar(None, pa.float64()), 0.0)
        columns |= {name + end: zeros if end == ENDS[1] else values for end in ENDS}
    counted = frozenset(
        name for name, item in zip(table.column_names, items, strict=True) if _is_count(item)
    )
    return Answer(pa.table(columns), tuple(aggregates), request.confidence, counts=counted)


def _is_count(item: Node) -> bool:
    inner = unwrap(item.unalias())
    inner = unwrap(inner.this) if isinstance(inner, exp.Filter) else inner
    return isinstance(inner, exp.Count | exp.CountIf)
