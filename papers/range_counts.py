"""The errors of mechanisms on range counts, as the generalization papers compare them.

The questions are `ranges`: λ quasi columns and the sensitive one, each in a random
stretch of its domain, so long that a share θ of the records would qualify were everything uniform
and independent (heterogeneous generalization, Section 5; errata H18).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from papers.range_questions import Between, Condition, RangeCounts, RangeQuestion, answers_of
from sfumato.columns import Column
from sfumato.draws import BoolArray, IntArray
from sfumato.engines.publishing import publish
from sfumato.mechanisms import Mechanism
from sfumato.operators.base import FloatArray
from sfumato.queries.ranges import stored
from sfumato.release import GeneralizedRelease, Release
from sfumato.release.marginals import whole_numbers
from sfumato.table import Table

Way = str | Mechanism


def median_errors(
    table: Table,
    promise: str,
    ways: Sequence[Way],
    shapes: Sequence[tuple[int, float]] = ((3, 0.25),),
    *,
    count: int = 200,
    seed: int = 1,
    kind: str = "ranges",
) -> list[dict[Way, float]]:
    """The median relative error of each mechanism under one promise, by (columns, selectivity).

    Questions whose true answer is 0 are not asked, as in the paper; every mechanism publishes once.
    """
    asked = [
        RangeCounts.of(
            table, kind, count=count, seed=seed, columns=columns, selectivity=selectivity
        )
        for columns, selectivity in shapes
    ]
    errors: list[dict[Way, float]] = [{} for _ in shapes]
    for way in ways:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "release"
            # a wide β promises nothing about common values: what that costs is the question
            publish(table, promise, to=place, mechanism=way, seed=seed, left_out=1.0)
            for error, counts in zip(errors, asked, strict=True):
                release = Release(place)
                if isinstance(release, GeneralizedRelease):
                    answers = even_answers(counts.questions, release)
                else:
                    answers = answers_of(counts.questions, release)
                error[way] = float(np.median(np.abs(answers - counts.truth) / counts.truth))
    return errors


def even_answers(questions: Sequence[RangeQuestion], release: GeneralizedRelease) -> FloatArray:
    """The counts of every question, with the papers' estimator."""
    shares: dict[str, Callable[[Condition], FloatArray]] = {}
    found = []
    for question in questions:
        values = stored(release, question.column).to_pylist()
        count = np.isin(np.array(values, object), np.array(question.values, object)) * 1.0
        for name, condition in question.conditions.items():
            if name not in shares:
                shares[name] = _shares(release, release.column(name))
            count = count * shares[name](condition)
        found.append(count.sum())
    return np.array(found)


def _shares(release: GeneralizedRelease, column: Column) -> Callable[[Condition], FloatArray]:
    if column.kind == "categorical":
        lists = stored(release, column.name)
        encoded = lists.flatten().dictionary_encode(null_encoding="encode")
        members, values = encoded.indices.to_numpy(), encoded.dictionary
        starts = np.asarray(lists.offsets.to_numpy(), np.int64)
        return lambda asked: share_of_sets(members, starts - starts[0], asked.holds(values))
    low, high = (
        stored(release, part).cast(pa.float64(), safe=False).to_numpy()
        for part in release.shown_as(column)
    )
    whole = whole_numbers(column)
    if whole is not None:
        numbers, first = pa.array(whole, pa.float64()), int(whole[0])
        return lambda asked: share_of_whole_numbers(low, high, asked.holds(numbers), first)

    def fits(asked: Condition) -> FloatArray:
        assert isinstance(asked, Between)
        return share_of_intervals(low, high, float(asked.low), float(asked.high))

    return fits


def share_of_whole_numbers(
    low: FloatArray, high: FloatArray, satisfied: BoolArray, start: int
) -> FloatArray:
    """Of ranges of whole numbers; `satisfied` says which of the numbers from `start` on do.

    >>> share_of_whole_numbers(np.array([3.0]), np.array([6.0]), np.arange(10) > 4, 0).tolist()
    [0.5]
    """
    until = np.concatenate([[0], np.cumsum(satisfied)])
    first, last = (low - start).astype(np.int64), (high - start).astype(np.int64) + 1
    return np.asarray((until[last] - until[first]) / (last - first))


def share_of_intervals(low: FloatArray, high: FloatArray, first: float, last: float) -> FloatArray:
    """The part of [low, high] inside [first, last]; a single number is inside or not.

    >>> share_of_intervals(np.array([0.0, 2.0]), np.array([4.0, 2.0]), 1.0, 2.0).tolist()
    [0.25, 1.0]
    """
    inside = np.maximum(np.minimum(high, last) - np.maximum(low, first), 0)
    width = high - low
    point = (first <= low) & (low <= last)
    return np.asarray(np.where(width > 0, inside / np.where(width > 0, width, 1), point))


def share_of_sets(members: IntArray, starts: IntArray, satisfied: BoolArray) -> FloatArray:
    """Of sets of codes; the members of set i are those from `starts[i]` to `starts[i + 1]`.

    >>> share_of_sets(np.array([0, 1, 1]), np.array([0, 2, 3]), np.array([False, True])).tolist()
    [0.5, 1.0]
    """
    until = np.concatenate([[0], np.cumsum(satisfied[members])])
    return np.asarray((until[starts[1:]] - until[starts[:-1]]) / np.diff(starts))
