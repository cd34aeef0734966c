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

    compute, whole = _compiled(node, place_of), unwrap(node)
    divided = isinstance(whole, exp.Div) and all(
        is_aggregate(unwrap(side)) for side in (whole.this, whole.expression)
    )
    quotient = divided and [len(call.sums) for call in calls.values()] == [1, 1]
    return Aggregate(as_written(node), tuple(calls.values()), compute, quotient)


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
