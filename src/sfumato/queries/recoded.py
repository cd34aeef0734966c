"""Questions to recoded columns: ranges at the edges of bins, and the order of bins.

A binned column is published as texts, `[18, 65)`, and so are numbers that were merged, `17..19`. A
comparison with a number means the texts on that side of it, where it does not cut one in two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sfumato.columns import Column, Range, Values
from sfumato.errors import QueryError
from sfumato.queries.dialect import Node, unwrap
from sfumato.queries.lumps import Lumps
from sfumato.queries.question import ANSWER, Term

_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}


def as_lumps(tree: Node, lumps: Mapping[str, Lumps]) -> Node:
    """Comparisons with numbers of columns that are published in texts, as lists of texts.

    >>> from sfumato.queries.lumps import lumps_of
    >>> age = Column("age", "quasi", "categorical", "string", None, (0.0, 18.0, 65.0, 120.0))
    >>> tree = exp.column("age", quoted=True) >= exp.Literal.number(18)
    >>> print(as_lumps(tree, lumps_of([age], {})).sql())
    "age" IN ('[18, 65)', '[65, 120]')
    """

    def change(node: Node) -> Node:
        if isinstance(node, exp.Between):
            asked, low, high = unwrap(node.this), node.args["low"], node.args["high"]
            if _lumped(asked, lumps) is None or None in (_number(low), _number(high)):
                return node
            if node.args.get("symmetric") and (_number(low) or 0.0) > (_number(high) or 0.0):
                low, high = high, low
            ends = (
                exp.GTE(this=asked, expression=low),
                exp.LTE(this=asked.copy(), expression=high),
            )
            return exp.paren(exp.and_(*map(change, ends), copy=False), copy=False)
        if isinstance(node, exp.In) and node.expressions:
            return _any_of(node)
        if not isinstance(node, (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ)):
            return node
        kind: type[exp.Expr] = type(node)
        left, right = unwrap(node.left), unwrap(node.right)
        if _lumped(left, lumps) is None:
            left, right, kind = right, left, _MIRRORED.get(kind, kind)
        shown, number = _lumped(left, lumps), _number(right)
        if shown is None or number is None or kind not in shown.compares:
            return node
        return _listed(left, shown, shown.satisfying(kind, number))

    def _any_of(node: exp.In) -> Node:
        asked, numbers = unwrap(node.this), [_number(each) for each in node.expressions]
        shown = _lumped(asked, lumps)
        if shown is None or exp.EQ not in shown.compares or None in numbers:
            return node
        chosen = [shown.satisfying(exp.EQ, number) for number in numbers if number is not None]
        return _listed(asked, shown, list(dict.fromkeys(label for own in chosen for label in own)))

    return tree.transform(change)


def _listed(asked: Node, shown: Lumps, chosen: Sequence[str]) -> Node:
    texts: list[Node] = [exp.Literal.string(label) for label in chosen or shown.labels]
    listed = exp.In(this=asked.copy(), expressions=texts)
    return listed if chosen else exp.Not(this=listed)


def _lumped(node: Node, lumps: Mapping[str, Lumps]) -> Lumps | None:
    return lumps.get(node.name) if isinstance(node, exp.Column) else None


def _number(node: Node) -> float | None:
    node = unwrap(node)
    if isinstance(node, exp.Neg):
        inside = _number(node.this)
        return None if inside is None else -inside
    return float(node.name) if isinstance(node, exp.Literal) and not node.is_string else None


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


def in_order(keys: Sequence[Term], lumps: Mapping[str, Lumps]) -> dict[int, tuple[str, ...]]:
    """The keys that are published in texts, by place, and these in the order of the numbers."""
    found = {}
    for place, key in enumerate(keys):
        shown = _lumped(key.tree, lumps)
        if shown is not None:
            found[place] = shown.labels
    return found


def ranked(tree: Node, bins: Mapping[int, tuple[str, ...]]) -> Node:
    """What an answer is sorted by: a binned key counts by its place among the bins."""
    if isinstance(tree, exp.Column) and tree.table == ANSWER:
        for place, labels in bins.items():
            if tree.name == f"k{place}":
                listed = exp.Array(expressions=[exp.Literal.string(label) for label in labels])
                return exp.func("list_position", listed, tree)
    return tree
