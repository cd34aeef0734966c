"""Aggregates: one class each, registered by being written.

An aggregate names the linear statistics T_j that it needs and is a function f(T) of them, with its
gradient. The evaluator estimates T with its covariance, so that the error bar of f follows by the
delta method, whatever the kind of release.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from sqlglot import exp

from sfumato.draws import BoolArray
from sfumato.operators.base import FloatArray
from sfumato.queries.dialect import AGGREGATES, Node
from sfumato.queries.question import Term


@dataclass(frozen=True, eq=False)
class LinearSum:
    """Σ of the product of `factors` over the records that satisfy `filter` and know `known`."""

    factors: tuple[Term, ...]
    known: tuple[Term, ...]
    filter: tuple[Term, ...]

    def terms(self) -> Iterator[Term]:
        yield from self.factors
        yield from self.known
        yield from self.filter


@dataclass(frozen=True, eq=False)
class Aggregate(ABC):
    """An aggregate of `argument` over the records that satisfy every term of `filter`.

    `argument` is None for `COUNT(*)`.
    """

    argument: Term | None
    filter: tuple[Term, ...]

    name: ClassVar[str]
    usage: ClassVar[tuple[str, ...]]  # as the dialect's list shows it
    takes_star: ClassVar[bool] = False
    needs_number: ClassVar[bool] = True
    of_nobody: ClassVar[float | None] = None  # over an empty group that `keys` shows

    def __init_subclass__(cls, node: type[Node] | None = None) -> None:
        super().__init_subclass__()
        if node is not None:
            AGGREGATES[node] = cls

    @cached_property
    def text(self) -> str:
        inside = self.argument.text if self.argument else "*"
        condition = " AND ".join(f"({term.text})" for term in self.filter)
        return f"{self.name}({inside})" + (f" FILTER ({condition})" if condition else "")

    def terms(self) -> Iterator[Term]:
        if self.argument is not None:
            yield self.argument
        yield from self.filter

    def _sum_of(self, *factors: Term) -> LinearSum:
        known = () if self.argument is None else (self.argument,)
        return LinearSum(factors, known, self.filter)

    @abstractmethod
    def sums(self) -> tuple[LinearSum, ...]:
        """The statistics T that it is a function of."""

    @abstractmethod
    def value(self, totals: FloatArray) -> FloatArray:
        """f(T) by row; `totals` is by (statistic, row)."""

    @abstractmethod
    def gradient(self, totals: FloatArray) -> Sequence[FloatArray | float]:
        """∂f/∂T_j by row."""

    def known(self, totals: FloatArray, present: BoolArray) -> BoolArray:
        """By row: whether SQL has a value and not NULL; `present` where a record could add."""
        return present


class Count(Aggregate, node=exp.Count):
    name = "count"
    usage = ("COUNT(*)", "COUNT(x)")
    takes_star = True
    needs_number = False
    of_nobody = 0.0

    def sums(self) -> tuple[LinearSum, ...]:
        return (self._sum_of(),)

    def value(self, totals: FloatArray) -> FloatArray:
        return np.asarray(totals[0])

    def gradient(self, totals: FloatArray) -> Sequence[FloatArray | float]:
        return (1.0,)

    def known(self, totals: FloatArray, present: BoolArray) -> BoolArray:
        return np.ones(totals.shape[1], np.bool_)


class Sum(Aggregate, node=exp.Sum):
    name = "sum"
    usage = ("SUM(x)",)
    of_nobody = 0.0

    def sums(self) -> tuple[LinearSum, ...]:
        assert self.argument is not None
        return (self._sum_of(self.argument),)

    def value(self, totals: FloatArray) -> FloatArray:
        return np.asarray(totals[0])

    def gradient(self, totals: FloatArray) -> Sequence[FloatArray | float]:
        return (1.0,)


class Average(Aggregate, node=exp.Avg):
    """R = N / D with Var R ≈ Var(N − R·D) / D²."""

    name = "avg"
    usage = ("AVG(x)",)

    def sums(self) -> tuple[LinearSum, ...]:
        assert self.argument is not None
        return self._sum_of(self.argument), self._sum_of()

    def value(self, totals: FloatArray) -> FloatArray:
        return np.asarray(totals[0] / totals[1])

    def gradient(self, totals: FloatArray) -> Sequence[FloatArray | float]:
        return 1 / totals[1], -totals[0] / totals[1] ** 2

    def known(self, totals: FloatArray, present: BoolArray) -> BoolArray:
        return np.asarray(present & (totals[1] != 0), np.bool_)
