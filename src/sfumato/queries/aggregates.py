"""Aggregates: one class each, registered by being written.

An aggregate names the linear statistics T_j that it needs and is a function f(T) of them, written
over `Dual`s, which carry the gradient. The evaluator estimates T with its covariance, so that the
error bar of f follows by the delta method, whatever the kind of release.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from sqlglot import exp

from sfumato.draws import BoolArray
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Totals
from sfumato.queries.dialect import AGGREGATES, Node, PeopleCount
from sfumato.queries.duals import Dual
from sfumato.queries.question import Term


@dataclass(frozen=True, eq=False)
class LinearSum:
    """Σ of the product of `factors` over the records that satisfy `filter` and know `known`.

    A record for which one of `adding` is not known adds nothing, by what the question says.
    """

    factors: tuple[Term, ...]
    known: tuple[Term, ...]
    filter: tuple[Term, ...]
    adding: tuple[Term, ...] = ()

    def terms(self) -> Iterator[Term]:
        yield from self.factors
        yield from self.known
        yield from self.filter


class Aggregate(ABC):
    """A function of linear statistics.

    `combine` gives it on the scale on which its error is nearly normal, and `read` takes it from
    there to what is shown: an interval is made on the first and read off on the second.
    """

    name: ClassVar[str]
    of_nobody: ClassVar[float | None] = None  # over an empty group that `keys` shows
    bends: bool = False  # whether its interval is simulated: a tangent is too far from it
    counts_people: ClassVar[bool] = False
    text: str

    @abstractmethod
    def terms(self) -> Iterator[Term]:
        """Every scalar expression inside."""

    @abstractmethod
    def sums(self) -> tuple[LinearSum, ...]:
        """The statistics T that it is a function of."""

    @abstractmethod
    def combine(self, *totals: Dual) -> Dual:
        """f(T) by row."""

    def interval(
        self,
        totals: Totals,
        value: FloatArray,
        stderr: FloatArray,
        quantile: float,
        gradient: Sequence[FloatArray],
    ) -> tuple[FloatArray, FloatArray]:
        """The ends of an interval around f(T), on the scale of `combine`."""
        return totals.interval(value, stderr, quantile, gradient)

    def read(self, found: Dual) -> Dual:
        """From the scale of `combine` to that of the answer, increasing."""
        return found

    def ends(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The ends of an interval, read."""
        return self.read(Dual(low)).value, self.read(Dual(high)).value

    def below(self) -> tuple[int, ...]:
        """Places of counts without which it has no value."""
        return ()

    def known(self, totals: FloatArray, present: BoolArray) -> BoolArray:
        """By row: whether SQL has a value and not NULL; `present` where a record could add."""
        return present

    @property
    def title(self) -> str:
        """What the answer calls it, where the analyst does not."""
        return self.name

    @abstractmethod
    def calls(self) -> Iterator[Call]:
        """The aggregates of SQL that it consists of."""


@dataclass(frozen=True, eq=False)
class Call(Aggregate):
    """An aggregate of `arguments` over the records that satisfy every term of `filter`.

    There are no arguments in `COUNT(*)`.
    """

    arguments: tuple[Term, ...]
    filter: tuple[Term, ...]

    usage: ClassVar[tuple[str, ...]]  # as the dialect's list shows it
    takes: ClassVar[int] = 1  # arguments
    takes_star: ClassVar[bool] = False
    needs_number: ClassVar[bool] = True

    def __init_subclass__(cls, node: type[Node] | Sequence[type[Node]] = ()) -> None:
        super().__init_subclass__()
        for each in node if isinstance(node, Sequence) else [node]:
            AGGREGATES[each] = cls

    @cached_property
    def text(self) -> str:  # type: ignore[override]
        inside = ", ".join(term.text for term in self.arguments) or "*"
        condition = " AND ".join(f"({term.text})" for term in self.filter)
        return f"{self.name}({inside})" + (f" FILTER ({condition})" if condition else "")

    @property
    def title(self) -> str:
        columns = [term.column for term in self.arguments]
        return "_".join([self.name, *map(str, columns)]) if all(columns) else self.name

    def calls(self) -> Iterator[Call]:
        yield self

    def terms(self) -> Iterator[Term]:
        yield from self.arguments
        yield from self.filter

    def sum_of(self, *factors: Term) -> LinearSum:
        """Σ of the product of the factors; 1 for none."""
        return LinearSum(factors, self.arguments, self.filter)

    def powers(self) -> tuple[LinearSum, ...]:
        """n, the sums of the arguments, and the sums of their squares and products."""
        first = [self.sum_of(), *(self.sum_of(x) for x in self.arguments)]
        places = range(len(self.arguments))
        pairs = [(self.arguments[i], self.arguments[j]) for i in places for j in places if i <= j]
        return (*first, *(self.sum_of(*pair) for pair in pairs))


class Count(Call, node=exp.Count):
    name = "count"
    usage: ClassVar[tuple[str, ...]] = ("COUNT(*)", "COUNT(x)")
    takes_star = True
    needs_number = False
    of_nobody = 0.0

    def sums(self) -> tuple[LinearSum, ...]:
        return (self.sum_of(),)

    def combine(self, *totals: Dual) -> Dual:
        return totals[0]

    def known(self, totals: FloatArray, present: BoolArray) -> BoolArray:
        return np.ones(totals.shape[1], np.bool_)


class CountPeople(Count, node=PeopleCount):
    """Of releases with one row a person, where it is `COUNT(*)`; others refuse it (`people`)."""

    name = "count_people"
    usage = ("COUNT_PEOPLE(*)",)
    takes = 0
    counts_people = True


class Sum(Call, node=exp.Sum):
    name = "sum"
    usage = ("SUM(x)",)
    of_nobody = 0.0

    def sums(self) -> tuple[LinearSum, ...]:
        adding = tuple(_without_zero(term) for term in self.arguments)
        return (replace(self.sum_of(*self.arguments), adding=adding),)

    def combine(self, *totals: Dual) -> Dual:
        return totals[0]


def _without_zero(term: Term) -> Term:
    """The expression without a written `ELSE 0`: NULL where only that 0 would be added.

    A 0 that is a value, such as the age of a baby, stays.
    """
    tree = term.tree.copy().unnest()
    for kind, otherwise in ((exp.Case, "default"), (exp.If, "false")):
        if isinstance(tree, kind) and _is_zero(tree.args.get(otherwise)):
            tree.set(otherwise, None)
            return replace(term, tree=tree)
    return term


def _is_zero(node: Node | None) -> bool:
    return isinstance(node, exp.Literal) and node.is_number and float(node.this) == 0


class Average(Call, node=exp.Avg):
    """R = N / D with Var R ≈ Var(N − R·D) / D²."""

    name = "avg"
    usage = ("AVG(x)",)

    def sums(self) -> tuple[LinearSum, ...]:
        return self.sum_of(*self.arguments), self.sum_of()

    def combine(self, *totals: Dual) -> Dual:
        total, number = totals
        return total / number

    def interval(
        self,
        totals: Totals,
        value: FloatArray,
        stderr: FloatArray,
        quantile: float,
        gradient: Sequence[FloatArray],
    ) -> tuple[FloatArray, FloatArray]:
        return totals.ratio_interval(value, stderr, quantile, gradient)

    def known(self, totals: FloatArray, present: BoolArray) -> BoolArray:
        return np.asarray(present & (totals[1] != 0), np.bool_)
