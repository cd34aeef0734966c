"""Every SQL statement that we write ourselves, as syntax trees.

What an analyst writes is parsed, checked and taken apart elsewhere; here its parts are put into
statements over the records, over the values of the sensitive columns, and over the answer.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sfumato.errors import QueryError
from sfumato.queries.dialect import Node, sql_text
from sfumato.queries.question import ANSWER, ENDS, ESTIMATED, Ordering, Question, Term
from sfumato.queries.recoded import ranked
from sfumato.release.records import glob_escaped, scan

# Parts of these are evaluated only when a condition chose them, so that they may guard a CAST:
# only bare columns leave them.
_GUARDS = (exp.Case, exp.If, exp.Coalesce)


def column(table: str, name: str) -> exp.Column:
    return exp.column(name, table=table, quoted=True)


def named(node: Node, name: str) -> exp.Alias:
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def as_double(node: Node) -> exp.Cast:
    return exp.Cast(this=node, to=exp.DataType(this=exp.DataType.Type.DOUBLE))


def literal(value: Any) -> Node:
    """A value of an answer as SQL.

    >>> [literal(each).sql() for each in ("it's", -2, None, 0.5, datetime.date(2024, 5, 1))]
    ["'it''s'", '-2', 'NULL', '0.5e0', "CAST('2024-05-01' AS DATE)"]
    """
    if value is None or isinstance(value, str | bool | int | Decimal):
        return exp.convert(value)
    if isinstance(value, float) and math.isfinite(value):  # with an exponent it is no decimal
        number = exp.Literal.number(f"{abs(value)!r}" + ("" if "e" in repr(value) else "e0"))
        return exp.Neg(this=number) if value < 0 else number
    kinds = {
        float: "DOUBLE",
        datetime.datetime: "TIMESTAMP",  # a datetime is a date as well
        datetime.date: "DATE",
        datetime.time: "TIME",
    }
    kind = next((name for each, name in kinds.items() if isinstance(value, each)), None)
    if kind is None:
        raise QueryError(
            f"Values of the type {type(value).__name__} cannot be asked about. Leave their column "
            "out."
        )
    return exp.Cast(this=exp.Literal.string(str(value)), to=exp.DataType.build(kind))


def is_known(node: Node) -> exp.Not:
    return exp.Not(this=exp.Is(this=exp.Paren(this=node), expression=exp.Null()))


def all_of(conditions: Sequence[Node]) -> Node:
    """Conditions joined by AND.

    >>> sql_text(all_of([exp.column("a"), exp.column("b")])), sql_text(all_of([]))
    ('("a") AND ("b")', 'TRUE')
    """
    if not conditions:
        return exp.Boolean(this=True)
    whole: Node = exp.Paren(this=conditions[0])
    for condition in conditions[1:]:
        whole = exp.And(this=whole, expression=exp.Paren(this=condition))
    return whole


def select(
    columns: Sequence[Node],
    source: str,
    *,
    beside: Sequence[str] = (),
    where: Sequence[Node] = (),
    groups: int = 0,
) -> exp.Select:
    """`SELECT columns FROM source, beside … WHERE … GROUP BY` the first `groups` columns."""
    tree = exp.Select(expressions=list(columns), from_=exp.From(this=_table(source)))
    if beside:
        tree.set("joins", [exp.Join(this=_table(name), kind="CROSS") for name in beside])
    if where:
        tree.set("where", exp.Where(this=all_of(where)))
    if groups:
        numbers = [exp.Literal.number(index) for index in range(1, groups + 1)]
        tree.set("group", exp.Group(expressions=numbers))
    return tree


def _table(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(name, quoted=True))


# -- terms of a question -------------------------------------------------------------------------


class Stage:
    """The columns of one SELECT: each expression once, under a short name.

    >>> stage = Stage("m")
    >>> [stage.add(exp.column(name)) for name in ("age", "sex", "age")]
    ['m0', 'm1', 'm0']
    >>> [sql_text(each) for each in stage.columns()]
    ['"age" AS "m0"', '"sex" AS "m1"']
    """

    def __init__(self, letter: str) -> None:
        self._letter = letter
        self._known: dict[str, tuple[str, Node]] = {}

    def add(self, node: Node) -> str:
        text = sql_text(node)
        if text not in self._known:
            self._known[text] = f"{self._letter}{len(self._known)}", node
        return self._known[text][0]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self._known.values()]

    def columns(self) -> list[Node]:
        return [named(node, name) for name, node in self._known.values()]


def over(term: Term, columns: Mapping[str, Node]) -> Node:
    """A term with every column replaced."""
    return _replaced(term.tree, columns)


def _replaced(tree: Node, columns: Mapping[str, Node]) -> Node:
    def replace(node: Node) -> Node:
        return columns[node.name].copy() if isinstance(node, exp.Column) else node

    return tree.transform(replace)


def hoisted(
    term: Term,
    records: Mapping[str, Node],
    originals: Mapping[str, Node],
    carry: Callable[[Node], Node],
) -> Node:
    """A term that mixes quasi and sensitive columns, over the values of the sensitive ones.

    Its largest quasi-only parts are computed on the records (`carry` takes them and answers the
    column that will hold them), so that `age > 40 OR disease = 'flu'` splits the records in two and
    not by every age.
    """

    def lift(node: Node, guarded: bool) -> Node:
        if isinstance(node, exp.Column) and node.name in originals:
            return originals[node.name].copy()
        used = {column.name for column in node.find_all(exp.Column)}
        if not used:
            return node.copy()
        if not used & originals.keys() and (not guarded or isinstance(node, exp.Column)):
            return carry(_replaced(node, records))
        guarded = guarded or isinstance(node, _GUARDS)

        def rest(part: Any) -> Any:
            if isinstance(part, list):
                return [rest(inner) for inner in part]
            return lift(part, guarded) if isinstance(part, exp.Expr) else part

        return type(node)(**{argument: rest(part) for argument, part in node.args.items()})

    return lift(term.tree, False)


# -- over the records ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RecordSums:
    """`SELECT keys, sums FROM records WHERE … GROUP BY keys`: the one thing asked of all records.

    Keys and sums have names; the sums are counts and sums, so that those of several files add up.
    Whatever else a question needs is computed from them, and is small: this is what another engine
    takes over.

    >>> sex, age = (column("records", name) for name in ("sex", "age"))
    >>> RecordSums([named(sex, "k0")], [named(count(), "s0")], [age]).sql
    'SELECT "records"."sex" AS "k0", COUNT(*) AS "s0" FROM "records" WHERE ("records"."age") ...'
    """

    keys: Sequence[Node]
    sums: Sequence[Node]
    where: Sequence[Node]

    @cached_property
    def sql(self) -> str:
        tree = select([*self.keys, *self.sums], "records", where=self.where, groups=len(self.keys))
        return sql_text(tree, last=True)


def count(inside: Node | None = None, where: Sequence[Node] = ()) -> Node:
    """`COUNT(inside)`, or of everything, over the records that satisfy all conditions."""
    return _filtered(exp.Count(this=exp.Star() if inside is None else inside, big_int=True), where)


def total(factors: Sequence[Node], where: Sequence[Node] = ()) -> Node:
    """`SUM` of the product of the factors, as doubles."""
    whole: Node = as_double(factors[0])
    for factor in factors[1:]:
        whole = exp.Mul(this=whole, expression=as_double(factor))
    return _filtered(exp.Sum(this=whole), where)


def _filtered(aggregate: Node, where: Sequence[Node]) -> Node:
    if not where:
        return aggregate
    return exp.Filter(this=aggregate, expression=exp.Where(this=all_of(where)))


# -- over the answer -----------------------------------------------------------------------------


def answer_columns(question: Question) -> list[tuple[str, str]]:
    """The columns of a table of estimates, and their names in the answer; last, and in no answer,
    what aggregates do not tell."""
    columns: list[tuple[str, str]] = []
    for output in question.outputs:
        inner_name = f"{'k' if output.of == 'key' else 'a'}{output.index}"
        ends = ENDS if output.of == "aggregate" else ("",)
        columns += [(inner_name + end, output.name + end) for end in ends]
    shown = [output for output in question.outputs if output.of == "aggregate"]
    end = ESTIMATED[-1]
    return [*columns, *((f"a{output.index}{end}", output.name + end) for output in shown)]


def answer(question: Question, source: str) -> str:
    """HAVING, ORDER BY, LIMIT and the names of the answer, over a table of estimates."""
    columns = [f"{ANSWER}.{inner} AS {quoted(name)}" for inner, name in answer_columns(question)]
    text = f"SELECT {', '.join(columns)} FROM {source} AS {ANSWER}"
    if question.having is not None:
        text += f" WHERE {sql_text(question.having)}"
    # the same question has the same answer in the same order, whatever the threads do
    keys = [Ordering(column(ANSWER, f"k{n}"), False, False) for n in range(len(question.keys))]
    order = [
        f"{sql_text(ranked(ordering.tree.copy(), question.bins))} "
        f"{'DESC' if ordering.descending else 'ASC'} "
        f"NULLS {'FIRST' if ordering.nulls_first else 'LAST'}"
        for ordering in (*question.order, *keys)
    ]
    if order:
        text += f" ORDER BY {', '.join(order)}"
    if question.limit is not None:
        text += f" LIMIT {question.limit}"
    return text if question.offset is None else f"{text} OFFSET {question.offset}"


# -- an analyst's pieces, to be read as SQL -------------------------------------------------------


def quoted(name: str) -> str:
    """A column's name, whatever letters it has.

    >>> quoted("City Name")
    '"City Name"'
    """
    return sql_text(exp.to_identifier(name, quoted=True))


def without_alias(text: str) -> tuple[str, str]:
    """An expression and what it is called.

    >>> without_alias("age // 20 * 20 AS years")
    ('("age" // 20 * 20)', 'years')
    >>> without_alias("age +")
    ('(age +)', 'age +')
    """
    try:
        (side,) = sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").expressions
    except (SqlglotError, ValueError):
        side = None  # whoever reads the question says what is wrong
    if isinstance(side, exp.Alias):
        return f"({sql_text(side.this)})", side.alias
    return f"({text})", text


def cross_count(down: str, across: str, where: str | None) -> str:
    """The question how many records there are by two expressions.

    >>> cross_count("a", "b", "a > 1 -- a note")
    'SELECT a AS r, b AS c, COUNT(*) AS n FROM release WHERE (a > 1 -- a note\\n) GROUP BY 1, 2'
    """
    condition = f" WHERE ({where}\n)" if where else ""
    return f"SELECT {down} AS r, {across} AS c, COUNT(*) AS n FROM release{condition} GROUP BY 1, 2"


# -- the database --------------------------------------------------------------------------------


def settings(
    paths: Sequence[Path], folder: str, memory: int, spill: int, threads: int | None
) -> Iterator[str]:
    """Statements that lock a database to these files, and to so many bytes here and on disk."""
    if threads is not None:
        yield f"SET threads = {threads}"
    yield f"SET memory_limit = '{memory}B'"
    yield f"SET temp_directory = {_text(folder)}"
    yield f"SET max_temp_directory_size = '{spill}B'"
    yield "SET GLOBAL TimeZone = 'UTC'"  # answers do not depend on where they are asked
    yield "SET preserve_insertion_order = false"
    yield "SET GLOBAL python_enable_replacements = false"
    yield "SET autoinstall_known_extensions = false"
    yield "SET autoload_known_extensions = false"
    yield "SET allow_community_extensions = false"
    allowed = sorted({str(path) for path in paths} | {glob_escaped(path) for path in paths})
    yield f"SET allowed_paths = [{', '.join(map(_text, allowed))}]"
    yield "SET enable_external_access = false"
    yield "SET lock_configuration = true"


def view_of_records(paths: Sequence[Path], names: Sequence[str]) -> str:
    """Names are given by position, so that `age` and `Age` stay apart in DuckDB."""
    aliases = ", ".join(sql_text(exp.to_identifier(name, quoted=True)) for name in names)
    return f"CREATE VIEW records AS SELECT * FROM {scan(paths)} AS r({aliases})"


def _text(text: str) -> str:
    return sql_text(exp.Literal.string(text))


def sorted_records(names: Mapping[str, str]) -> str:
    """Columns of the records, by the names that they have there, in the order of all of them."""
    columns = ", ".join(f"{quoted(there)} AS {quoted(name)}" for name, there in names.items())
    return f"SELECT {columns} FROM records ORDER BY ALL NULLS LAST"
