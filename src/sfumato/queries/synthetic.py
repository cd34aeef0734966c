"""Answers from synthetic releases: counts of the synthetic table, without error bars."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.errors import QueryError, WeakPromiseWarning
from sfumato.queries.answer import Answer
from sfumato.queries.evaluate import Wishes, answer_perturbed
from sfumato.queries.question import Question
from sfumato.queries.select import ERRORS

if TYPE_CHECKING:
    from sfumato.release import Release


def answer_synthetic(release: Release, question: Question, wishes: Wishes) -> Answer:
    """What the synthetic records say. How far that is from the truth, the release cannot know."""
    if wishes.estimator is not None:
        raise QueryError(
            f"A synthetic release has no estimator {wishes.estimator!r}: its records are counted "
            "as they are. Leave the estimator out."
        )
    answer = answer_perturbed(release, question, wishes)
    if not question.sensitive:
        return answer
    warnings.warn(
        "The sensitive columns of this release were drawn anew: answers about them hold for "
        "synthetic people and have no error bar.",
        WeakPromiseWarning,
        stacklevel=3,
    )
    table = answer.table
    for name in answer.aggregates:
        for error in ERRORS:
            place = table.column_names.index(f"{name}_{error}")
            unknown = pa.nulls(table.num_rows, table.schema.field(place).type)
            table = table.set_column(place, f"{name}_{error}", unknown)
    return Answer(table, answer.aggregates, answer.confidence)
