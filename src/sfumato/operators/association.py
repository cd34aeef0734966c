"""Whether two columns go together, from what a release shows of them (methods, section 9).

If a sensitive column is independent of another, its values could be dealt anew to the records
without anybody noticing; and what a mechanism makes of them without looking at the other column
could be dealt anew with them. So the published table is, under independence, one of all the ways to
pair what is shown on one side with what is shown on the other, each as likely as the next. Over
these ways the sum D of the products of two scores has mean 0 and a covariance that is known without
any estimate, so that D' Cov⁺ D follows chi-square (Cochran, Mantel, Haenszel; Landis et al. 1978).
With one indicator per symbol as scores it is Pearson's statistic times (n − 1)/n. Where people were
mixed within blocks only, ways are dealt within blocks, and the blocks' sums are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray

_RANK = 1e-9  # of the largest eigenvalue: what is taken for 0
FEW = 5  # expected people in a cell, below which chi-square is rough


@dataclass(frozen=True, eq=False)
class Side:
    """One of two columns: what every line shows of it, and what a symbol scores for every key."""

    shown: IntArray  # by line
    scores: Any  # (symbols, keys), dense or sparse

    @classmethod
    def exact(cls, keys: IntArray) -> Side:
        """Every record shows its key."""
        return cls(keys, np.eye(int(keys.max(initial=-1)) + 1))


@dataclass(frozen=True)
class Association:
    """The statistic and its degrees of freedom; `smallest` is about the smallest expected cell."""

    statistic: float
    freedom: int
    smallest: float

    @property
    def p_value(self) -> float:
        from scipy.stats import chi2

        return float(chi2.sf(self.statistic, self.freedom))


def association(
    one: Side, other: Side, counts: FloatArray, block: IntArray | None = None
) -> Association:
    """Test the independence of two sides; `counts` has the records of every line.

    >>> row, column = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    >>> found = association(Side.exact(row), Side.exact(column), np.array([30.0, 20, 20, 30]))
    >>> round(found.statistic, 3), found.freedom, found.smallest  # Pearson's 4 times 99/100
    (3.96, 1, 25.0)
    """
    block = np.zeros(len(counts), np.int64) if block is None else block
    parts = [np.flatnonzero(block == number) for number in np.unique(block)]
    sums = [_moments(one, other, counts, lines) for lines in parts]
    smallest = min((part.smallest for part in sums), default=0.0)
    if len(sums) == 1:
        (only,) = sums
        first, rank_one = _inverse(only.one)
        second, rank_other = _inverse(only.other)
        products = np.einsum("ij,ia,jb,ab->", first, only.products, only.products, second)
        return Association(float(products / only.factor), rank_one * rank_other, smallest)
    keys = one.scores.shape[1] * other.scores.shape[1]
    flat, covariance = np.zeros(keys), np.zeros((keys, keys))
    for part in sums:
        flat += part.products.ravel()
        covariance += part.factor * np.kron(part.one, part.other)
    inverse, freedom = _inverse(covariance)
    return Association(float(flat @ inverse @ flat), freedom, smallest)


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
