"""Generalized releases: every record counts with the share that satisfies the question.

`matches` reads a record as the people that it spans (`operators.ranges`); `uniform`, the papers',
takes values inside a range or a set as equally likely, columns as independent, and has no error
bar.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.columns import Column
from sfumato.draws import IntArray
from sfumato.errors import QueryError, WeakPromiseWarning
from sfumato.operators.base import FloatArray
from sfumato.operators.combined import CombinedEstimator
from sfumato.operators.conjunction import multiplied
from sfumato.operators.estimator import Estimator, Forms, Moments, Totals, sum_by
from sfumato.operators.ranges import (
    RangeEstimator,
    Reading,
    SharedCounts,
    ShareSums,
    people_of,
)
from sfumato.operators.ranges import Shown as Beside
from sfumato.queries.overlap import overlap, stored
from sfumato.queries.question import Question, Term
from sfumato.queries.question_plan import QuestionPlan, Weight
from sfumato.queries.sources import (
    ERROR_BARS,
    ColumnSource,
    Request,
    Shown,
    codes_of,
    counting_estimator,
)
from sfumato.release import GeneralizedRelease


@dataclass(frozen=True, eq=False)
class Combined:
    """Combinations of values that records show: their codes column by column, and each record's."""

    listed: IntArray
    of: IntArray


class GeneralizedSource(ColumnSource):
    """Ranges and sets of quasi values; sensitive values stand as they are."""

    title = "A generalized release"
    estimators = ("matches", "uniform")
    release: GeneralizedRelease

    def check(self, question: Question, request: Request) -> None:
        super().check(question, request)
        _check(question)
        self._name = request.estimator or self.estimators[0]

    def estimator(self, columns: Sequence[str], name: str) -> Estimator:
        domains = self.domains(columns)
        if name == "uniform":
            return counting_estimator([len(each) for each in domains])
        if len(columns) == 1:
            return RangeEstimator(len(domains[0]), self._shares)
        listed = self._combined(columns).listed
        sizes = tuple(len(domain) for domain in domains)
        return CombinedEstimator(RangeEstimator(len(listed), self._shares), tuple(listed.T), sizes)

    def read(self, columns: Sequence[str], shown: Mapping[str, pa.ChunkedArray]) -> Shown:
        found = super().read(columns, shown)
        if len(columns) == 1 or self._name == "uniform":
            return found
        listed = self._combined(columns).listed
        places = {tuple(each): place for place, each in enumerate(listed.tolist())}
        rows = np.stack(found.symbols, axis=1).tolist()
        symbols = np.array([places.get(tuple(row), -1) for row in rows], np.int64)
        return Shown((symbols,), symbols >= 0)

    def _combined(self, columns: Sequence[str]) -> Combined:
        """What the records show of these columns together."""

        def combined() -> Combined:
            codes = [self._stored_codes(self.release.column(name)) for name in columns]
            listed, of = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
            return Combined(listed.astype(np.int64), of.reshape(-1).astype(np.int64))

        return self.session.remembered(("combined", *columns), combined)

    def counted(self, weights: Sequence[Weight], moments: Moments, forms: Forms) -> Totals:
        if self._name == "uniform":
            return super().counted(weights, moments, forms)
        return SharedCounts([(e, e.number) for e in weights], moments, forms, self._shares)

    def _stored_codes(self, column: Column) -> IntArray:
        values = pa.chunked_array([stored(self.release, column.name)])
        return codes_of(values, self.release.domain(column.name))

    def lines(self, plan: QuestionPlan) -> pa.Table:
        """Shares of the records, summed by the value that they show."""
        known: dict[str, Reading] = {}
        sums: dict[str, FloatArray] = {}
        self._shares: dict[Hashable, ShareSums] = {}
        # where no sensitive column is asked for, what its values hang on cancels out
        combined = self._combined(plan.columns or [self.release.sensitive[0].name])
        beside = shown_beside(self.release, combined.of, len(combined.listed))
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
            readings = [known[term.text] for term in terms]
            if self._name == "uniform":
                sums[name] = summed(multiplied([each.even for each in readings], len(codes)))
            elif len(weights) == 1:
                self._shares[weights[0]] = ShareSums.of(readings, beside, summed)
                sums[name] = self._shares[weights[0]].number
            else:
                sums[name] = summed(people_of(readings, beside))
        filled = self._name == "uniform" and known
        self.error_bars = () if filled else ERROR_BARS
        if filled:
            warnings.warn(
                "Ranges and sets are taken as evenly filled: answers about quasi-identifiers "
                "have no "
                "error bar.",
                WeakPromiseWarning,
                stacklevel=6,
            )
        columns = {short: values.take(pa.array(first)) for short, values in shown.items()}
        return pa.table({**columns, **{name: pa.array(each) for name, each in sums.items()}})


def shown_beside(release: GeneralizedRelease, codes: IntArray, values: int) -> Beside:
    """The sensitive values of the records, by code."""
    return Beside(codes, values, release.spans, release.takes_of_every_bucket, release.shows_groups)


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
