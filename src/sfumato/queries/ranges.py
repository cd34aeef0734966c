"""Generalized releases: every record counts with the share of the people that it spans."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Estimator, Forms, Moments, Statistic, Totals, sum_by
from sfumato.operators.ranges import RangeEstimator, Reading, ShareSums
from sfumato.queries.overlap import overlap, stored
from sfumato.queries.question import Question, Term
from sfumato.queries.question_plan import QuestionPlan, Weight
from sfumato.queries.sources import ColumnSource, Request
from sfumato.release import GeneralizedRelease
from sfumato.release.values import codes_of


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
        return RangeEstimator(self._shares)

    def counted(self, weights: Sequence[Weight], moments: Moments, forms: Forms) -> Totals:
        every = np.ones(forms.cells.shape)
        asked = [Statistic(each, each.number, every, every > 0) for each in weights]
        return RangeEstimator(self._shares).estimate(moments).read(forms, asked)

    def lines(self, plan: QuestionPlan) -> pa.Table:
        """Shares of the records, summed by the value that they show."""
        known: dict[str, Reading] = {}
        sums: dict[str, FloatArray] = {}
        self._shares: dict[Hashable, ShareSums] = {}
        codes = np.zeros(self.release.rows, np.int64)
        shown: dict[str, pa.Array] = {}
        for name, short in plan.shown.items():
            values, domain = stored(self.release, name), self.release.domain(name)
            codes = codes * len(domain) + codes_of(pa.chunked_array([values]), domain)
            shown[short] = values
        groups, first, of = np.unique(codes, return_index=True, return_inverse=True)

        def summed(by_record: FloatArray) -> FloatArray:
            return sum_by(of, by_record, len(groups))

        for weights, name in plan.weights().items():
            conditions = [weight.terms[text] for weight in weights for text in weight.filter]
            terms = _by_column((*plan.question.where, *conditions))
            for term in terms:
                if term.text not in known:
                    known[term.text] = overlap(term, self.release, self.session)
            shares = ShareSums.of([known[term.text] for term in terms], len(codes), summed)
            sums[name] = shares.number
            if len(weights) == 1:
                self._shares[weights[0]] = shares
        columns = {short: values.take(pa.array(first)) for short, values in shown.items()}
        return pa.table({**columns, **{name: pa.array(each) for name, each in sums.items()}})


def _by_column(terms: Iterable[Term]) -> list[Term]:
    """One condition per quasi column: `age > 30 AND age < 40` is weighed as a whole."""
    by_column: dict[frozenset[str], dict[str, Term]] = {}
    for term in terms:
        if term.quasi:
            by_column.setdefault(term.quasi, {})[term.text] = term
    return [
        next(iter(found.values()))
        if len(found) == 1
        else Term(exp.and_(*(term.tree.copy() for term in found.values())), quasi, frozenset())
        for quasi, found in by_column.items()
    ]


def _check(question: Question) -> None:
    """Only conditions on one quasi column, or on sensitive columns alone, can be weighed."""
    conditions = list(question.where)
    for call in (call for aggregate in question.aggregates for call in aggregate.calls()):
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
