"""Aggregates that need the order of values: quantiles, extremes, and how many values differ.

They are no functions of a few sums. Where no sensitive column takes part, the records are counted
by value and the answer is exact. Where one does, a quantile is found by turning the question round:
for every threshold t, D(t) = #(x ≤ t) − p·# is a difference of two counts with an error bar, and
the quantile is where D passes 0 (`passing`). One person decides a minimum, a maximum or a number of
different values, so that these cannot be estimated.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NoReturn

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.operators.base import FloatArray
from sfumato.queries.aggregates import Call, Count, LinearSum
from sfumato.queries.classes import numbered, numbers_of
from sfumato.queries.duals import Dual
from sfumato.queries.formulas import Formula
from sfumato.queries.passing import made_to_rise, passing
from sfumato.queries.question import ERRORS, Question, Term

if TYPE_CHECKING:
    from sfumato.queries.sources import Source

MOST_THRESHOLDS = 160
_ROUNDING = 1e-9  # of the records: what sums may be off by
_NUMBERS = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_boolean,
)
Evaluate = Callable[[Question], pa.Table]  # keys `k…` and aggregates `a…` with their errors


@dataclass(frozen=True, eq=False)
class Ordered(Call):
    """`parameter` is the p of a quantile."""

    parameter: float | None = None

    takes_parameter: ClassVar[bool] = False

    @cached_property
    def text(self) -> str:  # type: ignore[override]
        inside = self.arguments[0].text
        given = inside if self.parameter is None else f"{inside}, {self.parameter!r}"
        condition = " AND ".join(f"({term.text})" for term in self.filter)
        return f"{self.name}({given})" + (f" FILTER ({condition})" if condition else "")

    def sums(self) -> tuple[LinearSum, ...]:
        raise QueryError(
            f"{self.name.upper()} cannot take part in arithmetic with an error bar. Select it as a "
            "column of its own."
        )

    def combine(self, *totals: Dual) -> Dual:
        raise TypeError(f"{self.name} is no function of sums")

    def numbers(self, values: pa.Array | pa.ChunkedArray) -> FloatArray:
        """Values as numbers, without those that are missing."""
        if not any(is_kind(values.type) for is_kind in _NUMBERS):
            raise QueryError(
                f"{self.name.upper()} needs a number; {self.arguments[0].text} is {values.type}. "
                "Count by value: SELECT x, COUNT(*) FROM release GROUP BY x."
            )
        whole = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
        found = whole.drop_null().cast(pa.float64(), safe=False).to_numpy()
        return np.asarray(found, np.float64)

    def thresholds(self, values: pa.Array | pa.ChunkedArray) -> FloatArray:
        """The different numbers among values, in order; no threshold lies beyond all of them."""
        found = np.unique(self.numbers(values))
        return found[np.isfinite(found)]

    @abstractmethod
    def of_counts(self, values: FloatArray, counts: FloatArray) -> float:
        """From different values, in order, and how often each occurs."""

    @abstractmethod
    def estimate(
        self, question: Question, source: Source, evaluate: Evaluate, quantile: float
    ) -> pa.Table:
        """Where a sensitive column takes part: by row, as `Evaluate` does."""

    def _cannot(self, instead: str) -> NoReturn:
        raise QueryError(
            f"{self.text} cannot be estimated where a sensitive column takes part: one person "
            f"decides it, and no record shows for certain whose value it holds. {instead}"
        )


class Different(Ordered):
    """COUNT(DISTINCT x)."""

    name = "count_distinct"
    usage = ("COUNT(DISTINCT x)",)
    needs_number = False
    of_nobody = 0.0

    def of_counts(self, values: FloatArray, counts: FloatArray) -> float:
        return float(len(values))

    def estimate(
        self, question: Question, source: Source, evaluate: Evaluate, quantile: float
    ) -> pa.Table:
        self._cannot("Count by value: SELECT x, COUNT(*) FROM release GROUP BY x.")


class Extreme(Ordered):
    """MIN(x) and MAX(x); of a whole sensitive column, the ends of its published domain."""

    place: ClassVar[int]

    def of_counts(self, values: FloatArray, counts: FloatArray) -> float:
        return float(values[self.place])

    def estimate(
        self, question: Question, source: Source, evaluate: Evaluate, quantile: float
    ) -> pa.Table:
        (argument,) = self.arguments
        if argument.column is None or question.keys or question.where or self.filter:
            self._cannot("Ask for a quantile: QUANTILE_DISC(x, 0.01).")
        domain = self.thresholds(source.release.domain(argument.column))
        return _exact([float(domain[self.place])])


class Least(Extreme, node=exp.Min):
    name = "min"
    usage = ("MIN(x)",)
    place = 0


class Most(Extreme, node=exp.Max):
    name = "max"
    usage = ("MAX(x)",)
    place = -1


class Quantile(Ordered, node=(exp.PercentileCont, exp.Quantile)):
    """QUANTILE_CONT(x, p): linear between the values around rank p·(n − 1)."""

    name = "quantile_cont"
    usage = ("QUANTILE_CONT(x, 0.9)",)
    takes_parameter = True

    @property
    def share(self) -> float:
        assert self.parameter is not None
        return self.parameter

    def of_counts(self, values: FloatArray, counts: FloatArray) -> float:
        return float(self.at(values, np.cumsum(counts)))

    def at(self, values: FloatArray, up_to: FloatArray) -> float:
        """From thresholds and the number of records up to each; the last is all."""
        rank, slack = self.share * max(up_to[-1] - 1, 0.0), _ROUNDING * (1 + up_to[-1])
        below = np.floor(rank + slack)
        ends = [
            values[min(np.searchsorted(up_to, each + slack, side="right"), len(values) - 1)]
            for each in (below, below + 1)
        ]
        return float(ends[0] + max(rank - below, 0.0) * (ends[1] - ends[0]))

    def estimate(
        self, question: Question, source: Source, evaluate: Evaluate, quantile: float
    ) -> pa.Table:
        thresholds = self._values(question, source, evaluate)
        if len(thresholds) <= MOST_THRESHOLDS:
            return self._inverted(question, thresholds, evaluate, quantile)
        places = np.linspace(0, len(thresholds) - 1, MOST_THRESHOLDS).round().astype(int)
        rough = self._inverted(question, thresholds[places], evaluate, quantile)
        near = [rough.column(f"a0{end}").drop_null().to_numpy() for end in ("_low", "_high")]
        if not near[0].size:
            return rough
        # once more, with every value between the ends of the rows' intervals, if there is room
        first = np.maximum(np.searchsorted(thresholds[places], near[0]) - 1, 0)
        last = np.searchsorted(thresholds[places], near[1])
        wanted = np.zeros(len(thresholds), np.bool_)
        for low, high in zip(places[first], places[np.minimum(last, len(places) - 1)], strict=True):
            wanted[low : high + 1] = True
        chosen = np.flatnonzero(wanted)
        if len(chosen) > MOST_THRESHOLDS:
            chosen = chosen[np.linspace(0, len(chosen) - 1, MOST_THRESHOLDS).round().astype(int)]
        kept = np.union1d(chosen, [len(thresholds) - 1])
        return self._inverted(question, thresholds[kept], evaluate, quantile)

    def _values(self, question: Question, source: Source, evaluate: Evaluate) -> FloatArray:
        """The different values that the argument can have, in order."""
        (argument,) = self.arguments
        if argument.is_mixed:
            raise QueryError(
                f"{self.text} takes an expression of quasi-identifiers or of sensitive ones, not "
                f"of "
                "both. Use FILTER (WHERE …) for conditions."
            )
        if argument.sensitive:
            if argument.column is None:
                raise QueryError(f"{self.text} takes a sensitive column as it is. Name it alone.")
            return self.thresholds(source.release.domain(argument.column))
        known = tuple(term for term in question.where if not term.sensitive)
        asked = replace(
            question, where=known, keys=(argument,), groupings=((0,),), aggregates=(Count((), ()),)
        )
        return self.thresholds(evaluate(asked).column("k0"))

    def _inverted(
        self, question: Question, thresholds: FloatArray, evaluate: Evaluate, quantile: float
    ) -> pa.Table:
        """One question about all thresholds."""
        asked = replace(
            question,
            aggregates=(
                Count(self.arguments, self.filter),
                *(self._difference(float(each)) for each in thresholds),
            ),
        )
        found = evaluate(asked)
        number = numbers_of(found.column("a0"))
        many = len(thresholds)

        def by_threshold(end: str) -> FloatArray:
            columns = [numbers_of(found.column(f"a{place + 1}{end}")) for place in range(many)]
            return np.stack(columns) if columns else np.zeros((0, len(found)))

        middle, low, high = (by_threshold(end) for end in ("", "_low", "_high"))
        rows = [
            self._row(thresholds, number[r], middle[:, r], low[:, r], high[:, r], quantile)
            for r in range(len(found))
        ]
        keys = [name for name in found.column_names if name.startswith("k")]
        columns = {
            f"a0{end}": pa.array([row[place] for row in rows], pa.float64())
            for place, end in enumerate(("", *(f"_{each}" for each in ERRORS)))
        }
        if found.column("a1_low").null_count == len(found) and len(found):
            for end in ERRORS:
                columns[f"a0_{end}"] = pa.nulls(len(found), pa.float64())
        return pa.table({**{name: found.column(name) for name in keys}, **columns})

    def _difference(self, threshold: float) -> Formula:
        """#(x ≤ t) − p·#."""
        (argument,) = self.arguments
        below = Term(
            exp.LTE(this=exp.Paren(this=argument.tree.copy()), expression=_literal(threshold)),
            argument.quasi,
            argument.sensitive,
        )
        parts = (Count(self.arguments, (*self.filter, below)), Count(self.arguments, self.filter))
        return Formula(
            f"{parts[0].text} - {self.share!r} * {parts[1].text}",
            parts,
            lambda counts: counts[0] - counts[1] * self.share,
        )

    def _row(
        self,
        thresholds: FloatArray,
        number: float,
        middle: FloatArray,
        low: FloatArray,
        high: FloatArray,
        quantile: float,
    ) -> tuple[float | None, float | None, float | None, float | None]:
        """Value, error and interval from D at every threshold."""
        if not len(thresholds) or not number > 0:
            return None, None, None, None
        rising = made_to_rise(middle)
        first, last = passing(
            rising, middle - low, high - middle, -self.share * number, quantile, thresholds
        )
        rising = rising + self.share * number
        rising[-1] = max(rising[-1], number)
        value = self.at(thresholds, np.minimum(rising, number))
        first, last = min(first, value), max(last, value)
        return value, (last - first) / (2 * quantile), first, last


