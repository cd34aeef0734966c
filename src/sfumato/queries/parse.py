"""From an analyst's SQL to a `Question`, refusing by name whatever the dialect does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sfumato.columns import Column
from sfumato.errors import QueryError
from sfumato.queries.clauses import Clauses
from sfumato.queries.dialect import LONGEST_SQL, Node, filled, refuse, unwrap, with_quantiles
from sfumato.queries.question import Ordering, Question
from sfumato.queries.recoded import in_order, lumps_of
from sfumato.queries.resolved import flat, resolved
from sfumato.release.manifest import Merged

_EXAMPLE = "SELECT disease, COUNT(*) FROM release WHERE age > 40 GROUP BY disease"
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*([A-Za-z_]+)?", re.DOTALL)
_CLAUSES = {
    "distinct": ("SELECT DISTINCT", "Use GROUP BY with COUNT(*)."),
    "qualify": ("QUALIFY", "Use HAVING."),
    "windows": ("WINDOW", "Use GROUP BY."),
    "sample": ("SAMPLE", "Ask about all records; the answer costs the same."),
    "into": ("SELECT INTO", "Save the answer from outside."),
}
_LACKING = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]*\.(\w+)'>")
_KNOWN = {"kind", "expressions", "from_", "where", "group", "having", "order", "limit", "offset"}


def parse(
    sql: str, columns: Sequence[Column], merges: Mapping[str, Sequence[Merged]] | None = None
) -> Question:
    """Read `sql` as a question to a release with these columns and merged values.

    >>> age = Column("age", "quasi", "numeric", "int64", None)
    >>> flu = Column("disease", "sensitive", "categorical", "string", None)
    >>> sql = "SELECT COUNT(*) FROM release WHERE age > 40 AND disease = 'flu'"
    >>> question = parse(sql, [age, flu])
    >>> [term.text for term in question.where], question.outputs[0].name
    (['"age" > 40', '"disease" = \\'flu\\''], 'count')
    """
    with deep_refused():
        tree = resolved(read(sql), [column.name for column in columns])
        return question_of(tree, columns, merges or {})


@contextmanager
def deep_refused() -> Iterator[None]:
    """One sentence where Python's stack is too short for a question."""
    try:
        yield
    except RecursionError:
        raise QueryError(
            "Cannot read the SQL: it is nested too deeply. Use IN for long lists of values."
        ) from None


def question_of(
    tree: Node, columns: Sequence[Column], merges: Mapping[str, Sequence[Merged]]
) -> Question:
    """The question that a resolved statement asks; `QueryError` where none is estimated."""
    if isinstance(tree, exp.SetOperation):
        refuse(tree.key.upper(), "Ask each SELECT as a question of its own.")
    if not isinstance(tree, exp.Select):
        refuse(f"the statement {tree.key.upper()}", f"Write for example: {_EXAMPLE}.")
    lumps = lumps_of(columns, merges)
    select = flat(tree)
    for key in filled(select):
        if key in _CLAUSES:
            refuse(*_CLAUSES[key])
        if key not in _KNOWN or key == "kind":
            refuse(key.replace("_", " ").strip().upper(), f"Write for example: {_EXAMPLE}.")
    _check_source(select)
    selection = Clauses(columns, lumps, select.expressions)
    where = select.args.get("where")
    conjuncts = selection.conjuncts(where.this, "WHERE") if where else ()
    selection.group(_keys(select.args.get("group")))
    having = select.args.get("having")
    having_tree = selection.over_answer(having.this, aliases_first=False) if having else None
    order = _order(select.args.get("order"), selection)
    return Question(
        outputs=tuple(selection.outputs),
        where=conjuncts,
        keys=tuple(selection.keys.values()),
        aggregates=tuple(selection.aggregates.values()),
        having=having_tree,
        order=order,
        bins=in_order(selection.keys.values(), lumps),
        limit=_number(select.args.get("limit"), "LIMIT"),
        offset=_number(select.args.get("offset"), "OFFSET"),
    )


