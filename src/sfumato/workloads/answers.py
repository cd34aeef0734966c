"""A release's answers to thousands of count questions: what `query` says, from one join.

The records that satisfy the conditions of all questions are counted by SQL, by what they show; from
there on the estimators that answer SQL do: equal to `sf.open(release).sql(question.sql())`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.columns import Value, value_to_json
from sfumato.draws import Draws, IntArray
from sfumato.engines.counting import Progress, no_progress
from sfumato.errors import UsageError, WeakPromiseWarning
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Forms, Statistic
from sfumato.queries import ask
from sfumato.queries.evaluate import source_of
from sfumato.queries.question import ENDS
from sfumato.queries.ranges import stored
from sfumato.queries.session import session_of
from sfumato.queries.sources import QuestionSource
from sfumato.release import Release
from sfumato.workloads.people import code_of
from sfumato.workloads.questions import Conditions, CountQuestion, Workload

_AT_ONCE = 1 << 22  # cells (question, value, value) that are worked on together
_STATED = 50  # questions that are asked in one statement
_COUNT, _CLASS = "n", "__class"
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

    Quasi values that a release merged are taken as evenly filled: such answers have no error bar.
    """
    opened = release if isinstance(release, Release) else Release(release)
    answers = np.zeros((len(ENDS), len(workload)))
    source = source_of(opened, session_of(opened))
    by_question = _joined if source.counts_exactly else _one_by_one
    with warnings.catch_warnings():  # told by whoever asks one question, not by thousands
        warnings.simplefilter("ignore", WeakPromiseWarning)
        for column in sorted({question.column for question in workload.questions}):
            if opened.column(column).role != "sensitive":
                raise UsageError(
                    f"The workload counts values of {column!r}, which is not sensitive."
                )
            places = [n for n, asked in enumerate(workload.questions) if asked.column == column]
            asked = [workload.questions[place] for place in places]
            answers[:, places] = by_question(source, column, asked, progress)
    return WorkloadAnswers(*answers)


def _one_by_one(
    source: QuestionSource, column: str, asked: Sequence[CountQuestion], progress: Progress
) -> FloatArray:
    """Ranges and sets are weighed question by question, some in one statement."""
    rows = []
    for low in range(0, len(asked), _STATED):
        progress("asking", low, len(asked))
        some = range(low, min(low + _STATED, len(asked)))
        counts = [f"COUNT(*) FILTER (WHERE {asked[n].condition}) AS n{n}" for n in some]
        (row,) = ask(source.release, f"SELECT {', '.join(counts)} FROM release").rows()
        rows += [[row[f"n{n}{end}"] for end in ENDS] for n in some]
    return np.array(rows, np.float64).T


def _joined(
    source: QuestionSource, column: str, asked: Sequence[CountQuestion], progress: Progress
) -> FloatArray:
    """(value, error, ends by question): a class of records for every question."""
    domain = source.release.domain(column).to_pylist()
    known = {value: code for code, value in enumerate(domain)}
    codes = np.array([code_of(question.value, column, known) for question in asked])
    conditions = _published(source.release, [question.conditions for question in asked])
    shown = {name: f"r{place}" for place, name in enumerate(source.shown([column]))}

    def run(text: str, wanted: pa.Table) -> pa.Table:
        return source.session.run(text, {"asked": wanted})

    lines = conditions.joined(shown, run, source.session.names).sort_by("q")
    question = np.asarray(lines.column("q").to_numpy(), np.int64)
    at_once = max(_AT_ONCE // max(len(domain) ** 2, 1), 1)
    parts = []
    for low in range(0, len(asked), at_once):
        progress("asking", low, len(asked))
        some = codes[low : low + at_once]
        first, last = np.searchsorted(question, [low, low + at_once])
        part = lines.slice(first, last - first)
        cells = np.full((len(some), len(domain)), -1)
        cells[np.arange(len(some)), some] = np.arange(len(some))
        forms = Forms.of(np.arange(len(some)), cells, np.arange(len(some) + 1))
        names = {name: part.column(short) for name, short in shown.items()}
        numbers = np.asarray(part.column("n").to_numpy(), np.float64)
        parts.append(_read(source, column, names, question[first:last] - low, numbers, forms))
    answers = np.concatenate(parts, axis=1)
    answers[1:, conditions.weights < 1] = np.nan  # of merged values no error is known
    return answers


def _published(release: Release, asked: Sequence[Mapping[str, Value]]) -> Conditions:
    """Conditions as the release shows them: a merged value as its text, with its even share."""
    merged = {
        name: {value: part for part in parts for value in part.values}
        for name, parts in release.merges.items()
    }
    conditions: list[dict[str, Value]] = []
    weights = np.ones(len(asked))
    for number, question in enumerate(asked):
        conditions.append(dict(question))
        for name, value in question.items():
            if release.column(name).role != "quasi":
                raise UsageError(f"The workload asks about {name!r}, which is no quasi-identifier.")
            part = merged.get(name, {}).get(value_to_json(value))
            if part is not None:
                conditions[-1][name] = part.label
                weights[number] /= len(part.values)
    kinds = {field.name: field.type for field in pq.read_schema(release.records[0])}
    types = {n: k.value_type if pa.types.is_dictionary(k) else k for n, k in kinds.items()}
    return Conditions(conditions, types, weights)


def answers_of_shares(
    release: Release, column: str, shares: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """By (share, value): the count of a value and its standard error, among so large a share of
    the people, drawn at random."""
    source = source_of(release, session_of(release))
    shown = {name: pa.chunked_array([stored(release, name)]) for name in source.shown([column])}
    order = Draws.from_seed(0).order("shares", release.rows)
    values = len(release.domain(column))
    at_once = max(_AT_ONCE // max(values**2, 1), 1)
    parts = []
    for low in range(0, len(shares), at_once):
        many = [round(share * release.rows) for share in shares[low : low + at_once]]
        some = pa.array(np.concatenate([order[:number] for number in many]))
        drawn = pa.table({name: records.take(some) for name, records in shown.items()})
        drawn = drawn.append_column(_CLASS, pa.array(np.repeat(np.arange(len(many)), many)))
        lines = drawn.group_by([_CLASS, *shown], use_threads=False).aggregate([([], "count_all")])
        every = np.arange(values)[None, :]
        forms = Forms.of(np.zeros(len(many), np.int64), every, np.array([0, values]))
        of = lines.column(_CLASS).to_numpy()
        numbers = lines.column("count_all").to_numpy().astype(np.float64)
        said = {name: lines.column(name) for name in shown}
        parts.append(_read(source, column, said, of, numbers, forms)[:2])
    counts, stderrs = np.concatenate(parts, axis=1).reshape(2, len(shares), values)
    return counts, stderrs


def _read(
    source: QuestionSource,
    column: str,
    shown: Mapping[str, pa.ChunkedArray],
    of: IntArray,
    numbers: FloatArray,
    forms: Forms,
) -> FloatArray:
    """Value, standard error and ends of every form, from lines: what they show, their class, and
    how many records each has."""
    sums = {(_COUNT,): numbers, (_COUNT, _COUNT): numbers}
    moments = source.read([column], shown).moments(len(forms.profile), of, sums)
    inside = forms.cells >= 0
    statistic = Statistic(_COUNT, _COUNT, inside.astype(np.float64), inside)
    estimator = source.estimator([column], source.estimators[0])
    totals = estimator(moments).read(forms, [statistic])
    estimates, stderrs = totals.values[0], np.sqrt(np.maximum(totals.variance([1.0]), 0.0))
    return np.stack([estimates, stderrs, *totals.interval(estimates, stderrs, Z95, [1.0])])
