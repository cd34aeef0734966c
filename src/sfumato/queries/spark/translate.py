"""Sums over the records in Spark's SQL, where it surely means what DuckDB's means.

DuckDB says the type of every part, and evaluates every part without columns; the rest is rewritten
node by node with all casts spelled out. A node that is not listed here, or is not known to mean the
same in both (how a text is trimmed, how a logarithm is rounded, what a division by zero is …), is
`Untranslatable`, and then DuckDB itself runs beside the records: see `workers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import sqlglot
from sqlglot import exp

from sfumato.queries.dialect import Node, sql_text, unwrap
from sfumato.queries.spark.functions import written_function
from sfumato.queries.spark.patterns import like_pattern
from sfumato.queries.spark.shape import check_parts
from sfumato.queries.spark.types import (
    INTEGERS,
    Typed,
    Untranslatable,
    alike,
    constant,
    decimal_size,
    spark_type,
    text_constant,
)
from sfumato.queries.sums import RecordSums, group_by, where

_COMPARED: dict[type[Node], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_ADDED: dict[type[Node], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_WHOLE: dict[type[Node], str] = {exp.IntDiv: "DIV", exp.Mod: "%"}
_SAFE_DOUBLES = "CAST('4503599627370496' AS DOUBLE)"  # from 2^52 on doubles are whole numbers


class Translator:
    """Writes expressions over `records` in Spark's SQL.

    `columns` maps DuckDB's name of a column to Spark's; `types` tells the DuckDB types of
    expressions, `values` the values of expressions without columns.
    """

    def __init__(
        self,
        columns: Mapping[str, str],
        types: Callable[[list[str]], list[str]],
        values: Callable[[list[str]], list[Any]],
    ) -> None:
        self._columns, self._types, self._values = columns, types, values
        self._known: dict[str, str] = {}
        self.used: set[str] = set()

    def select(self, sums: RecordSums, table: str) -> str:
        """The whole statement, over the Spark table `table`."""
        listed = [self._listed(each) for each in (*sums.keys, *sums.sums)]
        conditions = [self._condition(_parsed(each)) for each in sums.where]
        return (
            f"SELECT {', '.join(listed)} FROM {table}{where(conditions)}{group_by(len(sums.keys))}"
        )

    def _listed(self, each: str) -> str:
        tree = _parsed(each)
        assert isinstance(tree, exp.Alias)
        return f"{self._any(tree.this).text} AS {tree.alias}"

    # -- aggregates ----------------------------------------------------------------------------

    def _any(self, node: Node) -> Typed:
        """An expression that may hold an aggregate."""
        check_parts(node)
        if isinstance(node, exp.Filter):
            inside = self._any(node.this)
            condition = self._condition(node.expression.this)
            return Typed(f"{inside.text} FILTER (WHERE {condition})", inside.kind)
        if isinstance(node, exp.Count):
            star = isinstance(node.this, exp.Star)
            return Typed(f"count({'*' if star else self._scalar(node.this).text})", "BIGINT")
        if isinstance(node, exp.Sum):
            return Typed(f"sum({self._scalar(node.this).of('DOUBLE')})", "DOUBLE")
        if isinstance(node, exp.Coalesce) and node.find(exp.AggFunc):
            parts = [self._any(part).of("DOUBLE") for part in (node.this, *node.expressions)]
            return Typed(f"coalesce({', '.join(parts)})", "DOUBLE")
        return self._scalar(node)

    # -- scalars -------------------------------------------------------------------------------

    def _condition(self, node: Node) -> str:
        found = self._scalar(node)
        if found.kind not in ("BOOLEAN", "NULL"):
            raise Untranslatable(f"{found.kind} as a condition")
        return found.text

    def _kind(self, node: Node) -> str:
        text = sql_text(node)
        if text not in self._known:
            self._known[text] = self._types([text])[0].strip('"')
        return self._known[text]

    def _scalar(self, node: Node) -> Typed:
        node = unwrap(node)
        check_parts(node)
        if isinstance(node, exp.Bracket):
            return self._element(node)
        if node.find(exp.Column) is None:
            return self._constants([node])[0]
        return Typed(*self._written(node))

    def _constants(self, nodes: Sequence[Node], kind: str | None = None) -> list[Typed]:
        """Parts without columns; where `kind` is given, DuckDB turns them into it first."""
        texts = [sql_text(node) for node in nodes]
        if kind is not None:
            texts = [f"CAST({text} AS {kind})" for text in texts]
        kinds = [found.strip('"') for found in self._types(texts)]
        values = self._values(texts)
        return [
            Typed(constant(value, found), found) for value, found in zip(values, kinds, strict=True)
        ]

    def _written(self, node: Node) -> tuple[str, str]:
        """The Spark text of a node that has columns, with its DuckDB type."""
        kind = self._kind(node)
        of = type(node)
        if isinstance(node, exp.Column):
            self.used.add(node.name)
            spark_type(kind)
            return self._columns[node.name], kind
        if isinstance(node, exp.And | exp.Or):
            word = "AND" if of is exp.And else "OR"
            return f"({self._condition(node.left)} {word} {self._condition(node.right)})", kind
        if isinstance(node, exp.Not):
            return f"(NOT {self._condition(node.this)})", kind
        if of in _COMPARED or of is exp.NullSafeNEQ:
            assert isinstance(node, exp.Binary)
            found = self._compared(_COMPARED.get(of, "<=>"), node.left, node.right)
            return (found if of in _COMPARED else f"(NOT {found})"), kind
        if isinstance(node, exp.Between):
            low = self._compared(">=", node.this, node.args["low"])
            high = self._compared("<=", node.this, node.args["high"])
            return f"({low} AND {high})", kind
        if isinstance(node, exp.In):
            return self._in(node), kind
        if isinstance(node, exp.Is):
            return self._is(node), kind
        if isinstance(node, exp.Like | exp.Escape):
            return self._like(node), kind
        if of in _ADDED or of in _WHOLE or isinstance(node, exp.Div | exp.Neg | exp.Abs):
            return self._arithmetic(node, kind), kind
        if isinstance(node, exp.Floor | exp.Ceil):
            return self._to_whole(node, kind), kind
        if isinstance(
            node, exp.Case | exp.If | exp.Coalesce | exp.Nullif | exp.Greatest | exp.Least
        ):
            return self._choice(node, kind), kind
        if isinstance(node, exp.Cast):
            return self._cast(node, kind), kind
        return written_function(node, kind, self._scalar), kind

    def _compared(self, sign: str, left: Node, right: Node) -> str:
        """A comparison; a quoted constant takes the type of the other side, as in DuckDB."""
        sides = [unwrap(left), unwrap(right)]
        found: list[Typed | None] = [
            None if isinstance(side, exp.Literal) and side.is_string else self._scalar(side)
            for side in sides
        ]
        for place, side in enumerate(sides):
            other = found[1 - place]
            if found[place] is None:
                kind = other.kind if other is not None and other.kind != "NULL" else "VARCHAR"
                found[place] = self._constants([side], kind)[0]
        one, two = found
        assert one is not None
        assert two is not None
        kind = alike(one.kind, two.kind)
        return f"({one.of(kind)} {sign} {two.of(kind)})"

    def _in(self, node: exp.In) -> str:
        tested = self._scalar(node.this)
        listed = [unwrap(each) for each in node.expressions]
        if not listed or any(each.find(exp.Column) for each in listed):
            raise Untranslatable("IN with columns")
        if tested.kind == "VARCHAR" or not any(each.is_string for each in listed):
            values = self._constants(listed)
        else:
            values = self._constants(listed, tested.kind)
        kind = tested.kind
        for value in values:
            kind = alike(kind, value.kind)
        return f"({tested.of(kind)} IN ({', '.join(value.of(kind) for value in values)}))"

    def _is(self, node: exp.Is) -> str:
        tested, what = self._scalar(node.this), unwrap(node.expression)
        if isinstance(what, exp.Null):
            return f"({tested.text} IS NULL)"
        if isinstance(what, exp.Boolean) and tested.kind == "BOOLEAN":
            return f"({tested.text} IS {'TRUE' if what.this else 'FALSE'})"
        raise Untranslatable("IS")

    def _like(self, node: exp.Like | exp.Escape) -> str:
        escape: str | None = None
        if isinstance(node, exp.Escape):
            escape = unwrap(node.expression).name
            node = node.this
            check_parts(node)
        pattern = unwrap(node.expression)
        tested = self._scalar(node.this)
        if not isinstance(node, exp.Like) or tested.kind != "VARCHAR" or not pattern.is_string:
            raise Untranslatable("this form of LIKE")
        written, free = like_pattern(pattern.name, escape)
        word = "NOT LIKE" if node.args.get("negate") else "LIKE"
        return f"({tested.text} {word} {text_constant(written)} ESCAPE {text_constant(free)})"

    def _arithmetic(self, node: Node, kind: str) -> str:
        if isinstance(node, exp.Neg | exp.Abs):
            inside = self._scalar(node.this)
            if inside.kind not in (*INTEGERS, "DOUBLE"):
                raise Untranslatable(f"{inside.kind} with its sign changed")
            wide = inside.of("DOUBLE" if kind == "DOUBLE" else "BIGINT")
            changed = f"abs({wide})" if isinstance(node, exp.Abs) else f"(-{wide})"
            return f"CAST({changed} AS {spark_type(kind)})"
        assert isinstance(node, exp.Binary)
        one, two = self._scalar(node.left), self._scalar(node.right)
        if isinstance(node, exp.Div):
            if kind != "DOUBLE" or not self._is_not_zero(node.right):
                raise Untranslatable("a division")
            return f"({one.of('DOUBLE')} / {two.of('DOUBLE')})"
        if type(node) in _WHOLE:
            whole = all(each.kind in INTEGERS for each in (one, two)) and kind in INTEGERS
            if not whole or not self._is_not_zero(node.right):
                raise Untranslatable("a division of whole numbers")
            sign = _WHOLE[type(node)]
            found = f"({one.of('BIGINT')} {sign} {two.of('BIGINT')})"
            return f"CAST({found} AS {spark_type(kind)})"
        sign = _ADDED[type(node)]
        if kind == "DOUBLE":
            return f"({one.of('DOUBLE')} {sign} {two.of('DOUBLE')})"
        if kind in INTEGERS and all(each.kind in INTEGERS for each in (one, two)):
            # too large a number fails in both, and then DuckDB says so
            return f"CAST(({one.of('BIGINT')} {sign} {two.of('BIGINT')}) AS {spark_type(kind)})"
        size = decimal_size(kind)
        if size is not None and size[0] <= 18 and sign != "*":
            wide = f"DECIMAL(30,{size[1]})"
            return f"CAST(({one.of(wide)} {sign} {two.of(wide)}) AS {kind})"
        raise Untranslatable(f"arithmetic that gives {kind}")

    def _is_not_zero(self, node: Node) -> bool:
        node = unwrap(node)
        if node.find(exp.Column) is not None:
            return False
        value = self._values([sql_text(node)])[0]
        return isinstance(value, int | float | Decimal) and value == value and value != 0

    def _to_whole(self, node: exp.Floor | exp.Ceil, kind: str) -> str:
        inside = self._scalar(node.this)
        if kind != "DOUBLE":
            raise Untranslatable("this form of rounding")
        x = inside.of("DOUBLE")
        if inside.kind in INTEGERS:
            return x
        name = "floor" if isinstance(node, exp.Floor) else "ceil"
        return f"CASE WHEN abs({x}) < {_SAFE_DOUBLES} THEN CAST({name}({x}) AS DOUBLE) ELSE {x} END"

    def _choice(self, node: Node, kind: str) -> str:
        if isinstance(node, exp.Case | exp.If):
            return self._case(node, kind)
        if isinstance(node, exp.Nullif):
            same = self._compared("=", node.this, node.expression)
            return f"CASE WHEN {same} THEN NULL ELSE {self._as(node.this, kind)} END"
        assert isinstance(node, exp.Func)
        name = {exp.Coalesce: "coalesce", exp.Greatest: "greatest", exp.Least: "least"}[type(node)]
        parts = [self._as(part, kind) for part in (node.this, *node.expressions)]
        return f"{name}({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def _case(self, node: exp.Case | exp.If, kind: str) -> str:
        branches = [node] if isinstance(node, exp.If) else node.args["ifs"]
        operand = None if isinstance(node, exp.If) else node.args.get("this")
        last = node.args.get("false" if isinstance(node, exp.If) else "default")
        text = "CASE"
        for branch in branches:
            chosen = (
                self._condition(branch.this)
                if operand is None
                else self._compared("=", operand, branch.this)
            )
            text += f" WHEN {chosen} THEN {self._as(branch.args['true'], kind)}"
        if last is not None:
            text += f" ELSE {self._as(last, kind)}"
        return f"{text} END"

    def _as(self, node: Node, kind: str) -> str:
        """A part as a value of the type that the whole has."""
        node = unwrap(node)
        if isinstance(node, exp.Literal) and node.is_string and kind != "VARCHAR":
            return self._constants([node], kind)[0].text
        return self._scalar(node).of(kind)

    def _cast(self, node: exp.Cast, kind: str) -> str:
        inside = self._scalar(node.this)
        if type(node) is exp.TryCast:
            raise Untranslatable("TRY_CAST")
        if inside.kind == "DOUBLE" and kind in INTEGERS:
            return f"CAST(rint({inside.text}) AS {spark_type(kind)})"  # to the even one of two
        if inside.kind in INTEGERS and kind == "VARCHAR":
            return f"CAST({inside.text} AS STRING)"
        return inside.of(kind)

    def _element(self, node: exp.Bracket) -> Typed:
        """`([scales])[part + 1]`, which we wrote ourselves."""
        listed = unwrap(node.this)
        assert isinstance(listed, exp.Array)
        values = [constant(float(each.name), "DOUBLE") for each in listed.expressions]
        place = self._scalar(node.expressions[0]).of("INTEGER")
        return Typed(f"element_at(array({', '.join(values)}), {place})", "DOUBLE")


def _parsed(sql: str) -> Node:
    return sqlglot.parse_one(sql, dialect="duckdb")
