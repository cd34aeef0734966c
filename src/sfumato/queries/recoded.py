"""Numbers that are published together, as one text: bins, `[18, 65)`, and values that were merged,
`17..19`.

A comparison with a number means the texts whose numbers all satisfy it. One that only some of a
text's numbers satisfy cannot be answered.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from sqlglot import exp

from sfumato.columns import Column, Range, Values, bin_labels, edge_text, list_some
from sfumato.errors import QueryError
from sfumato.queries.dialect import Node, unwrap
from sfumato.queries.question import ANSWER, Term
from sfumato.release.manifest import Merged

_TESTS: dict[type[exp.Expr], Callable[[float, float], bool]] = {
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
}


class Lumps(ABC):
    """The texts of one column, in the order of their numbers."""

    labels: tuple[str, ...]
    compares: tuple[type[exp.Expr], ...]  # by what it can be compared with a number

    @abstractmethod
    def satisfying(self, kind: type[exp.Expr], number: float) -> list[str]:
        """The texts on the asked side of a number; `QueryError` where it cuts one in two."""


class BinnedColumn(Lumps):
    """A binned column: `[18, 65)`."""

    compares = (exp.GT, exp.GTE, exp.LT, exp.LTE)

    def __init__(self, column: Column) -> None:
        self._name, self._edges = column.name, column.bins or ()
        self.labels = bin_labels(self._edges)

    def satisfying(self, kind: type[exp.Expr], number: float) -> list[str]:
        pairs = list(pairwise(self._edges))
        # the last bin includes its upper edge; all others begin with their lower one
        cut = math.nextafter(number, math.inf) if kind in (exp.GT, exp.LTE) else number
        above = [low >= cut for low, _ in pairs]
        below = [
            high <= cut if index < len(pairs) - 1 else high < cut
            for index, (_, high) in enumerate(pairs)
        ]
        if not all(up != down for up, down in zip(above, below, strict=True)):
            raise QueryError(
                f"Column {self._name!r} is published in bins, and {edge_text(number)} would cut "
                "one in two. Ask >= or < at one of the edges "
                f"{list_some([edge_text(edge) for edge in self._edges if math.isfinite(edge)])}, "
                f"or name bins: {list_some([repr(label) for label in self.labels], 6)}."
            )
        chosen = above if kind in (exp.GT, exp.GTE) else below
        return [label for label, taken in zip(self.labels, chosen, strict=True) if taken]


class MergedNumbers(Lumps):
    """A column of numbers some of which are published as one, `17..19` or `a, b`.

    >>> ages = MergedNumbers("age", [Merged("30..39", (30, 35, 39)), Merged("20", (20,))])
    >>> ages.labels, ages.satisfying(exp.GTE, 30), ages.satisfying(exp.LT, 40)
    (('20', '30..39'), ['30..39'], ['20', '30..39'])
    """

    compares = tuple(_TESTS)

    def __init__(self, name: str, merged: Sequence[Merged]) -> None:
        self._name = name
        numbers = {
            lump.label: sorted(float(v) for v in lump.values if isinstance(v, int | float))
            for lump in merged
        }
        self._numbers = dict(sorted(numbers.items(), key=lambda item: item[1][:1] or [math.inf]))
        self.labels = tuple(self._numbers)

    def satisfying(self, kind: type[exp.Expr], number: float) -> list[str]:
        chosen = []
        for label, numbers in self._numbers.items():
            outcomes = {_TESTS[kind](value, number) for value in numbers}
            if len(outcomes) > 1:
                raise QueryError(
                    f"Values of column {self._name!r} were merged, and {edge_text(number)} would "
                    f"cut {label!r} in two. {self._advice()}"
                )
            chosen += [label] if outcomes == {True} else []
        return chosen

    def _advice(self) -> str:
        spans = [(numbers[0], numbers[-1]) for numbers in self._numbers.values() if numbers]
        edges = [
            edge_text(low) for low, _ in spans if not any(one < low <= last for one, last in spans)
        ]
        named = f"name what is published: {list_some([repr(e) for e in self.labels], 6)}."
        if len(edges) > 1:
            return f"Ask >= or < at one of {list_some(edges)}, or {named}"
        return f"No number parts what is published: {named}"


def lumps_of(columns: Sequence[Column], merges: Mapping[str, Sequence[Merged]]) -> dict[str, Lumps]:
    """The columns that are published in texts of several numbers, by name."""
    lumps: dict[str, Lumps] = {
        column.name: BinnedColumn(column) for column in columns if column.bins is not None
    }
    for name, merged in merges.items():
        values = [value for lump in merged for value in lump.values if value is not None]
        if values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            lumps[name] = MergedNumbers(name, merged)
    return lumps


_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}


def as_lumps(tree: Node, lumps: Mapping[str, Lumps]) -> Node:
    """Comparisons with numbers of columns that are published in texts, as lists of texts.

    >>> from sfumato.queries.recoded import lumps_of
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
        asked, numbers = unwrap(node.this), [_number(expression) for expression in node.expressions]
        shown = _lumped(asked, lumps)
        if shown is None or exp.EQ not in shown.compares or None in numbers:
            return node
        chosen = [shown.satisfying(exp.EQ, number) for number in numbers if number is not None]
        return _listed(
            asked, shown, list(dict.fromkeys(label for lump in chosen for label in lump))
        )

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
    ranks = {}
    for index, key in enumerate(keys):
        shown = _lumped(key.tree, lumps)
        if shown is not None:
            ranks[index] = shown.labels
    return ranks


def ranked(tree: Node, bins: Mapping[int, tuple[str, ...]]) -> Node:
    """What an answer is sorted by: a binned key counts by its place among the bins."""
    if isinstance(tree, exp.Column) and tree.table == ANSWER:
        for index, labels in bins.items():
            if tree.name == f"k{index}":
                listed = exp.Array(expressions=[exp.Literal.string(label) for label in labels])
                return exp.func("list_position", listed, tree)
    return tree
