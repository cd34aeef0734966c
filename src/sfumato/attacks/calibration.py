"""Confidence that means what it says: of those believed with 30 %, three in ten are right."""

from __future__ import annotations

import numpy as np

from sfumato.draws import BoolArray
from sfumato.operators.base import FloatArray

_FOLDS = 5


def calibrated(confidence: FloatArray, right: BoolArray) -> FloatArray:
    """Confidence, corrected by how often it was right for *other* people.

    Isotonic regression of success on the confidence that was claimed, from four fifths of the
    people for the last fifth. A step of it that stands on few people is drawn towards the success
    among all, by the weight of one person. What it says of somebody so does not depend on whether
    the guess about that person was right. O(n log n).

    >>> right = np.arange(7000) % 7 < 2
    >>> calibrated(np.full(7000, 0.9), right)[:2].round(3).tolist()
    [0.286, 0.286]
    """
    from scipy.optimize import isotonic_regression

    calibrated_chances = np.full(len(right), right.mean() if len(right) else 0.0)
    fold = np.arange(len(right)) % _FOLDS
    for number in range(_FOLDS if len(right) >= 2 * _FOLDS else 0):
        others, those = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        claimed, inverse, people = np.unique(
            confidence[others], return_inverse=True, return_counts=True
        )
        hits = np.bincount(inverse, right[others])
        blocks = isotonic_regression(hits / people, weights=people).blocks
        hit, size = (np.add.reduceat(counts, blocks[:-1]) for counts in (hits, people))
        overall = right[others].mean()
        step = np.searchsorted(claimed[blocks[:-1]], confidence[those], side="right") - 1
        calibrated_chances[those] = ((hit + overall) / (size + 1))[np.maximum(step, 0)]
    return calibrated_chances
