"""A release's answers to thousands of count questions: what `query` says, in one pass of numpy.

The records that satisfy the conditions of a question are found by bitmaps; from there on the same
estimators answer that answer SQL: equal to `sf.open(release).sql(question.sql())`.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Column
from sfumato.draws import BoolArray, Draws, IntArray
from sfumato.engines.counting import Progress, no_progress
from sfumato.errors import UsageError, WeakPromiseWarning
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Estimated, Forms, Moments, Statistic, sum_by
from sfumato.operators.ranges import ConditionShares, RangeEstimated, ShareSums
from sfumato.queries.evaluate import source_of
from sfumato.queries.ranges import Spanned, stored
from sfumato.queries.session import session_of
from sfumato.queries.sources import QuestionSource
from sfumato.release import GeneralizedRelease, Release
from sfumato.workloads.coded_table import CodedTable, WorkloadColumn, places_of
from sfumato.workloads.questions import Condition, CountQuestion, OneOf, Workload

Matched = tuple[IntArray, FloatArray | None]  # records, and how far each satisfies the conditions
_AT_ONCE = 1 << 22  # cells (condition, value, value) that are worked on together
_COUNT = "n"
Z95 = 1.959963984540054


@dataclass(frozen=True, eq=False)
class WorkloadAnswers:
    """Question by question, with the 95 % interval that `query` shows; not a number where the
    release has no answer or no error bar."""

    estimates: FloatArray
    stderrs: FloatArray
    low: FloatArray
    high: FloatArray


def release_answers(
    workload: Workload,
    release: str | Path | Release,
    *,
    progress: Progress = no_progress,
) -> WorkloadAnswers:
    """Answer every question from the release alone, with the kind's default estimator.

    Quasi values that a release merged are taken as evenly filled: such answers have no error bar
    where a condition cuts through them.
    """
    opened = release if isinstance(release, Release) else Release(release)
    answers = np.zeros((4, len(workload)))
    source = source_of(opened, session_of(opened))
    quasi = dict.fromkeys(name for asked in workload.questions for name in asked.conditions)
    for column in sorted({question.column for question in workload.questions}):
        if opened.column(column).role != "sensitive":
            raise UsageError(f"The workload counts values of {column!r}, which is not sensitive.")
        places = [n for n, asked in enumerate(workload.questions) if asked.column == column]
        of_column = _ColumnAnswers(source, column, quasi)
        with warnings.catch_warnings():  # told by whoever asks one question, not by thousands
            warnings.simplefilter("ignore", WeakPromiseWarning)
            for low in range(0, len(places), of_column.at_once):
                progress("asking", low, len(places))
                some = places[low : low + of_column.at_once]
                answers[:, some] = of_column.answers([workload.questions[place] for place in some])
    return WorkloadAnswers(*answers)


def answers_of_shares(
    release: Release, column: str, shares: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """By (share, value): the count of a value and its standard error, among so large a share of
    the people, drawn at random."""
    source = source_of(release, session_of(release))
    return _ColumnAnswers(source, column, ()).of_shares(shares)


class _ColumnAnswers:
    """The questions of a workload about one sensitive column."""

    def __init__(self, source: QuestionSource, column: str, quasi: Iterable[str]) -> None:
        self._source = source
        if source.counts_exactly:
            columns = {name: _shown(source.release, name) for name in quasi}
            self._quasi = CodedTable(columns, {}, source.release.rows)
        else:
            self._spans = {name: _spanned(source.release, name) for name in quasi}
        (domain,) = source.domains([column])
        self._values, self._column = len(domain), column
        self._known = {value: index for index, value in enumerate(domain.to_pylist())}
        names = source.shown([column])
        records = {name: pa.chunked_array([stored(source.release, name)]) for name in names}
        shown = source.read([column], records)
        ones = np.ones(len(shown.kept))
        marks = [shown.symbols[0], ones if shown.copies is None else shown.copies]
        # records that show the same count together
        different, self._line = np.unique(np.stack(marks), axis=1, return_inverse=True)
        self._line = np.where(shown.kept, self._line.reshape(-1), -1)
        self._symbol = different[0].astype(np.int64)
        self._copies = None if shown.copies is None else different[1]
        self.at_once = max(_AT_ONCE // max(self._values**2, len(self._symbol)), 1)

    def answers(self, asked: Sequence[CountQuestion]) -> FloatArray:
        """(parts, questions): estimates, standard errors and the ends of intervals."""
        if not self._source.counts_exactly:
            return self._read(self._by_shares(asked), [self._codes(question) for question in asked])
        matched = [(rows := self._quasi.matching(q), self._quasi.fitting(q, rows)) for q in asked]
        parts = self._read(self._estimated(matched), [self._codes(question) for question in asked])
        # of values that were merged and are taken as evenly filled no error is known
        parts[1:, [weights is not None for _, weights in matched]] = np.nan
        return parts

    def of_shares(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Estimates and standard errors of every value, by (share, value)."""
        order = Draws.from_seed(0).order("shares", len(self._line))
        every = [np.array([value]) for value in range(self._values)]
        parts = []
        for low in range(0, len(shares), self.at_once):
            some = shares[low : low + self.at_once]
            estimated = self._estimated(
                [(order[: round(share * len(order))], None) for share in some]
            )
            parts.append(self._read(estimated, every * len(some), len(every))[:2])
        counts, stderrs = np.concatenate(parts, axis=1).reshape(2, len(shares), self._values)
        return counts, stderrs

    def _estimated(self, matched: Sequence[Matched]) -> Estimated:
        """A class for every condition."""
        counts = np.zeros((len(matched), len(self._symbol)))
        for index, (rows, weights) in enumerate(matched):
            line = self._line[rows]
            selected = line >= 0
            some = None if weights is None else weights[selected]
            counts[index] = np.bincount(line[selected], some, minlength=len(self._symbol))
        of, line = np.nonzero(counts)
        sums = counts[of, line]
        moments = Moments(
            len(matched),
            of,
            (self._symbol[line],),
            {(_COUNT,): sums, (_COUNT, _COUNT): sums},
            None if self._copies is None else self._copies[line],
        )
        estimator = self._source.estimator([self._column], self._source.estimators[0])
        return estimator(moments)

    def _by_shares(self, asked: Sequence[CountQuestion]) -> Estimated:
        """The same from ranges and sets: the sums that `queries.ranges` makes of a release."""
        codes = self._symbol[self._line]

        def summed(by_record: FloatArray) -> FloatArray:
            return sum_by(codes, by_record, self._values)

        sums = [
            ShareSums.of(list(self._readings(question)), len(codes), summed) for question in asked
        ]
        number, certain, possible = (
            np.stack(part)
            for part in zip(*((e.number, e.certain, e.possible) for e in sums), strict=True)
        )
        of, value = np.nonzero(possible > 0)
        low, high = (np.concatenate([e.told[k] for e in sums]) for k in (0, 1))
        shares = ShareSums(number[of, value], certain[of, value], possible[of, value], (low, high))
        counts: dict[tuple[Hashable, ...], FloatArray] = {(_COUNT,): shares.number}
        counts[_COUNT, _COUNT] = shares.number
        moments = Moments(len(asked), of, (value,), counts, pool=np.arange(len(asked)))
        return RangeEstimated(moments, {_COUNT: shares})

    def _read(self, estimated: Estimated, asked: Sequence[IntArray], forms: int = 1) -> FloatArray:
        """Every condition has a profile; every question, `forms` of them to a condition, a form."""
        profile = np.arange(len(asked)) // forms
        cells = np.full((len(asked) // forms, self._values), -1)
        for form, codes in enumerate(asked):
            cells[profile[form], codes] = form
        there = cells >= 0
        counted = Statistic(_COUNT, _COUNT, there.astype(np.float64), there)
        first = np.arange(0, len(asked) + 1, forms)
        totals = estimated.read(Forms.of(np.arange(len(cells)), cells, first), [counted])
        estimates, stderrs = totals.values[0], np.sqrt(np.maximum(totals.variance([1.0]), 0.0))
        ends = totals.interval(estimates, stderrs, Z95, [1.0])
        return np.stack([estimates, stderrs, *ends])

    def _readings(self, question: CountQuestion) -> Iterator[ConditionShares]:
        """What ranges and sets show of each condition."""
        for name, asked in question.conditions.items():
            numeric = self._source.release.column(name).kind == "numeric"

            def holds(values: pa.Array, n: bool = numeric, a: Condition = asked) -> BoolArray:
                return a.holds(values.cast(pa.float64()) if n else values)

            yield self._spans[name].reading(holds, partial(_ends, name, asked))

    def _codes(self, question: CountQuestion) -> IntArray:
        return np.array(places_of(question, self._known))


def _quasi(release: Release, name: str) -> Column:
    column = release.column(name)
    if column.role != "quasi":
        raise UsageError(f"The workload asks about {name!r}, which is no quasi-identifier.")
    return column


def _shown(release: Release, name: str) -> WorkloadColumn:
    """A quasi column as the records show it, a missing value among its values."""
    column = _quasi(release, name)
    encoded = pc.dictionary_encode(stored(release, name), null_encoding="encode")
    codes, merged = np.asarray(encoded.indices.to_numpy(), np.int64), release.merges.get(name)
    members = None
    if merged is not None:
        known = {part.label: part.values for part in merged}
        members = [known[label] for label in encoded.dictionary.to_pylist()]
    return WorkloadColumn(name, column.kind, encoded.dictionary, codes, members)


def _spanned(release: Release, name: str) -> Spanned:
    return Spanned.of(cast("GeneralizedRelease", release), _quasi(release, name))


def _ends(name: str, condition: Condition) -> tuple[float, float]:
    if isinstance(condition, OneOf) and len(condition.values) > 1:
        raise UsageError(
            f"The list of values asked for in column {name!r} cannot be weighed against ranges of "
            "numbers that are not whole. Ask for ranges."
        )
    if isinstance(condition, OneOf):
        return float(condition.values[0]), float(condition.values[0])
    return float(condition.low), float(condition.high)
