"""What is seen of one column of the records: its values themselves, or what a release shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.draws import IntArray
from sfumato.errors import SingularOperator
from sfumato.operators.base import FloatArray
from sfumato.operators.links import RecordLikelihoods, ShownSymbols, seen_truth

_UNSEEN = 1e-9  # an eigenvalue that rounding cannot tell from 0
_LEAST = 1e-30
_HARDLY = 1e-4  # the least eigenvalue at which values can still be told apart


@dataclass(frozen=True, eq=False)
class Seen:
    """A column of the records, as far as it is seen."""

    name: str
    values: tuple[Any, ...]  # what it may hold, sorted
    prior: FloatArray  # their shares
    shown: IntArray  # by record: its symbol
    likelihood: FloatArray  # Pr(symbol | value), (symbols, values), up to a factor by symbol
    unit: IntArray  # by record: what is independent of all others
    together: RecordLikelihoods | None = None  # where the records of a unit tell of each other
    listed: Any = None  # (units, values), where units list values: how often
    block: IntArray | None = None  # by unit, where people were mixed block by block
    cut_by: tuple[str, ...] = ()  # the columns by which blocks were cut
    copies: FloatArray | None = None  # by record: how many of them stand for one that was drawn

    @property
    def records(self) -> int:
        return len(self.shown)

    @property
    def units(self) -> int:
        return int(self.unit.max(initial=-1)) + 1

    @property
    def blocks(self) -> IntArray:
        """By unit: the block inside which its people were mixed."""
        return np.zeros(self.units, np.int64) if self.block is None else self.block

    def unbiased(self) -> FloatArray:
        """What every record counts towards every value, block by block: (records, values)."""
        weights, least = np.zeros_like(self.likelihood), 1.0
        blocks = np.zeros(len(weights), np.int64) if self.listed is None else self.blocks
        for number in np.unique(blocks):
            inside = np.flatnonzero(blocks == number)
            shares = self.prior if self.listed is None else self.listed[inside].sum(axis=0)
            there = np.flatnonzero(shares)  # a value that nobody in the block has counts nothing
            cells = np.ix_(inside, there)
            prior = shares[there] / shares.sum()
            weights[cells], told = unbiased_weights(self.likelihood[cells], prior)
            least = min(least, told)
        if least < _HARDLY:
            raise SingularOperator(
                f"The release cannot tell some values of column {self.name!r} apart, so nothing "
                "that counts them without bias can be learned."
            )
        return np.asarray(weights[self.shown])

    @property
    def evidence(self) -> RecordLikelihoods:
        """What a rule is fitted to."""
        return self.together or ShownSymbols(self.shown, self.likelihood)


def truly_seen(name: str, values: tuple[Any, ...], codes: IntArray) -> Seen:
    """A column whose values are seen."""
    many = len(values)
    prior = np.bincount(codes, minlength=many) / max(len(codes), 1)
    evidence = seen_truth(codes, many)
    return Seen(name, values, prior, codes, evidence.likelihood, np.arange(len(codes)))


def unbiased_weights(likelihood: FloatArray, prior: FloatArray) -> tuple[FloatArray, float]:
    """W by (symbol, value), and the least eigenvalue of M: 1 where all is shown, 0 where some
    values cannot be told apart, which then keep to their shares.

    Where a symbol y is shown with the chances L[y, x], and p has the shares of the values,

        W[y] = p + (g(y) − p)·M⁻¹,    g(y) = chances given y under p,    M = Lᵀ·g:

    on average over what it may show a record counts 1 towards its own value and 0 towards others,
    with the least noise that is possible near p (methods, section 1).

    >>> chances = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> weights, told = unbiased_weights(chances, np.array([0.5, 0.5]))
    >>> weights.round(9).tolist(), round(told, 9)
    ([[1.5, -0.5], [-0.5, 1.5]], 0.25)
    """
    root = np.sqrt(np.maximum(prior, _LEAST))
    joint = likelihood * prior
    conditional = joint / np.maximum(joint.sum(axis=1, keepdims=True), _LEAST)
    # in these units M is symmetric and its eigenvalues lie between 0 and 1
    scaled = (likelihood.T @ conditional) * root[:, None] / root
    eigenvalues, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    seen = eigenvalues > _UNSEEN
    undo = (vectors[:, seen] / eigenvalues[seen]) @ vectors[:, seen].T
    return np.asarray(prior + (conditional - prior) / root @ undo * root), float(eigenvalues[0])