class DiscreteQuantile(Quantile, node=exp.PercentileDisc):
    """QUANTILE_DISC(x, p): the least value with a share of at least p up to it."""

    name = "quantile_disc"
    usage = ("QUANTILE_DISC(x, 0.9)",)

    def at(self, values: FloatArray, up_to: FloatArray) -> float:
        slack = _ROUNDING * (1 + up_to[-1])
        wanted = max(self.share * up_to[-1] - slack, slack)
        return float(values[min(np.searchsorted(up_to, wanted), len(values) - 1)])


class Median(Quantile, node=exp.Median):
    name = "median"
    usage = ("MEDIAN(x)",)
    takes_parameter = False

    @property
    def share(self) -> float:
        return 0.5


def add_ordered(
    question: Question, source: Source, evaluate: Evaluate, quantile: float
) -> pa.Table:
    """The estimates of a question some of whose aggregates need the order of values."""
    plain = {p: a for p, a in enumerate(question.aggregates) if not isinstance(a, Ordered)}
    asked = tuple(plain.values()) or (Count((), ()),)
    found = evaluate(replace(question, aggregates=asked))
    keys = [f"k{place}" for place in range(len(question.keys))]
    columns = {name: found.column(name) for name in keys}
    for number, place in enumerate(plain):
        for end in ("", *(f"_{each}" for each in ERRORS)):
            columns[f"a{place}{end}"] = found.column(f"a{number}{end}")
    for place, aggregate in enumerate(question.aggregates):
        if not isinstance(aggregate, Ordered):
            continue
        touched = (*question.where, *question.keys, *aggregate.terms())
        alone = replace(question, aggregates=(aggregate,))
        if any(term.sensitive for term in touched):
            own = aggregate.estimate(alone, source, evaluate, quantile)
        else:
            own = _counted(aggregate, alone, evaluate)
        at = _aligned(found, own, keys)
        for end in ("", *(f"_{each}" for each in ERRORS)):
            columns[f"a{place}{end}"] = own.column(f"a0{end}").take(at)
    return pa.table(columns)


