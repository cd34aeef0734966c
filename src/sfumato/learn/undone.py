"""Records that count towards values without bias: the backward correction.

Where a symbol y is shown with the chances L[y, x], and p has the shares of the values, a record
that shows y counts

    W[y] = p + (g(y) − p)·M⁻¹,    g(y) = chances given y under p,    M = Lᵀ·g,

towards the values: on average over what it may show, 1 towards its own and 0 towards all others,
and with the least noise that is possible near p. With as many symbols as values this is the inverse
of the operator; with buckets it is the inverse of how often values meet (methods, section 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.links import Chances, RecordLikelihoods

_UNSEEN = 1e-9  # an eigenvalue that rounding cannot tell from 0
_LEAST = 1e-30


def unbiased_weights(likelihood: FloatArray, prior: FloatArray) -> tuple[FloatArray, float]:
    """W by (symbol, value), and the least eigenvalue of M: 1 where all is shown, 0 where some
    values cannot be told apart, which then keep to their shares.

    >>> chances = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> weights, told = unbiased_weights(chances, np.array([0.5, 0.5]))
    >>> weights.round(9).tolist(), round(told, 9)
    ([[1.5, -0.5], [-0.5, 1.5]], 0.25)
    """
    root = np.sqrt(np.maximum(prior, _LEAST))
    score, eigenvalues, vectors = _spectrum(likelihood, prior, root)
    seen = eigenvalues > _UNSEEN
    undo = (vectors[:, seen] / eigenvalues[seen]) @ vectors[:, seen].T
    return np.asarray(prior + score @ undo * root), float(eigenvalues[0])


def _spectrum(
    likelihood: FloatArray, prior: FloatArray, root: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(g − p)/√p, and the eigenvalues and vectors of M in these units, in which it is symmetric
    and its eigenvalues lie between 0 and 1."""
    joint = likelihood * prior
    conditional = joint / np.maximum(joint.sum(axis=1, keepdims=True), _LEAST)
    scaled = (likelihood.T @ conditional) * root[:, None] / root
    eigenvalues, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    return (conditional - prior) / root, eigenvalues, vectors


@dataclass(frozen=True, eq=False)
class Undone(RecordLikelihoods):
    """Record r counts `weights[r, x]` towards x, whatever a rule says; `unit` is its unit's."""

    weights: FloatArray
    unit: IntArray

    is_latent: ClassVar[bool] = False

    @property
    def units(self) -> int:  # type: ignore[override]
        return int(self.unit.max(initial=-1)) + 1

    def of(self, chosen: IntArray) -> tuple[IntArray, Undone]:
        new = np.full(self.units, -1, np.int64)
        new[np.sort(chosen)] = np.arange(len(chosen))
        rows = np.flatnonzero(new[self.unit] >= 0)
        return rows, Undone(self.weights[rows], new[self.unit[rows]])

    def weigh(self, chances: Chances) -> tuple[float, Chances]:
        """The unbiased estimate of the log likelihood that the true values would have."""
        weights = self.weights.astype(chances.dtype)
        return float((weights * np.log(np.maximum(chances, _LEAST))).sum(dtype=np.float64)), weights
