"""Arithmetic of aggregates: shares, ratios, differences between groups, with one error bar.

`COUNT(*) FILTER (WHERE x) / COUNT(*)` is itself a function of linear statistics, whose joint
covariance the estimator knows: what the two counts have in common does not count twice.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from sqlglot import exp

from sfumato.queries.aggregates import Aggregate, Call, Compute
from sfumato.queries.dialect import (
    SCALARS,
    Node,
    as_written,
    is_aggregate,
    refuse,
    refuse_node,
    unwrap,
)

_REAL = frozenset({exp.DataType.Type.DOUBLE, exp.DataType.Type.FLOAT, exp.DataType.Type.DECIMAL})
_OF_TWO: dict[type[Node], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,
}


def formula_of(node: Node, read: Callable[[Node], Call]) -> Aggregate:
    """The aggregate that an expression stands for; `read` takes the calls inside."""
    calls: dict[str, Call] = {}

    def place_of(inner: Node) -> int:
        call = read(inner)
        calls.setdefault(call.text, call)
        return list(calls).index(call.text)

    compute, text = _compiled(node, place_of), as_written(node)
    factor, above, below = _product(node) or (0.0, [], [])
    parts = tuple(read(part) for part in (*above, *below))
    single = len(calls) == 2 and [len(part.sums) for part in parts] == [1, 1]
    if factor and len(below) == 1 and single:
        return Aggregate(text, parts, lambda sums: sums[0] / sums[1], True, factor)
    if factor and len(parts) == 1 and not below and parts[0].rule.ratio:
        return Aggregate(text, parts, None, True, factor)
    return Aggregate(text, tuple(calls.values()), compute)


def _product(node: Node) -> tuple[float, list[Node], list[Node]] | None:
    """The factor of a product, the aggregates above the line and those below; None of a sum."""
    node = unwrap(node)
    if is_aggregate(node):
        return 1.0, [node], []
    if isinstance(node, exp.Literal):
        return float(node.name), [], []
    if isinstance(node, exp.Cast | exp.Neg):
        inner = _product(node.this)
        return inner and (-inner[0] if isinstance(node, exp.Neg) else inner[0], *inner[1:])
    one = other = None
    if isinstance(node, exp.Mul | exp.Div):
        one, other = _product(node.this), _product(node.expression)
    if one is None or other is None:
        return None
    if isinstance(node, exp.Mul):
        return one[0] * other[0], one[1] + other[1], one[2] + other[2]
    return (one[0] / other[0], one[1] + other[2], one[2] + other[1]) if other[0] else None


def _compiled(node: Node, place_of: Callable[[Node], int]) -> Compute:
    """The computation that an expression over aggregates stands for."""
    node = unwrap(node)
    kind = type(node)
    if is_aggregate(node):
        slot = place_of(node)
        return lambda parts: parts[slot]
    if kind in _OF_TWO:
        one, other = (_compiled(side, place_of) for side in (node.this, node.expression))
        two = _OF_TWO[kind]
        return lambda parts: two(one(parts), other(parts))
    if kind is exp.Neg:
        inner = _compiled(node.this, place_of)
        return lambda parts: -inner(parts)
    if isinstance(node, exp.Literal) and not node.is_string:
        number = float(node.name)
        return lambda parts: np.full(parts[0].shape, number)
    if isinstance(node, exp.Cast) and node.to.this in _REAL and not node.to.expressions:
        return _compiled(node.this, place_of)
    if isinstance(node, exp.Column):
        refuse(
            f"the column {node.name} beside aggregates",
            "Arithmetic in SELECT takes aggregates and numbers; select the key as a column of its "
            "own.",
        )
    if kind not in SCALARS:
        refuse_node(node)
    refuse(
        f"{as_written(node)[:60]!r} over aggregates",
        "There are + - * / and numbers; compute the rest from the answer.",
    )
