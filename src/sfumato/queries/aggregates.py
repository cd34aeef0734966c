"""Aggregates: a row of data each.

A rule names the linear statistics T_j that an aggregate needs and a function f(T) of them, written
over arrays. The evaluator estimates T with its covariance, so that the error bar of f follows by
the delta method, whatever the kind of release. What needs the order of values is no function of
sums: see `ordered`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from sfumato.draws import BoolArray
from sfumato.errors import QueryError
from sfumato.operators.base import FloatArray
from sfumato.queries.dialect import AGGREGATES
from sfumato.queries.question import Term

_STEP = 1e-30
Numbers = npt.NDArray[Any]  # by row, real or with a complex step


@dataclass(frozen=True, eq=False)
class LinearSum:
    """Σ of the product of `factors` over the records that satisfy `filter` and know `known`."""

    factors: tuple[Term, ...]
    known: tuple[Term, ...]
    filter: tuple[Term, ...]


Compute = Callable[[Sequence[Numbers]], Numbers]  # from the values of several calls


@dataclass(frozen=True, eq=False)
class Rule:
    """What an aggregate of SQL is."""

    name: str
    usage: tuple[str, ...]  # as the dialect's list shows it
    needs: Callable[[Call], tuple[LinearSum, ...]]
    combine: Callable[..., Numbers] = lambda total: total
    takes_star: bool = False
    needs_number: bool = True
    always: bool = False  # whether it is a number even where no record is
    ratio: bool = False  # of one sum by another
    order: Literal["", "cont", "disc", "least", "most", "different"] = ""
    share: float | None = None  # of a quantile; None where it is said, as `QUANTILE_CONT(x, 0.9)`


@dataclass(frozen=True, eq=False)
class Call:
    """An aggregate of SQL, of `arguments` over the records that satisfy every term of `filter`.

    There are no arguments in `COUNT(*)`; `share` is the p of a quantile.
    """

    rule: Rule
    arguments: tuple[Term, ...] = ()
    filter: tuple[Term, ...] = ()
    share: float | None = None

    @cached_property
    def text(self) -> str:
        inside = ", ".join(term.text for term in self.arguments) or "*"
        arguments = inside if self.share is None else f"{inside}, {self.share!r}"
        condition = " AND ".join(f"({term.text})" for term in self.filter)
        return f"{self.rule.name}({arguments})" + (f" FILTER ({condition})" if condition else "")

    @cached_property
    def sums(self) -> tuple[LinearSum, ...]:
        return self.rule.needs(self)

    def sum_of(self, *factors: Term) -> LinearSum:
        """Σ of the product of the factors; 1 for none."""
        return LinearSum(factors, self.arguments, self.filter)


@dataclass(frozen=True, eq=False)
class Aggregate:
    """A function of linear statistics: what `compute` makes of calls, or the one call itself."""

    text: str
    calls: tuple[Call, ...]
    compute: Compute | None = None
    is_quotient: bool = False  # of one sum by another
    factor: float = 1.0  # of a quotient: its answer is so many times what `compute` makes

    @classmethod
    def of(cls, call: Call) -> Aggregate:
        return cls(call.text, (call,), None, call.rule.ratio)

    @cached_property
    def rule(self) -> Rule | None:
        """Of a call that stands alone."""
        return self.calls[0].rule if self.compute is None else None

    @property
    def counts(self) -> bool:
        """Whether it is a number of people."""
        return self.rule is not None and self.rule.name.startswith("count")

    @property
    def is_ordered(self) -> bool:
        """Whether it needs the order of values, and is no function of sums."""
        return self.rule is not None and bool(self.rule.order)

    @cached_property
    def sums(self) -> tuple[LinearSum, ...]:
        """The statistics T that it is a function of."""
        return tuple(chain.from_iterable(call.sums for call in self.calls))

    def places(self) -> Iterator[tuple[Call, slice]]:
        """Every call, and where its statistics stand."""
        start = 0
        for call in self.calls:
            yield call, slice(start, start + len(call.sums))
            start += len(call.sums)

    def combine(self, *totals: Numbers) -> Numbers:
        """f(T) by row; of complex numbers too: see `slopes`."""
        values = [call.rule.combine(*totals[slots]) for call, slots in self.places()]
        return values[0] if self.compute is None else self.compute(values)

    def slopes(self, totals: FloatArray) -> list[FloatArray]:
        """∂f/∂T by statistic, from complex steps: exact but for rounding (Squire and Trapp 1998).

        >>> Aggregate.of(Call(AGGREGATES[exp.Avg])).slopes(np.array([[6.0], [3.0]]))[1].round(3)
        array([-0.667])
        """
        steps = _STEP * 1j * np.eye(len(totals))[:, :, None]
        return [self.combine(*(totals + step)).imag / _STEP for step in steps]

    def known(self, totals: FloatArray, present: BoolArray) -> BoolArray:
        """By row: whether SQL has a value and not NULL; `present` where a record could add."""
        parts = [present | call.rule.always for call in self.calls]
        if self.rule is None or self.is_quotient:
            with np.errstate(all="ignore"):
                parts.append(np.isfinite(self.combine(*totals)))
        return np.asarray(np.all(parts, axis=0), np.bool_)

    def terms(self) -> Iterator[Term]:
        """Every scalar expression inside."""
        for call in self.calls:
            yield from (*call.arguments, *call.filter)


# -- which statistics ------------------------------------------------------------------------------


def _number(call: Call) -> tuple[LinearSum, ...]:
    return (call.sum_of(),)


def _total(call: Call) -> tuple[LinearSum, ...]:
    return (call.sum_of(*call.arguments),)


def _total_and_number(call: Call) -> tuple[LinearSum, ...]:
    return call.sum_of(*call.arguments), call.sum_of()


def _none(call: Call) -> NoReturn:
    raise QueryError(
        f"{call.rule.name.upper()} cannot take part in arithmetic with an error bar. Select it as "
        "a column of its own."
    )


# -- the rows --------------------------------------------------------------------------------------

COUNT = Rule(
    "count",
    ("COUNT(*)", "COUNT(x)"),
    _number,
    takes_star=True,
    needs_number=False,
    always=True,
)
SUM = Rule("sum", ("SUM(x)",), _total)
TOTAL = replace(SUM, name="total", always=True)  # a sum with ELSE 0
DIFFERENT = Rule(
    "count_distinct", ("COUNT(DISTINCT x)",), _none, needs_number=False, order="different"
)


AGGREGATES.update(
    {
        exp.Count: COUNT,
        exp.Sum: SUM,
        exp.Avg: Rule(
            "avg", ("AVG(x)",), _total_and_number, lambda total, n: total / n, ratio=True
        ),
        exp.Min: Rule("min", ("MIN(x)",), _none, order="least"),
        exp.Max: Rule("max", ("MAX(x)",), _none, order="most"),
        exp.PercentileCont: (
            quantile_cont := Rule("quantile_cont", ("QUANTILE_CONT(x, 0.9)",), _none, order="cont")
        ),
        exp.Quantile: quantile_cont,
        exp.PercentileDisc: Rule("quantile_disc", ("QUANTILE_DISC(x, 0.9)",), _none, order="disc"),
        exp.Median: Rule("median", ("MEDIAN(x)",), _none, order="cont", share=0.5),
    }
)
