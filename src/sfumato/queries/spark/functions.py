"""Functions of texts and dates that mean the same to DuckDB and to Spark."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sfumato.queries.dialect import Node, unwrap
from sfumato.queries.spark.types import Typed, Untranslatable, spark_type

_DATE_PARTS: dict[type[Node], str] = {
    exp.Year: "year({})",
    exp.Month: "month({})",
    exp.Day: "day({})",
    exp.Quarter: "quarter({})",
    exp.DayOfWeek: "dayofweek({}) - 1",  # Spark counts from 1
}


def written_function(node: Node, kind: str, scalar: Callable[[Node], Typed]) -> str:
    """A function of the dialect in Spark's SQL; `scalar` writes its arguments."""

    def text(part: Node) -> str:
        found = scalar(part)
        if found.kind == "NULL":
            return "CAST(NULL AS STRING)"
        if found.kind != "VARCHAR":
            raise Untranslatable(f"{found.kind} as a text")
        return found.text

    if isinstance(node, exp.DPipe):
        return f"({text(node.left)} || {text(node.right)})"
    if isinstance(node, exp.Concat):
        parts = [f"coalesce({text(part)}, '')" for part in node.expressions]
        return f"concat({', '.join(parts)})"
    if isinstance(node, exp.Length):
        return f"CAST(char_length({text(node.this)}) AS BIGINT)"
    if isinstance(node, exp.StartsWith):
        return f"startswith({text(node.this)}, {text(node.expression)})"
    if isinstance(node, exp.Contains):
        return f"contains({text(node.this)}, {text(node.expression)})"
    if isinstance(node, exp.Left):
        return f"substring({text(node.this)}, 1, {_whole(node.expression, 0)})"
    if isinstance(node, exp.Substring):
        start = _whole(node.args["start"], 1)
        length = node.args.get("length")
        end = "" if length is None else f", {_whole(length, 0)}"
        return f"substring({text(node.this)}, {start}{end})"
    if type(node) in _DATE_PARTS:
        date = scalar(node.this)
        if date.kind != "DATE":
            raise Untranslatable("a part of what is no date")
        return f"CAST({_DATE_PARTS[type(node)].format(date.text)} AS {spark_type(kind)})"
    raise Untranslatable(type(node).__name__)


def _whole(node: Node, least: int) -> int:
    node = unwrap(node)
    number = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    if not number.isdigit() or not least <= int(number) < 2**31:
        raise Untranslatable("a length that is no plain number")
    return int(number)
