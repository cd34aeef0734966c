"""A test of independence between two keys of a question, whatever the kind of release.

Only what is published is looked at, and only what the mechanism did without looking at the other
key: see `operators.association` for why the test then has its size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.operators.association import FEW, Association, Side, association
from sfumato.operators.base import FloatArray
from sfumato.queries.classes import numbered
from sfumato.queries.evaluate import EngineAnswer
from sfumato.queries.question import Question
from sfumato.queries.sources import QuestionSource

MOST_KEYS = 2_000  # of both sides together, where people were mixed within blocks: Cov is dense


@dataclass(frozen=True)
class Independence:
    """What a chi-square test found, or why there is none."""

    statistic: float | None = None
    freedom: int | None = None
    p_value: float | None = None
    note: str = ""
    refused: str = ""

    def to_json(self) -> dict[str, object]:
        if self.refused:
            return {"refused": self.refused}
        return {
            "statistic": self.statistic,
            "degrees_of_freedom": self.freedom,
            "p_value": self.p_value,
            "note": self.note or None,
        }

    def __str__(self) -> str:
        """One or two sentences.

        >>> print(Independence(812.34, 735, 0.0243))
        Independence: chi-square 812.3 with 735 degrees of freedom, p = 0.024.
        """
        if self.refused:
            return f"Independence is not tested: {self.refused}."
        assert self.p_value is not None
        shown = f"p = {self.p_value:.2g}" if self.p_value >= 1e-4 else "p < 0.0001"
        text = (
            f"Independence: chi-square {self.statistic:,.1f} with {self.freedom:,} "
            f"{'degree' if self.freedom == 1 else 'degrees'} of freedom, {shown}."
        )
        return f"{text} {self.note}".rstrip()


def independence_of(source: QuestionSource, question: Question) -> Independence:
    """Test the two keys of a question that counts by them."""
    reason = _hindrance(source, question)
    if reason is not None:
        return Independence(refused=reason)
    engine_answer = EngineAnswer.of(source, question)
    (counts,) = [
        engine_answer.moments.sums[(weight.weight,)] for weight in engine_answer.plan.sums[0]
    ]
    sides = [_side(source, engine_answer, index) for index in range(2)]
    block, note = None, ""
    for position, key in enumerate(question.keys):
        if key.sensitive and (inside := source.mixed_within(sides[position].shown)) is not None:
            block = inside
            note = (
                "It is a test within the blocks that people were mixed in: what differs between "
                "blocks does not count."
            )
    keys = [side.scores.shape[1] for side in sides]
    if block is not None and keys[0] * keys[1] > MOST_KEYS:
        return Independence(
            refused=f"{keys[0]:,} by {keys[1]:,} cells are too many for a release whose people "
            f"were mixed within blocks, at most {MOST_KEYS:,}; group the values by CASE"
        )
    associated = association(sides[0], sides[1], np.asarray(counts, np.float64), block)
    return _told_of(associated, note)


def _told_of(found: Association, note: str) -> Independence:
    if not found.freedom:
        return Independence(
            refused="one side has a single key, or the records that were mixed with each other "
            "all have the same"
        )
    if found.smallest < FEW:
        rough = f"Some cells expect fewer than {FEW} people, so that p is rough."
        note = f"{note} {rough}".strip()
    return Independence(found.statistic, found.freedom, found.p_value, note)


def _hindrance(source: QuestionSource, question: Question) -> str | None:
    """Why a test would not have its size, if it would not."""
    person = source.release.manifest.person
    if person is not None and person.rows > 1:
        return "people have several records, which are alike"
    if any(term.sensitive for term in question.where):
        return "the condition is about a sensitive column, so that whom it selects is not known"
    one, other = question.keys
    if one.is_mixed or other.is_mixed or max(len(one.sensitive), len(other.sensitive)) > 1:
        return "a side is made of several columns, one of them sensitive; name one column by side"
    if one.sensitive & other.sensitive:
        return "both sides are made of the same sensitive column"
    if one.sensitive and other.sensitive and source.deals_together:
        return "both sensitive columns assign buckets together, so neither can be assigned anew"
    return source.untestable() if one.sensitive or other.sensitive else None


def _side(source: QuestionSource, told: EngineAnswer, place: int) -> Side:
    key = told.plan.question.keys[place]
    if not key.sensitive:
        numbers, _ = numbered([told.lines.column(f"k{place}")], len(told.lines))
        line_of_class = told.classes.first_of_key[told.classes.key]
        return Side.exact(numbers[line_of_class[told.moments.of]])
    assert told.cells is not None
    (name,) = key.sensitive
    column_index = told.plan.columns.index(name)
    asked = _keys_of_values(told.cells.table, f"x{column_index}", f"k{place}")
    return Side(told.moments.shown[column_index], source.scores(name, asked))


def _keys_of_values(table: pa.Table, value: str, key: str) -> FloatArray:
    """By (key, value): 1 where the value has the key."""
    keys, _ = numbered([table.column(key)], len(table))
    values = np.asarray(table.column(value).to_numpy(), np.int64)
    matrix = np.zeros((int(keys.max(initial=-1)) + 1, int(values.max(initial=-1)) + 1))
    matrix[keys, values] = 1.0
    return matrix