def read(sql: str) -> Node:
    """The one statement of a text: a SELECT over `release`, however nested."""
    if len(sql) > LONGEST_SQL:
        raise QueryError(
            f"The SQL has {len(sql):,} characters; at most {LONGEST_SQL:,} are read. Shorten it."
        )
    match = _FIRST_WORD.match(sql)
    word = (match.group(1) if match else None) or ""
    if word.upper() not in {"SELECT", "FROM", "WITH", "VALUES", "TABLE"}:
        what = f"a statement that starts with {word.upper()}" if word else "an empty statement"
        refuse(what, f"Write for example: {_EXAMPLE}.")
    try:
        statements = [tree for tree in sqlglot.parse(sql, dialect="duckdb") if tree is not None]
    except SqlglotError as error:
        raise QueryError(
            f"Cannot read the SQL: {_reason(error)} Write for example: {_EXAMPLE}."
        ) from None
    if len(statements) != 1:
        refuse("several statements at once", "Ask them one by one.")
    tree = with_quantiles(statements[0])
    if not isinstance(tree, exp.Query):
        refuse(f"the statement {tree.key.upper()}", f"Write for example: {_EXAMPLE}.")
    if any(clause.args.get("recursive") for clause in tree.find_all(exp.With)):
        refuse("WITH RECURSIVE", "Write the question without it.")
    if tree.find(exp.Into):
        refuse(*_CLAUSES["into"])
    defined = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        _check_table(table, defined)
    if tree.find(exp.Join, exp.Lateral):
        refuse("a join", "A release is one table, `release`; ask it alone.")
    return tree


def _reason(error: SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if details:
        first = details[0]
        near = f"{first.get('start_context', '')}{first.get('highlight', '')}"[-40:].strip()
        text = _LACKING.sub(_lacking, str(first.get("description", "")).rstrip("."))
        return f"{text}, near {near!r}." if near else f"{text}."
    return str(error).splitlines()[0].rstrip(".") + "."


def _lacking(found: re.Match[str]) -> str:
    return f"an argument of {found.group(1)} is missing"


def _check_table(table: Node, made: set[str]) -> None:
    """Every table is the release, or one that the question makes: also where nothing reads it."""
    is_plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
    if not is_plain or table.args.get("db") or table.name.lower() not in {"release", *made}:
        shown = table.sql(dialect="duckdb", comments=False)[:60]
        raise QueryError(
            f"There is no table {shown!r}. A question reads one table, `release`: "
            f"write for example {_EXAMPLE}."
        )


def _check_source(select: exp.Select) -> None:
    """The one table is `release`, as it is."""
    source = select.args.get("from_")
    if source is None:
        refuse("a SELECT without FROM", f"Write for example: {_EXAMPLE}.")
    table = source.this
    _check_table(table, set())
    extra = set(filled(table)) - {"this", "alias"}
    if extra:
        refuse(
            f"{', '.join(sorted(extra)).replace('_', ' ').upper()} after the table",
            "Write FROM release.",
        )
    if table.args["alias"].args.get("columns"):
        refuse("column names after the table", "Use the release's own column names.")


def _keys(group: exp.Group | None) -> list[Node]:
    if group is None:
        return []
    extra = set(filled(group)) - {"expressions"}
    if extra:
        listed = ", ".join(sorted(extra)).replace("_", " ").upper()
        refuse(f"GROUP BY {listed}", "List the keys: GROUP BY a, b.")
    return list(group.expressions)


def _order(order: exp.Order | None, selection: Clauses) -> tuple[Ordering, ...]:
    if order is None:
        return ()
    if set(filled(order)) - {"expressions"}:
        refuse("this form of ORDER BY", "Write ORDER BY a, b DESC.")
    orderings: list[Ordering] = []
    for ordered in order.expressions:
        if set(filled(ordered)) - {"this", "desc", "nulls_first"}:
            refuse("WITH FILL in ORDER BY", "Leave it out.")
        if isinstance(ordered.this, exp.Var):
            refuse("ORDER BY ALL", "List the columns: ORDER BY a, b.")
        tree = selection.over_answer(ordered.this, aliases_first=True)
        nulls_first = bool(ordered.args.get("nulls_first"))
        orderings.append(Ordering(tree, bool(ordered.args.get("desc")), nulls_first))
    return tuple(orderings)


def _number(node: exp.Limit | exp.Offset | None, clause: str) -> int | None:
    if node is None:
        return None
    value = unwrap(node.expression)
    plain = isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit()
    if not plain or set(filled(node)) - {"expression"}:
        refuse(f"{clause} with anything but a whole number", f"Write {clause} 10.")
    number = int(value.name)
    if number >= 2**63:
        refuse(f"{clause} {number}", f"Write {clause} 10.")
    return number
