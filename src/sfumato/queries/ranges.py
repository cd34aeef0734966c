"""Generalized releases: every record counts with the share of the people that it spans.

A condition on a quasi-identifier is asked of every value of the column's domain once; a record then
weighs the share of the people that it spans (`operators.matched`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.columns import Column, Values
from sfumato.draws import BoolArray, IntArray
from sfumato.errors import QueryError
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Estimator, Forms, Moments, Statistic, Totals, sum_by
from sfumato.operators.matched import MatchedRecords, read_people
from sfumato.operators.ranges import ConditionShares, RangeEstimated, ShareSums
from sfumato.queries.dialect import Node
from sfumato.queries.question import Question, Term
from sfumato.queries.question_plan import QuestionPlan, Weight
from sfumato.queries.session import Session
from sfumato.queries.sources import ColumnSource, Request
from sfumato.queries.statements import column, named, over, select
from sfumato.release import GeneralizedRelease
from sfumato.release.marginals import whole_numbers
from sfumato.release.values import codes_of

if TYPE_CHECKING:
    from sfumato.release import GeneralizedRelease, Release


_COMPARISONS: dict[type[Node], str] = {
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.EQ: "=",
}
_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "=": "="}


@dataclass(frozen=True, eq=False)
class Spanned:
    """Ranges or sets of one quasi column, read as the people that they span."""

    name: str
    spans: int
    values: pa.Array | None  # that a condition is asked of; None where ranges end at any number
    matched: MatchedRecords | None
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, release: GeneralizedRelease, column: Column) -> Spanned:
        nothing = np.zeros(0)
        if column.kind == "categorical":
            lists = stored(release, column.name)
            inside, starts = lists.flatten(), np.asarray(lists.offsets.to_numpy(), np.int64)
            if pa.types.is_dictionary(inside.type):
                inside = inside.dictionary_decode()
            values = inside.unique()
            codes = np.asarray(pc.index_in(inside, value_set=values).to_numpy(), np.int64)
            marginal = release.marginal_of(column, values)
            sets = MatchedRecords.of_sets(
                codes, starts - starts[0], len(values), release.spans, marginal
            )
            return cls(column.name, release.spans, values, sets, nothing, nothing)
        low, high = (
            np.asarray(stored(release, end).cast(pa.float64(), safe=False).to_numpy(), np.float64)
            for end in release.shown_as(column)
        )
        whole = whole_numbers(column)
        if whole is None:
            return cls(column.name, release.spans, None, None, low, high)
        first, last = ((end - whole[0]).astype(np.int64) for end in (low, high))
        marginal = release.marginals.get(column.name)
        ranges = MatchedRecords.of_ranges(first, last, len(whole), release.spans, marginal)
        return cls(column.name, release.spans, pa.array(whole), ranges, nothing, nothing)

    def reading(
        self, holds: Callable[[pa.Array], BoolArray], ends: Callable[[], tuple[float, float]]
    ) -> ConditionShares:
        """How much of each record satisfies a condition: which values do, or its ends."""
        if self.values is None or self.matched is None:
            return read_people(self.low, self.high, *ends(), self.spans)
        return self.matched.reading(holds(self.values))


def overlap(term: Term, release: GeneralizedRelease, session: Session) -> ConditionShares:
    """How much of each published row satisfies a condition on one quasi column."""
    (name,) = term.quasi
    asked = release.column(name)
    if asked.kind == "categorical" and not isinstance(asked.domain, Values):
        raise QueryError(
            f"Column {asked.name!r} has too many values to weigh a condition on it. Ask about "
            "other columns."
        )
    spanned = session.remembered(("spanned", name), lambda: Spanned.of(release, asked))

    def holds(values: pa.Array) -> BoolArray:
        return session.remembered(("holds", term.text), lambda: _asked(term, values, session))

    return spanned.reading(holds, lambda: _ends(term.tree, term))


def _asked(term: Term, values: pa.Array, session: Session) -> BoolArray:
    """Which values satisfy the condition; unknown counts as no, as in WHERE."""
    (name,) = term.quasi
    condition = over(term, {name: column("d", "v")})
    cast = exp.Cast(this=exp.Paren(this=condition), to=exp.DataType(this=exp.DataType.Type.BOOLEAN))
    statement = select([column("d", "place"), named(cast, "yes")], "d")
    table = pa.table({"v": values, "place": np.arange(len(values))})
    found = session.run(statement, {"d": table})
    satisfied = np.zeros(len(values), np.bool_)
    yes = pc.fill_null(found.column("yes"), False).to_numpy()
    satisfied[found.column("place").to_numpy()] = yes
    return satisfied


def stored(release: Release, name: str) -> pa.Array:
    """A column of the records in the order of the files: DuckDB keeps none between questions."""
    column = release.table([name]).column(0).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _ends(tree: Node, term: Term) -> tuple[float, float]:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.And):
        one, other = _ends(tree.left, term), _ends(tree.right, term)
        return max(one[0], other[0]), min(one[1], other[1])
    symmetric = tree.args.get("symmetric")
    if isinstance(tree, exp.Between) and isinstance(tree.this, exp.Column) and not symmetric:
        return _number(tree.args["low"], term), _number(tree.args["high"], term)
    sign = _COMPARISONS.get(type(tree))
    if sign is not None and isinstance(tree, exp.Binary):
        left, right = tree.left, tree.right
        if isinstance(right, exp.Column):
            left, right, sign = right, left, _MIRRORED[sign]
        if isinstance(left, exp.Column):
            number = _number(right, term)
            return (
                number if sign in (">", ">=", "=") else -np.inf,
                number if sign in ("<", "<=", "=") else np.inf,
            )
    raise _cannot(term)


def _number(node: Node, term: Term) -> float:
    text = node.sql(dialect="duckdb")
    try:
        return float(text.strip("()").replace(" ", ""))
    except ValueError:
        raise _cannot(term) from None


def _cannot(term: Term) -> QueryError:
    return QueryError(
        f"The condition {term.text} cannot be weighed against ranges of numbers that are not "
        "whole. Write it as x > 1, x <= 2 or x BETWEEN 1 AND 2, one condition per column, joined "
        "by AND."
    )


class GeneralizedSource(ColumnSource):
    """Ranges and sets of quasi values; sensitive values stand as they are."""

    title = "A generalized release"
    estimators = ("matches",)
    counts_exactly = False
    release: GeneralizedRelease

    def check(self, question: Question, request: Request) -> None:
        super().check(question, request)
        _check(question)

    def estimator(self, columns: Sequence[str], name: str) -> Estimator:
        return partial(RangeEstimated, shares=self._shares)

    def counted(self, weights: Sequence[Weight], moments: Moments, forms: Forms) -> Totals:
        every = np.ones(forms.cells.shape)
        asked = [Statistic(weight, weight.number, every, every > 0) for weight in weights]
        return RangeEstimated(moments, self._shares).read(forms, asked)

    def _codes(self, name: str) -> tuple[pa.Array, IntArray]:
        """What every record shows of a sensitive column, and its place in the domain."""
        values = stored(self.release, name)
        return values, codes_of(pa.chunked_array([values]), self.release.domain(name))

    def lines(self, plan: QuestionPlan) -> pa.Table:
        """Shares of the records, summed by the value that they show."""
        readings: dict[str, ConditionShares] = {}
        sums: dict[str, FloatArray] = {}
        self._shares: dict[Hashable, ShareSums] = {}
        codes = np.zeros(self.release.rows, np.int64)
        shown: dict[str, pa.Array] = {}
        for name, short in plan.shown.items():
            shown[short], places = self.session.remembered(
                ("stored", name), partial(self._codes, name)
            )
            codes = codes * len(self.release.domain(name)) + places
        groups, first, of = np.unique(codes, return_index=True, return_inverse=True)

        def summed(by_record: FloatArray) -> FloatArray:
            return sum_by(of, by_record, len(groups))

        for weights, name in plan.weights().items():
            conditions = [weight.terms[text] for weight in weights for text in weight.filter]
            terms = _by_column((*plan.question.where, *conditions))
            for term in terms:
                if term.text not in readings:
                    readings[term.text] = overlap(term, self.release, self.session)
            shares = ShareSums.of([readings[term.text] for term in terms], len(codes), summed)
            sums[name] = shares.number
            if len(weights) == 1:
                self._shares[weights[0]] = shares
        columns = {short: values.take(pa.array(first)) for short, values in shown.items()}
        return pa.table({**columns, **{name: pa.array(reading) for name, reading in sums.items()}})


def _by_column(terms: Iterable[Term]) -> list[Term]:
    """One condition per quasi column: `age > 30 AND age < 40` is weighed as a whole."""
    by_column: dict[frozenset[str], dict[str, Term]] = {}
    for term in terms:
        if term.quasi:
            by_column.setdefault(term.quasi, {})[term.text] = term
    return [
        next(iter(terms.values()))
        if len(terms) == 1
        else Term(exp.and_(*(term.tree.copy() for term in terms.values())), quasi, frozenset())
        for quasi, terms in by_column.items()
    ]


def _check(question: Question) -> None:
    """Only conditions on one quasi column, or on sensitive columns alone, can be weighed."""
    conditions = list(question.where)
    for call in (call for aggregate in question.aggregates for call in aggregate.calls):
        conditions += call.filter
        quasi = sorted({name for term in call.arguments for name in term.quasi})
        if quasi:
            raise QueryError(
                f"{call.text} cannot be estimated: the release shows ranges and sets of "
                f"{', '.join(quasi)}. Ask COUNT(*) with conditions on them."
            )
    for key in question.keys:
        if key.quasi:
            raise QueryError(
                f"GROUP BY {key.text} cannot be estimated: the release shows ranges and sets of "
                f"{', '.join(sorted(key.quasi))}. Ask once per value with WHERE, or group by the "
                "sensitive column."
            )
    for term in conditions:
        if term.is_mixed or len(term.quasi) > 1:
            raise QueryError(
                f"The condition {term.text} ties several columns together, and ranges and sets "
                "cannot be weighed against it. Write one condition per column, joined by AND."
            )
