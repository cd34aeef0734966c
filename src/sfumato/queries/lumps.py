"""Numbers that are published together, as one text: bins, and values that were merged.

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

from sfumato.columns import Column, bin_labels, edge_text, list_some
from sfumato.errors import QueryError
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


class Bins(Lumps):
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
            high <= cut if place < len(pairs) - 1 else high < cut
            for place, (_, high) in enumerate(pairs)
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
            each.label: sorted(float(v) for v in each.values if isinstance(v, int | float))
            for each in merged
        }
        self._numbers = dict(sorted(numbers.items(), key=lambda item: item[1][:1] or [math.inf]))
        self.labels = tuple(self._numbers)

    def satisfying(self, kind: type[exp.Expr], number: float) -> list[str]:
        chosen = []
        for label, numbers in self._numbers.items():
            found = {_TESTS[kind](each, number) for each in numbers}
            if len(found) > 1:
                raise QueryError(
                    f"Values of column {self._name!r} were merged, and {edge_text(number)} would "
                    f"cut {label!r} in two. {self._advice()}"
                )
            chosen += [label] if found == {True} else []
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
    found: dict[str, Lumps] = {each.name: Bins(each) for each in columns if each.bins is not None}
    for name, merged in merges.items():
        values = [value for each in merged for value in each.values if value is not None]
        if values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            found[name] = MergedNumbers(name, merged)
    return found
