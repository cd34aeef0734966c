"""What the syntax nodes that go to Spark may consist of."""

from __future__ import annotations

from sqlglot import exp

from sfumato.queries.dialect import Node, filled
from sfumato.queries.spark.types import Untranslatable

# A flag that nobody has thought of may change what a node means.
_USUAL_PARTS = {"this", "expression"}
_PARTS: dict[type[Node], set[str]] = {
    exp.Column: {"this", "table"},
    exp.Between: {"this", "low", "high"},
    exp.In: {"this", "expressions"},
    exp.Like: {"this", "expression", "negate"},
    exp.Case: {"this", "ifs", "default"},
    exp.If: {"this", "true", "false"},
    exp.Coalesce: {"this", "expressions"},
    exp.Greatest: {"this", "expressions", "ignore_nulls"},
    exp.Least: {"this", "expressions", "ignore_nulls"},
    exp.Cast: {"this", "to"},
    exp.DPipe: {"this", "expression", "safe"},
    exp.Concat: {"expressions", "safe", "coalesce"},
    exp.Substring: {"this", "start", "length"},
    exp.Count: {"this", "big_int"},
    exp.Filter: {"this", "expression"},
    exp.Bracket: {"this", "expressions"},
}


def check_parts(node: Node) -> None:
    """Refuse a node with a part or a flag that the translation does not look at."""
    extra = set(filled(node)) - _PARTS.get(type(node), _USUAL_PARTS)
    if extra and node.find(exp.Column) is not None:
        raise Untranslatable(f"{type(node).__name__} with {', '.join(sorted(extra))}")
