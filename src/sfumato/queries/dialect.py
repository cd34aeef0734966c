"""The SQL that a question may be written in: deny by default, node by node.

The lists below name every kind of syntax node that may stand in a question. Whatever is not
named is refused by its name, with what to write instead where there is something.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp

from sfumato.errors import QueryError

if TYPE_CHECKING:
    from sfumato.queries.aggregates import Rule

LONGEST_SQL = 100_000  # characters; a question is written by a person
_DEEPEST = 800  # nodes of an expression below each other: they are taken apart by recursion

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
        if not isinstance(node, exp.WithinGroup) or not isinstance(node.this, _QUANTILES):
            return node
        (by,) = node.expression.expressions
        if by.args.get("desc"):  # a discrete one from above is no discrete one from below
            return node
        return type(node.this)(this=by.this.copy(), expression=node.this.this.copy())

    return tree.transform(known)


def _kinds(names: str) -> frozenset[type[Node]]:
    return frozenset(getattr(exp, name) for name in names.split())


# what may stand in an expression over one record
SCALARS = _kinds(
    """Column Literal Boolean Null
    And Or Not Paren EQ NEQ LT LTE GT GTE Between In Is NullSafeEQ NullSafeNEQ Like ILike Escape
    Add Sub Mul Div IntDiv Mod Neg Pow DPipe
    Case If Coalesce Nullif Greatest Least
    Abs Round Floor Ceil Sign Sqrt Ln Exp
    Lower Upper Length Trim Substring Concat Left Right StartsWith Contains
    Year Month Day Quarter DayOfWeek Extract TimestampTrunc DateTrunc DateFromParts
    Cast TryCast"""
)
PARTS = _kinds("Identifier Var DataType DataTypeParam")  # of them
# what may stand besides in a question that DuckDB answers whole
OF_TABLES = _kinds(
    """Select From Table TableAlias Alias Where Group Having Qualify Order Ordered Limit Offset
    Subquery With CTE Distinct Star Tuple Filter WithinGroup Exists Union Intersect Except
    Window WindowSpec RowNumber Rank DenseRank PercentRank CumeDist Ntile Lag Lead FirstValue
    LastValue
    Min Max Mode CountIf AnyValue IgnoreNulls LogicalAnd LogicalOr PercentileCont PercentileDisc
    Variance VariancePop Stddev StddevPop StddevSamp CovarPop CovarSamp Corr RegrR2 RegrSlope
    RegrIntercept Kurtosis Skewness"""
)
AGGREGATES: dict[type[Node], Rule] = {}  # filled by `aggregates`

_CASTS = "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL VARCHAR TEXT DATE TIME TIMESTAMP"
CAST_TYPES = frozenset(map(exp.DataType.Type, _CASTS.split()))
DATE_PARTS = frozenset(
    {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "ISODOW", "DOY", "HOUR", "MINUTE", "SECOND"}
)

_FUNCTION_NAMES = (
    "abs, ceil, coalesce, concat, contains, date_trunc, day, dayofweek, exp, extract, floor, "
    "greatest, if, least, left, length, ln, lower, make_date, month, nullif, pow, quarter, right, "
    "round, sign, sqrt, starts_with, substring, trim, upper, year, CASE and CAST"
)

_DATED = (exp.Extract, exp.TimestampTrunc, exp.DateTrunc)
_INSTEAD: dict[type[Node], tuple[str, str]] = {
    exp.TableSample: ("SAMPLE", "Ask about all records; the answer costs the same."),
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
    **dict.fromkeys(
        _kinds(
            "Variance VariancePop Stddev StddevPop StddevSamp CovarPop CovarSamp Corr RegrR2 "
            "RegrSlope RegrIntercept"
        ),
        (
            "variances and regressions where a sensitive column takes part",
            "Compute them from completed tables, which `complete` makes, and join them by "
            "`sf.combine`; of quasi-identifiers alone they are answered.",
        ),
    ),
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
    exp.WithinGroup: (
        "WITHIN GROUP (ORDER BY x DESC) where a sensitive column takes part",
        "Ask from below: PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY x) for 0.9 and DESC.",
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


def check_nodes(tree: Node, allowed: Container[type[Node]], clause: str = "") -> None:
    """Refuse the first node that is not listed; aggregates too where `clause` takes none.

    >>> import sqlglot
    >>> check_nodes(sqlglot.parse_one("age + 1 > 3", dialect="duckdb"), SCALARS | PARTS)
    >>> check_nodes(sqlglot.parse_one("pg_sleep(9)", dialect="duckdb"), SCALARS)
    Traceback (most recent call last):
    sfumato.errors.QueryError: The dialect does not support the function pg_sleep. Functions ...
    """
    left = [(tree, 0)]
    while left:
        node, depth = left.pop()
        left += [(child, depth + 1) for child in node.iter_expressions(reverse=True)]
        if clause and depth > _DEEPEST:
            raise RecursionError
        if clause and is_aggregate(node):
            refuse(
                f"an aggregate in {clause}",
                "Conditions on aggregates belong into HAVING; an aggregate of an aggregate has to "
                "be computed from the answer.",
            )
        if type(node) not in allowed:
            refuse_node(node)
        if clause and isinstance(node, exp.In) and set(filled(node)) - {"this", "expressions"}:
            refuse("IN with a sub-query or a list column", "Write the values out: IN ('a', 'b').")
        if isinstance(node, exp.DataType):
            _check_type(node)
        if isinstance(node, _DATED):
            _check_unit(node.this if isinstance(node, exp.Extract) else node.args["unit"])
        elif isinstance(node, exp.Var) and not isinstance(node.parent, _DATED):
            refuse(f"{node.name} here", "Name the columns.")


def _check_unit(unit: Node) -> None:
    if unit.name.upper() not in DATE_PARTS:
        refuse(
            f"the date part {unit.name!r}",
            f"Date parts there are: {', '.join(sorted(DATE_PARTS)).lower()}.",
        )


def _check_type(to: exp.DataType) -> None:
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
