"""Aggregates that need the order of values: quantiles, extremes, and how many values differ.

They are no functions of a few sums. Where no sensitive column takes part, DuckDB answers them
(`exact`). Where one does, a quantile is found by turning the question round: for every threshold t,
D(t) = #(x ≤ t) − p·# is a difference of two counts with an error bar, and the quantile is where D
passes 0. One person decides a minimum, a maximum or a number of different values, so that these
cannot be estimated.

The answer are all thresholds at which D could pass 0, given its error bars (Woodruff 1952): no
shape is assumed. The curve rises, so its estimates are made to rise first, or every wiggle would be
one more place to pass 0. It passes 0 by a jump: at t if D(t) ≥ 0 and D before t ≤ 0, and where the
jump at t is wide beside the error bar, only one of the two can be in doubt, so that the bar may be
shorter (Imbens and Manski 2004).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.operators.base import FloatArray
from sfumato.operators.normal import ndtr
from sfumato.queries.aggregates import COUNT, Aggregate, Call
from sfumato.queries.classes import numbers_of
from sfumato.queries.question import ENDS, ESTIMATED, Question, Term
from sfumato.queries.statements import RecordSums, named, over

if TYPE_CHECKING:
    from sfumato.queries.sources import QuestionSource

MOST_THRESHOLDS = 160
_ROUNDING = 1e-9  # of the records: what sums may be off by
_NUMBERS = re.compile(r"BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(.*\)")
Evaluate = Callable[[Question], pa.Table]  # keys `k…` and aggregates `a…` with their errors


def check_number(name: str, text: str, kind: str) -> None:
    """Refuse what is no number in DuckDB."""
    if _NUMBERS.fullmatch(kind) is None:
        instead = "Use COUNT, or year(…) and the like of a date."
        if kind == "VARCHAR":
            instead = (
                "CAST it to double if its texts are numbers, or use COUNT; of a column in bins, "
                "GROUP BY it."
            )
        raise QueryError(f"{name.upper()} needs a number; {text} is {kind}. {instead}")


def in_order(
    question: Question, source: QuestionSource, evaluate: Evaluate, quantile: float
) -> pa.Table:
    """The estimates of a question whose one aggregate needs the order of values."""
    (call,) = next(aggregate.calls for aggregate in question.aggregates if aggregate.is_ordered)
    if not question.sensitive:
        raise QueryError(
            f"{call.text} is counted here, not estimated: ask it without an estimator and without "
            "names of errors."
        )
    if len(question.aggregates) > 1:
        raise QueryError(
            f"{call.text} is estimated by itself where a sensitive column takes part. Ask it as a "
            "question of its own, without other aggregates."
        )
    if call.rule.order in ("cont", "disc"):
        return _Quantile(call, question, source, evaluate, quantile).table()
    return _of_domain(call, question, source)


def _of_domain(call: Call, question: Question, source: QuestionSource) -> pa.Table:
    """MIN(x) and MAX(x) of a whole sensitive column are the ends of its published domain."""
    (argument,) = call.arguments
    whole = argument.column is not None and not (question.keys or question.where or call.filter)
    if call.rule.order == "different" or not whole:
        instead = "Ask for a quantile: QUANTILE_DISC(x, 0.01)."
        if call.rule.order == "different":
            instead = "Count by value: SELECT x, COUNT(*) FROM release GROUP BY x."
        raise QueryError(
            f"{call.text} cannot be estimated where a sensitive column takes part: one person "
            f"decides it, and no record shows for certain whose value it holds. {instead}"
        )
    domain = _thresholds(call, source.release.domain(str(argument.column)))
    end = float(domain[0 if call.rule.order == "least" else -1])
    shown = dict(zip(ESTIMATED, (end, 0.0, end, end, 0.0), strict=True))
    return pa.table({f"a0{part}": [number] for part, number in shown.items()})


def _thresholds(call: Call, values: pa.Array | pa.ChunkedArray) -> FloatArray:
    """The different numbers among values, in order; no threshold lies beyond all of them."""
    kind, types = values.type, pa.types
    if not any(f(kind) for f in (types.is_integer, types.is_floating, types.is_decimal,
                                 types.is_boolean)):  # fmt: skip
        raise QueryError(
            f"{call.rule.name.upper()} needs a number; {call.arguments[0].text} is {kind}. "
            "Count by value: SELECT x, COUNT(*) FROM release GROUP BY x."
        )
    whole = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    numbers = np.unique(whole.drop_null().cast(pa.float64(), safe=False).to_numpy())
    return np.asarray(numbers[np.isfinite(numbers)], np.float64)


@dataclass(frozen=True, eq=False)
class _Quantile:
    """A quantile that a sensitive column touches."""

    call: Call
    question: Question
    source: QuestionSource
    evaluate: Evaluate
    quantile: float

    @property
    def share(self) -> float:
        quantile = self.call.rule.share if self.call.share is None else self.call.share
        assert quantile is not None
        return quantile

    def table(self) -> pa.Table:
        thresholds = self._values()
        if len(thresholds) <= MOST_THRESHOLDS:
            return self._inverted(thresholds)
        places = np.linspace(0, len(thresholds) - 1, MOST_THRESHOLDS).round().astype(int)
        rough = self._inverted(thresholds[places])
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
        return self._inverted(thresholds[np.union1d(chosen, [len(thresholds) - 1])])

    def _values(self) -> FloatArray:
        """The different values that the argument can have, in order."""
        (argument,) = self.call.arguments
        if argument.is_mixed:
            raise QueryError(
                f"{self.call.text} takes an expression of quasi-identifiers or of sensitive ones, "
                "not of both. Use FILTER (WHERE …) for conditions."
            )
        if argument.sensitive:
            if argument.column is None:
                raise QueryError(
                    f"{self.call.text} takes a sensitive column as it is. Name it alone."
                )
            return _thresholds(self.call, self.source.release.domain(argument.column))
        records = self.source.session.record_columns()
        where = [over(term, records) for term in self.question.where if not term.sensitive]
        different = RecordSums([named(over(argument, records), "v")], [], where)
        return _thresholds(self.call, self.source.session.sums(different).column("v"))

    def _inverted(self, thresholds: FloatArray) -> pa.Table:
        """One question about all thresholds."""
        call = self.call
        counted = Call(COUNT, call.arguments, call.filter)
        differences = [self._difference(counted, float(threshold)) for threshold in thresholds]
        estimates = self.evaluate(
            replace(self.question, aggregates=(Aggregate.of(counted), *differences))
        )
        many = len(thresholds)
        number, error = (numbers_of(estimates.column(name)) for name in ("a0", "a0_stderr"))

        def by_threshold(end: str) -> FloatArray:
            columns = [numbers_of(estimates.column(f"a{index + 1}{end}")) for index in range(many)]
            return np.stack(columns) if columns else np.zeros((0, len(estimates)))

        middle, low, high = (by_threshold(end) for end in ("", "_low", "_high"))
        rows = [
            self._row(thresholds, number[r], error[r], middle[:, r], low[:, r], high[:, r])
            for r in range(len(estimates))
        ]
        columns = {
            name: estimates.column(name) for name in estimates.column_names if name[0] == "k"
        }
        for position, end in enumerate(ESTIMATED):
            columns[f"a0{end}"] = pa.array([row[position] for row in rows], pa.float64())
        return pa.table(columns)

    def _difference(self, counted: Call, threshold: float) -> Aggregate:
        """#(x ≤ t) − p·#."""
        (argument,) = counted.arguments
        below = Term(
            exp.LTE(this=exp.Paren(this=argument.tree.copy()), expression=exp.convert(threshold)),
            argument.quasi,
            argument.sensitive,
        )
        parts = (Call(COUNT, counted.arguments, (*counted.filter, below)), counted)
        text = f"{parts[0].text} - {self.share!r} * {parts[1].text}"
        return Aggregate(text, parts, lambda counts: counts[0] - counts[1] * self.share)

    def _row(
        self,
        thresholds: FloatArray,
        number: float,
        error: float,
        middle: FloatArray,
        low: FloatArray,
        high: FloatArray,
    ) -> Sequence[float | None]:
        """Value, error and interval from D at every threshold."""
        if not len(thresholds) or not number > 0:
            return *(None,) * len(ENDS), float(len(thresholds) > 0 and number <= 0 < error)
        rising = made_to_rise(middle)
        first, last = passing(
            rising,
            middle - low,
            high - middle,
            -self.share * number,
            self.quantile,
            thresholds,
        )
        rising = rising + self.share * number
        rising[-1] = max(rising[-1], number)
        value = self._at(thresholds, np.minimum(rising, number))
        first, last = min(first, value), max(last, value)
        return value, (last - first) / (2 * self.quantile), first, last, 0.0

    def _at(self, values: FloatArray, up_to: FloatArray) -> float:
        """From thresholds and the number of records up to each; the last is all."""
        slack = _ROUNDING * (1 + up_to[-1])
        if self.call.rule.order == "disc":  # the least value with a share of at least p up to it
            wanted = max(self.share * up_to[-1] - slack, slack)
            return float(values[min(np.searchsorted(up_to, wanted), len(values) - 1)])
        rank = self.share * max(up_to[-1] - 1, 0.0)  # linear between the values around this rank
        below = np.floor(rank + slack)
        ends = [
            values[min(np.searchsorted(up_to, whole_rank + slack, side="right"), len(values) - 1)]
            for whole_rank in (below, below + 1)
        ]
        return float(ends[0] + max(rank - below, 0.0) * (ends[1] - ends[0]))


