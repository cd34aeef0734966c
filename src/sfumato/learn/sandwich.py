"""How uncertain fitted numbers are: the sandwich H⁻¹·S·H⁻¹.

H is how the mean score changes with the numbers, S how much the score of all records scatters. What
publishing added is in what records show, and so in their scores: records that were drawn one by one
are independent, and S = Σ u·uᵀ over them. Records that were copied count as often as there are
copies of one. Buckets list fixed values: their scores are split into what follows from the list,
which scatters as the histograms of all blocks do, and the rest, which scatters from bucket to
bucket (methods, section 11).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.draws import IntArray
from sfumato.learn.seen import Seen
from sfumato.operators.base import FloatArray

_ROWS = 1 << 12  # records that are worked on at once
_STEP = 1e-4  # of a difference quotient, in units in which features have variance 1
_LEAST = 1e-12

Scores = Callable[[slice], FloatArray]  # of some records, (records, numbers)


def scatter(
    scores: Scores, records: int, seen: Seen | None, followed: FloatArray | None = None
) -> FloatArray:
    """S; `seen` is the column that publishing changed, None where all is raw.

    `followed` is F where a rule tells it: what a person scores on average, by block and value.
    """
    pieces = [slice(low, low + _ROWS) for low in range(0, records, _ROWS)]
    if seen is None or seen.listed is None:
        copies = np.ones(records) if seen is None or seen.copies is None else seen.copies
        whole: FloatArray | float = 0.0
        for piece in pieces:
            piece_scores = scores(piece)
            whole = whole + (piece_scores * copies[piece, None]).T @ piece_scores
        return np.asarray(whole)
    by_unit: FloatArray | None = None
    for piece in pieces:
        piece_scores = scores(piece)
        if by_unit is None:
            by_unit = np.zeros((seen.units, piece_scores.shape[1]))
        np.add.at(by_unit, seen.unit[piece], piece_scores)
    assert by_unit is not None
    listed = np.asarray(seen.listed)
    if followed is None:
        piece_scores, *_ = np.linalg.lstsq(listed, by_unit, rcond=None)
        return _listed_scatter(by_unit, listed, np.zeros(seen.units, np.int64), piece_scores[None])
    return _listed_scatter(by_unit, listed, seen.blocks, followed)


def _listed_scatter(
    scores: FloatArray, listed: FloatArray, block: IntArray, followed: FloatArray
) -> FloatArray:
    """S where unit u lists `listed[u]`: the rest from unit to unit, and the histograms'.

    `followed` has by (block, value) what follows from one more of the value in a list.
    """
    chances = np.zeros(followed.shape[:2])
    np.add.at(chances, block, listed)
    mean = np.tensordot(chances, followed, 2) / max(chances.sum(), 1.0)
    meat = np.zeros((scores.shape[1], scores.shape[1]))
    for number, followers in enumerate(followed):
        inside = block == number
        rest = scores[inside] - listed[inside] @ followers
        around = followers - mean
        meat += rest.T @ rest + (around * chances[number][:, None]).T @ around
    return meat


def softmax_scores(design: Any, chances: FloatArray, block: IntArray) -> FloatArray:
    """F of slopes against the first class: what the people of a block with a value score on average
    under the rule itself, if the value is seen; by (block, value, number).

    Lists alone do not tell it: a value that nearly every bucket of a block lists goes with all.
    """
    from scipy.sparse import csr_array

    classes = chances.shape[1]
    block_scores = np.zeros((int(block.max(initial=-1)) + 1, classes, design.shape[1], classes - 1))
    for number, of_block in enumerate(block_scores):
        inside = np.flatnonzero(block == number)
        rows, chance = csr_array(design[inside]), chances[inside]
        for value, score in enumerate(of_block):
            score -= rows.T @ (chance[:, [value]] * chance[:, 1:])
            if value:
                score[:, value - 1] += rows.T @ chance[:, value]
            score /= max(float(chance[:, value].sum()), _LEAST)
    return block_scores.reshape(*block_scores.shape[:2], -1)


def softmax_curvature(design: Any, chances: FloatArray, given: FloatArray) -> FloatArray:
    """H of slopes against the first class, where records are independent.

    By (feature, class), feature by feature.
    """
    features, classes = design.shape[1], chances.shape[1] - 1
    hessian = np.empty((features, classes, features, classes))
    for one in range(classes):
        for other in range(one + 1):
            same = float(one == other)
            weight = chances[:, one + 1] * (same - chances[:, other + 1])
            weight -= given[:, one + 1] * (same - given[:, other + 1])
            block = (design.T @ design.multiply(weight[:, None])).toarray()
            hessian[:, one, :, other] = block
            hessian[:, other, :, one] = block.T
    return hessian.reshape(features * classes, features * classes)


def curvature(score: Callable[[FloatArray], FloatArray], at: FloatArray) -> FloatArray:
    """H by differences: how the score of all records falls with every number."""
    hessian = np.empty((len(at), len(at)))
    for index in range(len(at)):
        step = np.zeros(len(at))
        step[index] = _STEP
        hessian[index] = (score(at - step) - score(at + step)) / (2 * _STEP)
    return np.asarray((hessian + hessian.T) / 2)


def sandwich(bread: FloatArray, filling: FloatArray) -> FloatArray:
    """H⁻¹·S·H⁻¹."""
    inverse = np.linalg.pinv(bread, hermitian=True)
    return np.asarray(inverse @ filling @ inverse)
