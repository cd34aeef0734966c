"""Questions to recoded columns: ranges at the edges of bins, and the order of bins.

A binned column is published as texts, `[18, 65)`. A comparison with a number means the bins on that
side of it, where it does not cut one in two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from sqlglot import exp

from sfumato.columns import Column, Range, Values, bin_labels, edge_text, list_some
from sfumato.errors import QueryError
from sfumato.queries.dialect import Node, unwrap
from sfumato.queries.question import ANSWER, Term

_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}


def as_bins(tree: Node, columns: Mapping[str, Column]) -> Node:
    """Comparisons of binned columns with numbers, as lists of bins.

    >>> age = Column("age", "quasi", "categorical", "string", None, (0.0, 18.0, 65.0, 120.0))
    >>> tree = exp.column("age", quoted=True) >= exp.Literal.number(18)
    >>> print(as_bins(tree, {"age": age}).sql())
    "age" IN ('[18, 65)', '[65, 120]')
    """

    def change(node: Node) -> Node:
        if isinstance(node, exp.Between):
            asked, low, high = unwrap(node.this), node.args["low"], node.args["high"]
            if _binned(asked, columns) is None or None in (_number(low), _number(high)):
                return node
            ends = (
                exp.GTE(this=asked, expression=low),
                exp.LTE(this=asked.copy(), expression=high),
            )
            return exp.paren(exp.and_(*map(change, ends), copy=False), copy=False)
        if not isinstance(node, (exp.GT, exp.GTE, exp.LT, exp.LTE)):
            return node
        kind: type[exp.Expr] = type(node)
        left, right = unwrap(node.left), unwrap(node.right)
        if _binned(left, columns) is None:
            left, right, kind = right, left, _MIRRORED[kind]
        column, number = _binned(left, columns), _number(right)
        if column is None or number is None:
            return node
        labels, chosen = _beside(column, kind, number)
        texts: list[Node] = [exp.Literal.string(label) for label in chosen or labels]
        listed = exp.In(this=left.copy(), expressions=texts)
        return listed if chosen else exp.Not(this=listed)

    return tree.transform(change)


def _binned(node: Node, columns: Mapping[str, Column]) -> Column | None:
    column = columns.get(node.name) if isinstance(node, exp.Column) else None
    return column if column is not None and column.bins is not None else None


def _number(node: Node) -> float | None:
    node = unwrap(node)
    if isinstance(node, exp.Neg):
        inside = _number(node.this)
        return None if inside is None else -inside
    return float(node.name) if isinstance(node, exp.Literal) and not node.is_string else None


def _beside(column: Column, kind: type[exp.Expr], number: float) -> tuple[Sequence[str], list[str]]:
    """All bins, and those on the asked side of the number."""
    edges = column.bins or ()
    labels, pairs = bin_labels(edges), list(pairwise(edges))
    upwards = kind in (exp.GT, exp.GTE)
    # the last bin includes its upper edge; all others begin with their lower one
    cut = math.nextafter(number, math.inf) if kind in (exp.GT, exp.LTE) else number
    above = [low >= cut for low, _ in pairs]
    below = [
        high <= cut if place < len(pairs) - 1 else high < cut
        for place, (_, high) in enumerate(pairs)
    ]
    if not all(up != down for up, down in zip(above, below, strict=True)):
        raise QueryError(
            f"Column {column.name!r} is published in bins, and {edge_text(number)} would cut one "
            "in two. Ask >= or < at one of the edges "
            f"{list_some([edge_text(edge) for edge in edges if math.isfinite(edge)])}, or name "
            f"bins: {list_some([repr(label) for label in labels], 6)}."
        )
    chosen = above if upwards else below
    return labels, [label for label, taken in zip(labels, chosen, strict=True) if taken]


def check_recoded(column: Column, literal: exp.Literal) -> None:
    """Refuse a number that a recoded column cannot hold: nobody would seem to have it."""
    if not column.recode or literal.is_string:
        return
    domain, number = column.domain, float(literal.name)
    ends: list[int | float | None] = []
    if isinstance(domain, Range):
        ends = [domain.low, domain.high]
    elif isinstance(domain, Values):
        numbers = [value for value in domain.values if isinstance(value, int | float)]
        ends = [min(numbers), max(numbers)] if numbers else []
    low, high = ends or [None, None]
    if low is None or high is None or low <= number <= high:
        return
    raise QueryError(
        f"Column {column.name!r} was recoded ({column.recode}) and holds numbers from {low} to "
        f"{high}: what lay beyond cannot be told apart any more. Ask within them."
    )


def in_order(keys: Sequence[Term], columns: Mapping[str, Column]) -> dict[int, tuple[str, ...]]:
    """The keys that are binned columns, by place, and their bins in the order of the numbers."""
    found = {}
    for place, key in enumerate(keys):
        column = _binned(key.tree, columns)
        if column is not None:
            found[place] = bin_labels(column.bins or ())
    return found


def ranked(tree: Node, bins: Mapping[int, tuple[str, ...]]) -> Node:
    """What an answer is sorted by: a binned key counts by its place among the bins."""
    if isinstance(tree, exp.Column) and tree.table == ANSWER:
        for place, labels in bins.items():
            if tree.name == f"k{place}":
                listed = exp.Array(expressions=[exp.Literal.string(label) for label in labels])
                return exp.func("list_position", listed, tree)
    return tree
