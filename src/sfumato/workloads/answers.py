"""A release's answers to thousands of count questions: what `query` says, in one pass of numpy.

The records that satisfy the conditions of a question are found by bitmaps; from there on the same
estimators answer that answer SQL: equal to `sf.open(release).sql(question.sql())`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato.draws import BoolArray, Draws, IntArray
from sfumato.engines.counting import Progress, no_progress
from sfumato.errors import UsageError, WeakPromiseWarning
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Estimated, Forms, Moments, Statistic
from sfumato.queries.evaluate import source_of
from sfumato.queries.ranges import stored
from sfumato.queries.session import session_of
from sfumato.queries.sources import QuestionSource
from sfumato.release import Release
from sfumato.workloads.questions import Workload
from sfumato.workloads.range_shares import RangeShares
from sfumato.workloads.shown import ShownQuasi

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
    answers = WorkloadAnswers(*np.zeros((4, len(workload))))
    source, quasi = source_of(opened, session_of(opened)), ShownQuasi(opened)
    for column in sorted({question.column for question in workload.questions}):
        if opened.column(column).role != "sensitive":
            raise UsageError(f"The workload counts values of {column!r}, which is not sensitive.")
        with warnings.catch_warnings():  # told by whoever asks one question, not by thousands
            warnings.simplefilter("ignore", WeakPromiseWarning)
            _ColumnAnswers(source, quasi, workload, column).fill(answers, progress)
    return answers


def answers_of_shares(
    release: Release, column: str, shares: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """By (share, value): the count of a value and its standard error, among so large a share of
    the people, drawn at random."""
    source = source_of(release, session_of(release))
    return _ColumnAnswers(source, ShownQuasi(release), Workload((), ""), column).of_shares(shares)


class _ColumnAnswers:
    """The questions of a workload about one sensitive column."""

    def __init__(
        self, source: QuestionSource, quasi: ShownQuasi, workload: Workload, column: str
    ) -> None:
        self._source, self._quasi, self._workload = source, quasi, workload
        (domain,) = source.domains([column])
        self._values, self._column = len(domain), column
        self._known = {value: index for index, value in enumerate(domain.to_pylist())}
        names = source.shown([column])
        records = {name: pa.chunked_array([stored(source.release, name)]) for name in names}
        shown = source.read([column], records)
        ones = np.ones(len(shown.kept))
        marks = [shown.symbols[0], ones if shown.copies is None else shown.copies]
        # records that show the same count together
        different, first, self._line = np.unique(
            np.stack(marks), axis=1, return_index=True, return_inverse=True
        )
        self._line = np.where(shown.kept, self._line.reshape(-1), -1)
        self._symbol = different[0].astype(np.int64)
        self._copies = None if shown.copies is None else different[1]
        self._sampled = None if shown.sampled is None else shown.sampled[first]
        self._ranges: RangeShares | None = None
        if not source.counts_exactly:
            self._ranges = RangeShares(self._symbol[self._line], self._values, quasi)
        else:
            self._estimator = source.estimator([column], source.estimators[0])

    def fill(self, answers: WorkloadAnswers, progress: Progress) -> None:
        """Estimates and standard errors of the column's questions."""
        groups = [
            together_asked
            for together in self._workload.by_conditions().values()
            if (
                together_asked := [
                    p for p in together if self._workload.questions[p].column == self._column
                ]
            )
        ]
        step = max(_AT_ONCE // max(self._values**2, len(self._symbol)), 1)
        for low in range(0, len(groups), step):
            progress("asking", low, len(groups))
            self._fill(groups[low : low + step], answers)

    def _fill(self, groups: Sequence[list[int]], answers: WorkloadAnswers) -> None:
        asked = [self._workload.questions[group[0]] for group in groups]
        if self._ranges is not None:
            estimated = self._ranges.estimated(asked, _COUNT)
            unsure = np.zeros(len(groups), np.bool_)
        else:
            matched = [self._quasi.matching(question) for question in asked]
            estimated = self._estimator.estimate(self._moments(matched))
            unsure = np.array([weights is not None for _, weights in matched])
        parts = answers.estimates, answers.stderrs, answers.low, answers.high
        for batch in self._batches(groups):
            places = [number for group in batch for number, _ in group]
            for part, answered in zip(parts, _read(estimated, batch, self._values), strict=True):
                part[places] = answered
        for group, nothing_known in zip(groups, unsure.tolist(), strict=True):
            for part in parts[1:] if nothing_known else ():
                part[group] = np.nan

    def of_shares(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Estimates and standard errors of every value, by (share, value)."""
        estimates, order = [], Draws.from_seed(0).order("shares", len(self._line))
        step = max(_AT_ONCE // max(self._values**2, len(self._symbol)), 1)
        forms = [(value, np.array([value])) for value in range(self._values)]
        for low in range(0, len(shares), step):
            some = shares[low : low + step]
            moments = self._moments([(order[: round(share * len(order))], None) for share in some])
            read = _read(self._estimator.estimate(moments), [forms] * len(some), self._values)
            estimates.append(np.stack(read[:2]).reshape(2, len(some), self._values))
        counts, stderrs = np.concatenate(estimates, axis=1)
        return counts, stderrs

    def _moments(self, matched: Sequence[Matched]) -> Moments:
        """A class for every condition."""
        counts = np.zeros((len(matched), len(self._symbol)))
        for index, (rows, weights) in enumerate(matched):
            line = self._line[rows]
            selected = line >= 0
            some = None if weights is None else weights[selected]
            counts[index] = np.bincount(line[selected], some, minlength=len(self._symbol))
        of, line = np.nonzero(counts)
        sums = counts[of, line]
        return Moments(
            len(matched),
            of,
            (self._symbol[line],),
            {(_COUNT,): sums, (_COUNT, _COUNT): sums},
            None if self._copies is None else self._copies[line],
            None if self._sampled is None else self._sampled[line],
        )

    def _batches(self, groups: Sequence[list[int]]) -> list[list[list[tuple[int, IntArray]]]]:
        """By batch and condition: questions with the codes of their values, none twice."""
        batches: list[list[list[tuple[int, IntArray]]]] = []
        for number, group in enumerate(groups):
            taken: list[BoolArray] = []
            for question in group:
                codes = self._codes(question)
                free = next((n for n, used in enumerate(taken) if not used[codes].any()), None)
                if free is None:
                    free = len(taken)
                    taken.append(np.zeros(self._values, np.bool_))
                    if free == len(batches):
                        batches.append([[] for _ in groups])
                taken[free][codes] = True
                batches[free][number].append((question, codes))
        return batches

    def _codes(self, place: int) -> IntArray:
        try:
            return np.array([self._known[v] for v in self._workload.questions[place].values])
        except KeyError as error:
            raise UsageError(
                f"The workload asks for {error.args[0]!r}, which column {self._column!r} of the "
                "release does not have. Make the workload from the table that was published."
            ) from None


def _read(
    estimated: Estimated, batch: Sequence[Sequence[tuple[int, IntArray]]], values: int
) -> tuple[FloatArray, ...]:
    """Estimates, standard errors and the ends of intervals: every condition has a profile, every
    question a form."""
    cells = np.full((len(batch), values), -1)
    first = np.concatenate([[0], np.cumsum([len(group) for group in batch])])
    for number, group in enumerate(batch):
        for form, (_, codes) in enumerate(group):
            cells[number, codes] = first[number] + form
    there = cells >= 0
    counted = Statistic(_COUNT, _COUNT, there.astype(np.float64), there)
    totals = estimated.read(Forms.of(np.arange(len(batch)), cells, first), [counted])
    estimates, stderrs = totals.values[0], np.sqrt(np.maximum(totals.variance([1.0]), 0.0))
    return estimates, stderrs, *totals.interval(estimates, stderrs, Z95, [1.0])
