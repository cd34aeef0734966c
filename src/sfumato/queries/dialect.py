"""The SQL that a question may be written in: deny by default, node by node.

The lists below name every kind of syntax node that may stand in a question. Whatever is not
named is refused by its name, with what to write instead where there is something.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp

from sfumato.errors import QueryError

if TYPE_CHECKING:
    from sfumato.queries.aggregates import Rule

LONGEST_SQL = 100_000  # characters; a question is written by a person

Node = exp.Expr  # the base of every syntax node, mixins included


_QUANTILES = (exp.PercentileCont, exp.PercentileDisc)


def with_quantiles(tree: Node) -> Node:
    """`PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x)` as the call of two arguments that it is.

    >>> import sqlglot
    >>> sql = "SELECT percentile_cont(.9) WITHIN GROUP (ORDER BY age) FROM release"
    >>> with_quantiles(sqlglot.parse_one(sql)).sql()
    'SELECT PERCENTILE_CONT(age, 0.9) FROM release'
    """

    def known(node: Node) -> Node:
        if isinstance(node, exp.WithinGroup) and isinstance(node.this, _QUANTILES):
            (by,) = node.expression.expressions
            share = node.this.this.copy()
            if by.args.get("desc"):
                share = exp.Sub(this=exp.Literal.number(1), expression=share)
            return type(node.this)(this=by.this.copy(), expression=share)
        return node

    return tree.transform(known)


_LEAVES = (exp.Column, exp.Literal, exp.Boolean, exp.Null)
_CONDITIONS = (
    exp.And,
    exp.Or,
    exp.Not,
    exp.Paren,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Between,
    exp.In,
    exp.Is,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Like,
    exp.ILike,
    exp.Escape,
)
_ARITHMETIC = (
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.IntDiv,
    exp.Mod,
    exp.Neg,
    exp.Pow,
    exp.DPipe,
)
_CHOICES = (exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least)
_FUNCTIONS = (
    exp.Abs,
    exp.Round,
    exp.Floor,
    exp.Ceil,
    exp.Sign,
    exp.Sqrt,
    exp.Ln,
    exp.Exp,
    exp.Lower,
    exp.Upper,
    exp.Length,
    exp.Trim,
    exp.Substring,
    exp.Concat,
    exp.Left,
    exp.Right,
    exp.StartsWith,
    exp.Contains,
    exp.Year,
    exp.Month,
    exp.Day,
    exp.Quarter,
    exp.DayOfWeek,
    exp.Extract,
    exp.TimestampTrunc,
    exp.DateTrunc,
    exp.DateFromParts,
    exp.Cast,
    exp.TryCast,
)
SCALARS: frozenset[type[Node]] = frozenset(
    (*_LEAVES, *_CONDITIONS, *_ARITHMETIC, *_CHOICES, *_FUNCTIONS)
)
AGGREGATES: dict[type[Node], Rule] = {}  # filled by `aggregates`

_TYPES = exp.DataType.Type
CAST_TYPES = frozenset(
    {
        _TYPES.BOOLEAN,
        _TYPES.TINYINT,
        _TYPES.SMALLINT,
        _TYPES.INT,
        _TYPES.BIGINT,
        _TYPES.FLOAT,
        _TYPES.DOUBLE,
        _TYPES.DECIMAL,
        _TYPES.VARCHAR,
        _TYPES.TEXT,
        _TYPES.DATE,
        _TYPES.TIME,
        _TYPES.TIMESTAMP,
    }
)
DATE_PARTS = frozenset(
    {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "ISODOW", "DOY", "HOUR", "MINUTE", "SECOND"}
)

_FUNCTION_NAMES = (
    "abs, ceil, coalesce, concat, contains, date_trunc, day, dayofweek, exp, extract, floor, "
    "greatest, if, least, left, length, ln, lower, make_date, month, nullif, pow, quarter, right, "
    "round, sign, sqrt, starts_with, substring, trim, upper, year, CASE and CAST"
)

_INSTEAD: dict[type[Node], tuple[str, str]] = {
    exp.Subquery: ("a sub-query", "Ask it as a question of its own."),
    exp.Select: ("a sub-query", "Ask it as a question of its own."),
    exp.Exists: ("EXISTS with a sub-query", "Ask it as a question of its own."),
    exp.Any: ("ANY", "Write IN (…) with the values spelled out."),
    exp.All: ("ALL", "Write the comparisons out, joined by AND."),
    exp.Window: (
        "a window function (OVER)",
        "Use GROUP BY, and compare the rows of the answer outside.",
    ),
    **dict.fromkeys(
        (exp.Rollup, exp.Cube, exp.GroupingSets),
        ("several groupings at once", "Ask for each GROUP BY as a question of its own."),
    ),
    exp.Star: ("*", "Only COUNT(*) may use it; name the columns."),
    exp.Placeholder: ("a parameter", "Write the value into the SQL."),
    exp.Parameter: ("a parameter", "Write the value into the SQL."),
    exp.SessionParameter: ("a parameter", "Write the value into the SQL."),
    exp.Lambda: ("a lambda", "Write the condition out."),
    exp.Kwarg: ("a named argument", "Write the arguments in their order."),
    exp.CountIf: ("COUNT_IF", "Write COUNT(*) FILTER (WHERE …)."),
    exp.SimilarTo: ("SIMILAR TO", "Use LIKE, starts_with, contains or IN."),
    exp.RegexpLike: ("a regular expression", "Use LIKE, starts_with, contains or IN."),
    exp.Interval: ("INTERVAL", "Write the date itself: DATE '2026-11-15'."),
    exp.Tuple: ("a tuple (a, b)", "Write the columns or comparisons one by one."),
    exp.Collate: ("COLLATE", "Compare lower(column) with a lower-case text."),
    exp.Dot: ("a dotted name", "Write the column's name alone."),
    exp.Bracket: ("[…]", "Columns of a release hold plain values."),
    exp.Array: ("[…]", "Columns of a release hold plain values."),
    exp.Struct: ("{…}", "Columns of a release hold plain values."),
    exp.Distinct: (
        "DISTINCT inside an aggregate",
        "Count by value with GROUP BY; how many values occur cannot be estimated.",
    ),
    exp.Order: ("ORDER BY inside an aggregate", "Leave it out; sums have no order."),
}


def refuse(what: str, instead: str) -> NoReturn:
    """Raise a `QueryError` in the one shape: what is not supported, what to write instead."""
    raise QueryError(f"The dialect does not support {what}. {instead}")


def refuse_node(node: Node) -> NoReturn:
    """Refuse a syntax node by its name."""
    if type(node) in _INSTEAD:
        refuse(*_INSTEAD[type(node)])
    if isinstance(node, exp.Anonymous):
        refuse(f"the function {node.name}", f"Functions there are: {_FUNCTION_NAMES}.")
    if isinstance(node, exp.AggFunc):
        usage = ", ".join(
            use for fromkey in dict.fromkeys(AGGREGATES.values()) for use in fromkey.usage
        )
        refuse(
            f"the aggregate {node.sql_name()}", f"Aggregates there are: {usage}, each with FILTER."
        )
    if isinstance(node, exp.Func):
        refuse(
            f"the function {node.sql_name().lower()}", f"Functions there are: {_FUNCTION_NAMES}."
        )
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()
    refuse(f"{words} ({as_written(node)[:60]!r})", "Leave it out.")


def is_aggregate(node: Node) -> bool:
    """Whether the node is an aggregate of the dialect, with or without its FILTER."""
    return type(node) in AGGREGATES or isinstance(node, exp.Filter)


_UNITS: set[tuple[type[Node], str]] = {
    (exp.Extract, "this"),
    (exp.TimestampTrunc, "unit"),
    (exp.DateTrunc, "unit"),
}


def scalar_parts(node: Node) -> dict[str, list[Node]]:
    """The scalar expressions that a node consists of, by place, once the node itself is checked.

    Whoever walks an expression through this function has checked all of it.
    """
    kind = type(node)
    if kind not in SCALARS:
        refuse_node(node)
    parts: dict[str, list[Node]] = {}
    if kind is exp.Column:
        return parts
    if kind is exp.In and set(filled(node)) - {"this", "expressions"}:
        refuse("IN with a sub-query or a list column", "Write the values out: IN ('a', 'b').")
    for argument, value in node.args.items():
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, exp.Expr):
                continue
            if isinstance(child, exp.DataType) and argument == "to":
                check_type(child)
            elif (kind, argument) in _UNITS:
                check_unit(child)
            else:
                parts.setdefault(argument, []).append(child)
    return parts


def check_scalar(node: Node, clause: str) -> None:
    """Refuse the first node of a scalar expression that the dialect does not know.

    >>> import sqlglot
    >>> check_scalar(sqlglot.parse_one("age + 1 > 3", dialect="duckdb"), "WHERE")
    >>> check_scalar(sqlglot.parse_one("pg_sleep(9)", dialect="duckdb"), "WHERE")
    Traceback (most recent call last):
    sfumato.errors.QueryError: The dialect does not support the function pg_sleep. Functions ...
    """
    if is_aggregate(node):
        refuse(
            f"an aggregate in {clause}",
            "Conditions on aggregates belong into HAVING; an aggregate of an aggregate has to be "
            "computed from the answer.",
        )
    for children in scalar_parts(node).values():
        for child in children:
            check_scalar(child, clause)


def check_unit(unit: Node) -> None:
    if unit.name.upper() not in DATE_PARTS:
        refuse(
            f"the date part {unit.name!r}",
            f"Date parts there are: {', '.join(sorted(DATE_PARTS)).lower()}.",
        )


def check_type(to: exp.DataType) -> None:
    sizes = to.expressions
    plain = to.this in CAST_TYPES and not to.args.get("nested") and not to.args.get("kind")
    if not plain or not all(
        isinstance(size, exp.DataTypeParam) and isinstance(size.this, exp.Literal) for size in sizes
    ):
        refuse(
            f"a cast to {to.sql(dialect='duckdb')}",
            "Cast to integer, bigint, double, decimal(p, s), varchar, boolean, date, time or "
            "timestamp.",
        )


def filled(node: Node) -> list[str]:
    """The parts of a node that are there."""
    return [key for key, value in node.args.items() if value not in (None, False, [])]


def unwrap(node: Node) -> Node:
    """A node without the brackets around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def sql_text(node: Node, *, last: bool = False) -> str:
    """A node as DuckDB text, every name quoted, comments gone; `last` may change the node."""
    return node.sql(dialect="duckdb", identify=True, comments=False, copy=not last)


def as_written(node: Node) -> str:
    """A node for the eye: columns without their table.

    >>> as_written(exp.column("age", table="release", quoted=True) + 1)
    'age + 1'
    """
    bare = node.transform(lambda n: exp.to_identifier(n.name) if isinstance(n, exp.Column) else n)
    return bare.sql(dialect="duckdb", comments=False)