def _counted(aggregate: Ordered, question: Question, evaluate: Evaluate) -> pa.Table:
    """Exactly, from the records counted by value."""
    (argument,) = aggregate.arguments
    places = tuple(range(len(question.keys) + 1))
    by_value = evaluate(
        replace(
            question,
            keys=(*question.keys, argument),
            groupings=(places,),
            aggregates=(Count(aggregate.arguments, aggregate.filter),),
        )
    )
    counts = numbers_of(by_value.column("a0"))
    by_value, counts = by_value.take(pa.array(np.flatnonzero(counts > 0))), counts[counts > 0]
    keys = [f"k{place}" for place in places[:-1]]
    row, first = numbered([by_value.column(name) for name in keys], len(by_value))
    values = by_value.column(f"k{places[-1]}")
    numbers = (
        aggregate.numbers(values) if aggregate.needs_number else np.arange(len(values), dtype=float)
    )
    found: list[float] = []
    for each in range(len(first)):
        own = np.flatnonzero(row == each)
        order = own[np.argsort(numbers[own], kind="stable")]
        found.append(aggregate.of_counts(numbers[order], counts[order]))
    table = _exact(found)
    for name in keys:
        table = table.append_column(name, by_value.column(name).take(pa.array(first)))
    return table


def _exact(values: list[float]) -> pa.Table:
    shown = pa.array(values, pa.float64())
    nothing = pa.array(np.zeros(len(values)))
    return pa.table({"a0": shown, "a0_stderr": nothing, "a0_low": shown, "a0_high": shown})


def _aligned(rows: pa.Table, own: pa.Table, keys: list[str]) -> pa.Array:
    """For every row the row of the other table that has its keys; null where there is none."""
    if not keys:
        return pa.array([0] if len(own) else [None], pa.int64())
    both = [
        pa.chunked_array(
            [*rows.column(name).chunks, *own.column(name).cast(rows.column(name).type).chunks]
        )
        for name in keys
    ]
    number, _ = numbered(both, len(rows) + len(own))
    place = {int(each): at for at, each in enumerate(number[len(rows) :])}
    return pa.array([place.get(int(each)) for each in number[: len(rows)]], pa.int64())


def _literal(number: float) -> exp.Expr:
    literal = exp.Literal.number(repr(abs(number)))
    return exp.Neg(this=literal) if number < 0 else literal
