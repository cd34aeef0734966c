"""Numbers that are published together, as one text: bins, `[18, 65)`, and values that were merged,
`17..19`.

A comparison with a number means the texts whose numbers all satisfy it. One that only some of a
text's numbers satisfy cannot be answered.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

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


class Lumps:
    """The texts of one column, in the order of their numbers.

    >>> ages = Lumps("age", {"30..39": [30, 35, 39], "20": [20]})
    >>> ages.labels, ages.satisfying(exp.GTE, 30), ages.satisfying(exp.LT, 40)
    (('20', '30..39'), ['30..39'], ['20', '30..39'])
    """

    def __init__(
        self, name: str, numbers: Mapping[str, Sequence[float]], *, equals: bool = True
    ) -> None:
        """`numbers` are what a text stands for, or the ends of it, where it equals no number."""
        self._name, self._equals = name, equals
        known = {label: sorted(map(float, values)) for label, values in numbers.items()}
        self._numbers = dict(sorted(known.items(), key=lambda item: item[1][:1] or [math.inf]))
        self.labels = tuple(self._numbers)

    @classmethod
    def of_bins(cls, column: Column) -> Lumps:
        """The last bin includes its upper edge."""
        edges = column.bins or ()
        last = [*(math.nextafter(edge, -math.inf) for edge in edges[1:-1]), edges[-1]]
        ends = zip(edges, last, strict=False)
        return cls(
            column.name, dict(zip(bin_labels(edges), map(list, ends), strict=True)), equals=False
        )

    def compares(self, kind: type[exp.Expr]) -> bool:
        return kind in _TESTS and (self._equals or kind not in (exp.EQ, exp.NEQ))

    def satisfying(self, kind: type[exp.Expr], number: float) -> list[str]:
        """The texts on the asked side of a number; `QueryError` where it cuts one in two."""
        chosen = []
        for label, numbers in self._numbers.items():
            outcomes = {_TESTS[kind](value, number) for value in numbers}
            if len(outcomes) > 1:
                raise QueryError(
                    f"Column {self._name!r} is published in texts of several numbers, and "
                    f"{edge_text(number)} would cut {label!r} in two. {self._advice()}"
                )
            chosen += [label] if outcomes == {True} else []
        return chosen

    def _advice(self) -> str:
        spans = [(numbers[0], numbers[-1]) for numbers in self._numbers.values() if numbers]
        edges = [
            edge_text(low)
            for low, _ in spans
            if math.isfinite(low) and not any(one < low <= last for one, last in spans)
        ]
        named = f"name what is published: {list_some([repr(e) for e in self.labels], 6)}."
        if len(edges) > 1:
            return f"Ask >= or < at one of {list_some(edges)}, or {named}"
        return f"No number parts what is published: {named}"


def lumps_of(columns: Sequence[Column], merges: Mapping[str, Sequence[Merged]]) -> dict[str, Lumps]:
    """The columns that are published in texts of several numbers, by name."""
    lumps = {column.name: Lumps.of_bins(column) for column in columns if column.bins is not None}
    for name, merged in merges.items():
        values = {part.label: [v for v in part.values if v is not None] for part in merged}
        every = [value for part in values.values() for value in part]
        if every and all(isinstance(v, int | float) and not isinstance(v, bool) for v in every):
            lumps[name] = Lumps(name, values)
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
            return listed(unwrap(node.this), exp.EQ, node.expressions) or node
        if type(node) not in _TESTS:
            return node
        kind: type[exp.Expr] = type(node)
        left, right = unwrap(node.this), unwrap(node.expression)
        if _lumped(left, lumps) is None:
            left, right, kind = right, left, _MIRRORED.get(kind, kind)
        return listed(left, kind, [right]) or node

    def listed(asked: Node, kind: type[exp.Expr], literals: Sequence[Node]) -> Node | None:
        """The texts that satisfy the comparison with any of the numbers."""
        shown, numbers = _lumped(asked, lumps), [_number(literal) for literal in literals]
        if shown is None or not shown.compares(kind) or None in numbers:
            return None
        chosen = [
            label for n in numbers if n is not None for label in shown.satisfying(kind, n)
        ] or None
        texts = [exp.Literal.string(label) for label in dict.fromkeys(chosen or shown.labels)]
        among = exp.In(this=asked.copy(), expressions=texts)
        return among if chosen else exp.Not(this=among)

    return tree.transform(change)


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


def in_order(keys: Iterable[Term], lumps: Mapping[str, Lumps]) -> dict[int, tuple[str, ...]]:
    """The keys that are published in texts, by place, and these in the order of the numbers."""
    shown = {index: _lumped(key.tree, lumps) for index, key in enumerate(keys)}
    return {index: lumped.labels for index, lumped in shown.items() if lumped is not None}


def placed(tree: Node, labels: Sequence[str]) -> Node:
    """The place of a text among these: what rows are sorted by."""
    listed = exp.Array(expressions=[exp.Literal.string(label) for label in labels])
    return exp.func("list_position", listed, tree)


def ranked(tree: Node, bins: Mapping[int, tuple[str, ...]]) -> Node:
    """What an answer is sorted by: a binned key counts by its place among the bins."""
    names = {f"k{index}": labels for index, labels in bins.items()}
    key = isinstance(tree, exp.Column) and tree.table == ANSWER and tree.name in names
    return placed(tree, names[tree.name]) if key else tree
