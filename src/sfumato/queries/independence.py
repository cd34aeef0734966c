"""A test of independence between two keys of a question, whatever the kind of release.

Only what is published is looked at, and only what the mechanism did without looking at the other
key. If a sensitive column is independent of another, its values could be dealt anew to the records
without anybody noticing, and what a mechanism makes of them with them. So under independence the
published table is one of all the ways to pair what is shown on one side with what is shown on the
other, each as likely as the next. Over these ways the sum D of the products of two scores has mean
0 and a covariance that is known without any estimate, so that D' Cov⁺ D follows chi-square
(Cochran, Mantel, Haenszel; Landis et al. 1978; methods, section 9). With one indicator per symbol
as scores it is Pearson's statistic times (n − 1)/n. Where people were mixed within blocks only,
ways are dealt within blocks, and the blocks' sums are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.queries.classes import numbered
from sfumato.queries.evaluate import EngineAnswer
from sfumato.queries.question import Question
from sfumato.queries.sources import QuestionSource

FEW = 5  # expected people in a cell, below which chi-square is rough
MOST_KEYS = 2_000  # of both sides together, where people were mixed within blocks: Cov is dense
_RANK = 1e-9  # of the largest eigenvalue: what is taken for 0


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
    return association(sides[0], sides[1], np.asarray(counts, np.float64), block, note)


def _hindrance(source: QuestionSource, question: Question) -> str | None:
    """Why a test would not have its size, if it would not."""
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


# -- the test --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Side:
    """One of two columns: what every line shows of it, and what a symbol scores for every key."""

    shown: IntArray  # by line
    scores: Any  # (symbols, keys), dense or sparse

    @classmethod
    def exact(cls, keys: IntArray) -> Side:
        """Every record shows its key."""
        return cls(keys, np.eye(int(keys.max(initial=-1)) + 1))


def association(
    one: Side, other: Side, counts: FloatArray, block: IntArray | None = None, note: str = ""
) -> Independence:
    """Test the independence of two sides; `counts` has the records of every line.

    >>> row, column = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    >>> found = association(Side.exact(row), Side.exact(column), np.array([30.0, 20, 20, 30]))
    >>> round(found.statistic, 3), found.freedom  # Pearson's 4 times 99/100
    (3.96, 1)
    """
    from scipy.stats import chi2

    block = np.zeros(len(counts), np.int64) if block is None else block
    sums = [_moments(one, other, counts, np.flatnonzero(block == b)) for b in np.unique(block)]
    if len(sums) == 1:
        (only,) = sums
        first, rank_one = _inverse(only.one)
        second, rank_other = _inverse(only.other)
        products = np.einsum("ij,ia,jb,ab->", first, only.products, only.products, second)
        statistic, freedom = float(products / only.factor), rank_one * rank_other
    else:
        keys = one.scores.shape[1] * other.scores.shape[1]
        flat, covariance = np.zeros(keys), np.zeros((keys, keys))
        for part in sums:
            flat += part.products.ravel()
            covariance += part.factor * np.kron(part.one, part.other)
        inverse, freedom = _inverse(covariance)
        statistic = float(flat @ inverse @ flat)
    if not freedom:
        return Independence(
            refused="one side has a single key, or the records that were mixed with each other "
            "all have the same"
        )
    if min(part.smallest for part in sums) < FEW:
        rough = f"Some cells expect fewer than {FEW} people, so that p is rough."
        note = f"{note} {rough}".strip()
    return Independence(statistic, freedom, float(chi2.sf(statistic, freedom)), note)


@dataclass(frozen=True, eq=False)
class _Moments:
    """Of one block: Σ of products of centred scores, and of either side's squares."""

    products: FloatArray  # (keys of one, keys of other)
    one: FloatArray
    other: FloatArray
    factor: float  # Cov = factor · one ⊗ other
    smallest: float


def _moments(one: Side, other: Side, counts: FloatArray, lines: IntArray) -> _Moments:
    """O(lines) time and memory, besides the squares: scores are never written down by record."""
    from scipy.sparse import csr_array

    sides = one, other
    places = [side.shown[lines] for side in sides]
    table = csr_array(
        (counts[lines], (places[0], places[1])), shape=(one.scores.shape[0], other.scores.shape[0])
    )
    number = float(table.sum())
    means, squares, shares = [], [], []
    for axis, side in enumerate(sides):
        records = np.asarray(table.sum(axis=1 - axis), np.float64)
        scores = csr_array(side.scores)
        mean = np.asarray(scores.T @ records) / max(number, 1.0)
        whole = (scores.T @ scores.multiply(records[:, None])).toarray()
        means.append(mean)
        squares.append(whole - number * np.outer(mean, mean))
        shares.append(_shares(scores.tocoo(), records, mean))
    products = (csr_array(one.scores).T @ (table @ csr_array(other.scores))).toarray()
    return _Moments(
        products - number * np.outer(*means),
        squares[0],
        squares[1],
        1 / max(number - 1, 1.0),
        number * float(shares[0].min(initial=1.0) * shares[1].min(initial=1.0)),
    )


def _shares(scores: Any, records: FloatArray, mean: FloatArray) -> FloatArray:
    """By key: the share of people that an indicator with as long a tail as the score would have.

    It is E[z²]² / E[z⁴] of the centred score z, which tells how far a sum is from normal.
    """
    moments = []
    for power in (2, 4):
        beyond = records[scores.row] * ((scores.data - mean[scores.col]) ** power)
        beyond -= records[scores.row] * mean[scores.col] ** power
        added = np.bincount(scores.col, beyond, minlength=len(mean))
        moments.append(added / max(records.sum(), 1.0) + mean**power)
    return np.asarray(np.minimum(moments[0] ** 2 / np.maximum(moments[1], 1e-300), 0.5))


def _inverse(matrix: FloatArray) -> tuple[FloatArray, int]:
    """The pseudo-inverse of a covariance, and its rank."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    kept = values > _RANK * max(float(values.max(initial=0.0)), 1e-300)
    return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T, int(kept.sum())