def made_to_rise(estimates: FloatArray) -> FloatArray:
    """The nearest curve that never falls.

    >>> made_to_rise(np.array([1.0, 3.0, 2.0])).tolist()
    [1.0, 2.5, 2.5]
    """
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(estimates).x)


def passing(
    rising: FloatArray,
    below: FloatArray,
    above: FloatArray,
    start: float,
    quantile: float,
    thresholds: FloatArray,
) -> tuple[float, float]:
    """The first and the last threshold at which D, `start` before the first, could pass 0.

    `below` and `above` are what the error bars of D reach down and up.
    """
    before = np.r_[start, rising[:-1]]
    error = np.maximum((below + above) / (2 * quantile), 1e-300)
    ratio = _critical((rising - before) / error, quantile) / quantile
    could = (rising + ratio * above >= 0) & (before - ratio * np.r_[0.0, below[:-1]] <= 0)
    places = np.flatnonzero(could)
    if not len(places):  # bars so short that D passes 0 between two thresholds
        return float(np.inf), float(-np.inf)
    return float(thresholds[places[0]]), float(thresholds[places[-1]])


def _critical(jump: FloatArray, quantile: float) -> FloatArray:
    """c with Φ(c + jump) − Φ(−c) = Φ(z) − Φ(−z): from z, where there is no jump, down to one side.

    >>> _critical(np.array([0.0, 1.0, 20.0]), 1.959964).round(3)
    array([1.96 , 1.681, 1.645])
    """
    wanted = 2 * ndtr(quantile) - 1
    low, high = np.zeros(len(jump)), np.full(len(jump), quantile)
    for _ in range(30):
        middle = (low + high) / 2
        enough = ndtr(middle + jump) - ndtr(-middle) >= wanted
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high
