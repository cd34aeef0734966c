"""Closed forms for operators that keep a value with its own probability, else draw uniformly.

P[x, y] = p_x·1{x=y} + (1−p_x)/m. Uniform perturbation, fine-grain perturbation and the sub-tables
of partitioned perturbation are all of this form; everything here costs O(m).
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from sfumato.errors import SingularOperator
from sfumato.operators.base import FloatArray, Operator
from sfumato.operators.inverse import Inverse


class RetentionOperator(Operator):
    """An operator of this form, by its `retentions` p."""

    @property
    @abstractmethod
    def retentions(self) -> FloatArray:
        """p_x per value."""

    def push(self, counts: FloatArray) -> FloatArray:
        return push(counts, self.retentions)

    def inverse(self) -> Inverse:
        return inverse(self.retentions)


def require_retention(retentions: FloatArray) -> None:
    """Refuse operators that keep nothing of some value: no unbiased estimate of it exists (T12)."""
    if len(retentions) > 1 and float(retentions.min()) <= 0:
        lost = np.flatnonzero(retentions <= 0)
        raise SingularOperator(
            f"The operator keeps nothing of the values with codes {lost[:12].tolist()}, so their "
            "counts cannot be estimated. Publish again with a p_min above 0."
        )


def push(counts: FloatArray, retentions: FloatArray) -> FloatArray:
    """n·P along the last axis."""
    moved = (counts * (1 - retentions)).sum(axis=-1, keepdims=True) / retentions.shape[-1]
    return np.asarray(counts * retentions + moved)


def spread(retentions: FloatArray) -> FloatArray:
    """s_y: what a record published as y adds to the estimated uniform background S.

    Methods, section 1: n̂_x = (o_x − S)/p_x with S = (Σ o/p − n)/Σ(1/p) = Σ_y o_y s_y.
    """
    require_retention(retentions)
    if len(retentions) == 1:
        return np.zeros(1)
    inverse = 1 / retentions
    return np.asarray((inverse - 1) / inverse.sum())


def inverse(retentions: FloatArray) -> Inverse:
    """W[y, x] = (1{x=y} − s_y)/p_x.

    >>> inverse(np.full(3, 0.1)).estimate(np.array([30.0, 35.0, 35.0])).round(6).tolist()
    [0.0, 50.0, 50.0]
    """
    share = spread(retentions)
    if len(retentions) == 1:
        return Inverse.nothing_done(1)
    return Inverse.of_values(1 / retentions, -share, 1 / retentions)


def total_variances(counts: FloatArray, retentions: FloatArray) -> FloatArray:
    """Σ_x Var(n̂_x) for true counts, for each row of retentions: O(m) a row.

    >>> total_variances(np.array([30.0, 10.0]), np.array([[0.5, 0.5], [0.9, 0.5]])).round(6)
    array([60.      , 13.469388])
    """
    kept = 1 / retentions
    share = (kept - 1) / kept.sum(axis=-1, keepdims=True)
    shown = push(counts, retentions)
    background = (shown * share**2).sum(axis=-1, keepdims=True)
    whole = kept**2 * (shown * (1 - 2 * share) + background) - counts
    return np.asarray(np.maximum(whole, 0.0).sum(axis=-1))


def condition(retentions: FloatArray, rounds: int = 200) -> float:
    """The 2-norm condition number of P by power iteration on PᵀP and on its inverse.

    A lower bound that is tight to a per cent or so; O(m) a round, so that 15,000 values take
    milliseconds where the matrix would take gigabytes.
    """
    if len(retentions) == 1:
        return 1.0
    if float(retentions.min()) <= 0:
        return float("inf")
    m = len(retentions)
    background, share = (1 - retentions) / m, spread(retentions)

    def forward(v: FloatArray) -> FloatArray:  # PᵀP v
        image = retentions * v + background * v.sum()
        return np.asarray(retentions * image + (background * image).sum())

    def backward(v: FloatArray) -> FloatArray:  # WᵀW v
        scaled = v / retentions
        image = scaled - share * scaled.sum()
        return np.asarray((image - (share * image).sum()) / retentions)

    norms = []
    for step in (forward, backward):
        vector, norm = 1 + np.arange(m) % 7 / 7.0, 0.0
        for _ in range(rounds):
            vector = step(vector / np.linalg.norm(vector))
            norm, last = float(np.linalg.norm(vector)), norm
            if abs(norm - last) <= 1e-9 * norm:
                break
        norms.append(norm)
    return float(np.sqrt(norms[0] * norms[1]))
