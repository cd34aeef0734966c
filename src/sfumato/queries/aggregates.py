"""Aggregates: a row of data each.

A rule names the linear statistics T_j that an aggregate needs and a function f(T) of them, written
over arrays. The evaluator estimates T with its covariance, so that the error bar of f follows by
the delta method, or from all T that are likely where f bends, whatever the kind of release. What
needs the order of values is no function of sums: see `ordered`.
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

_NO_SPREAD = 1e-9  # of the sum of squares
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
    takes: int = 1  # arguments
    takes_star: bool = False
    needs_number: bool = True
    of_nobody: float | None = None  # over an empty group that `keys` shows
    always: bool = False  # whether it is a number even where no record is
    least: float | None = None  # it is of more records than this, and bends
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

    def known(self, totals: FloatArray, present: BoolArray) -> BoolArray:
        """By row: whether there is a record that it is of, and for a spread more than one."""
        if self.rule.always:
            return np.ones(totals.shape[1], np.bool_)
        return present if self.rule.least is None else present & (totals[0] > self.rule.least)


@dataclass(frozen=True, eq=False)
class Aggregate:
    """A function of linear statistics: what `compute` makes of calls, or the one call itself."""

    text: str
    calls: tuple[Call, ...]
    compute: Compute | None = None
    is_quotient: bool = False  # of one sum by another

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

    @property
    def bends(self) -> bool:
        """Whether its interval is as far as it goes where its sums may be: no tangent is near."""
        return any(call.rule.least is not None for call in self.calls)

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
        parts = [call.known(totals[slots], present) for call, slots in self.places()]
        if self.rule is None or self.bends or self.is_quotient:
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


def _moments(call: Call) -> tuple[LinearSum, ...]:
    """n, the sums of the arguments, and the sums of their squares and products."""
    first = [call.sum_of(), *(call.sum_of(x) for x in call.arguments)]
    places = range(len(call.arguments))
    pairs = [(call.arguments[i], call.arguments[j]) for i in places for j in places if i <= j]
    return (*first, *(call.sum_of(*pair) for pair in pairs))


def _none(call: Call) -> NoReturn:
    raise QueryError(
        f"{call.rule.name.upper()} cannot take part in arithmetic with an error bar. Select it as "
        "a column of its own."
    )


# -- functions of them -----------------------------------------------------------------------------


def shown_as(shown: FloatArray, number: Numbers) -> Numbers:
    """Another value for a number; its slopes stay, as if that were the number."""
    return shown + 1j * number.imag if np.iscomplexobj(number) else shown


def power(number: Numbers, exponent: float) -> Numbers:
    """Its slope where the number is 0 is not a number, or has no end: a step would hide that."""
    value = number.real**exponent
    if not np.iscomplexobj(number):
        return np.asarray(value)
    return np.asarray(value + 1j * exponent * number.real ** (exponent - 1) * number.imag)


def _scatter(number: Numbers, first: Numbers, second: Numbers, both: Numbers) -> Numbers:
    """Σ (x − mean x)·(y − mean y) from n, Σx, Σy and Σxy."""
    return both - first * second / number


def _variance(least: float) -> Callable[..., Numbers]:
    """Never below 0 when it is shown."""

    def variance(n: Numbers, x: Numbers, xx: Numbers) -> Numbers:
        spread = _scatter(n, x, x, xx) / (n - least)
        return shown_as(np.maximum(spread.real, 0.0), spread)

    return variance


def _deviation(least: float) -> Callable[..., Numbers]:
    return lambda n, x, xx: power(_variance(least)(n, x, xx), 0.5)


def _covariance(least: float) -> Callable[..., Numbers]:
    return lambda n, y, x, yy, yx, xx: _scatter(n, y, x, yx) / (n - least)


def _varying(n: Numbers, first: Numbers, second: Numbers) -> Numbers:
    """The scatter of one argument; not a number where it is the same for everybody: what is left
    is a rounding then."""
    scatter = _scatter(n, first, first, second)
    varies = scatter.real > _NO_SPREAD * second.real
    return shown_as(np.where(varies, scatter.real, np.nan), scatter)


def _correlation(
    n: Numbers, y: Numbers, x: Numbers, yy: Numbers, yx: Numbers, xx: Numbers
) -> Numbers:
    root = power(_varying(n, y, yy) * _varying(n, x, xx), 0.5)
    correlation = _scatter(n, y, x, yx) / root
    return shown_as(np.clip(correlation.real, -1.0, 1.0), correlation)


def _determination(
    n: Numbers, y: Numbers, x: Numbers, yy: Numbers, yx: Numbers, xx: Numbers
) -> Numbers:
    """r²; as in SQL 1 where y is the same for everybody, since the line goes through all."""
    r_squared = power(_correlation(n, y, x, yy, yx, xx), 2.0)
    flat = np.isnan(_varying(n, y, yy).real) & np.isfinite(_varying(n, x, xx).real)
    return shown_as(np.where(flat, 1.0, r_squared.real), r_squared)


def _slope(n: Numbers, y: Numbers, x: Numbers, yy: Numbers, yx: Numbers, xx: Numbers) -> Numbers:
    """Of the line y = intercept + slope·x that is nearest in squares."""
    return _scatter(n, y, x, yx) / _varying(n, x, xx)


def _intercept(
    n: Numbers, y: Numbers, x: Numbers, yy: Numbers, yx: Numbers, xx: Numbers
) -> Numbers:
    return y / n - _slope(n, y, x, yy, yx, xx) * (x / n)


# -- the rows --------------------------------------------------------------------------------------

COUNT = Rule(
    "count",
    ("COUNT(*)", "COUNT(x)"),
    _number,
    takes_star=True,
    needs_number=False,
    of_nobody=0.0,
    always=True,
)
SUM = Rule("sum", ("SUM(x)",), _total, of_nobody=0.0)
TOTAL = replace(SUM, name="total", always=True)  # a sum with ELSE 0
DIFFERENT = Rule(
    "count_distinct", ("COUNT(DISTINCT x)",), _none, needs_number=False, order="different"
)


def _spread(name: str, combine: Callable[..., Numbers], least: float = 0.0, *usage: str) -> Rule:
    call_text = f"{name.upper()}(x)"
    return Rule(name, (*usage, call_text), _moments, combine, least=least)


def _together(name: str, combine: Callable[..., Numbers], least: float = 0.0) -> Rule:
    call_text = f"{name.upper()}(y, x)"
    return Rule(name, (call_text,), _moments, combine, takes=2, least=least)


_SAMPLE_DEVIATION = _spread("stddev_samp", _deviation(1.0), 1.0, "STDDEV(x)")
AGGREGATES.update(
    {
        exp.Count: COUNT,
        exp.Sum: SUM,
        exp.Avg: Rule(
            "avg", ("AVG(x)",), _total_and_number, lambda total, n: total / n, ratio=True
        ),
        exp.VariancePop: _spread("var_pop", _variance(0.0)),
        exp.Variance: _spread("var_samp", _variance(1.0), 1.0, "VARIANCE(x)"),
        exp.StddevPop: _spread("stddev_pop", _deviation(0.0)),
        exp.Stddev: _SAMPLE_DEVIATION,
        exp.StddevSamp: _SAMPLE_DEVIATION,
        exp.CovarPop: _together("covar_pop", _covariance(0.0)),
        exp.CovarSamp: _together("covar_samp", _covariance(1.0), 1.0),
        exp.Corr: _together("corr", _correlation),
        exp.RegrR2: _together("regr_r2", _determination),
        exp.RegrSlope: _together("regr_slope", _slope),
        exp.RegrIntercept: _together("regr_intercept", _intercept),
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
