"""What blocks of buckets tell of a deviation that they share (methods, section 7).

`BlockTable` has the counts of the blocks and how values meet in their buckets; `Deviations` is what
follows from it for some groups of records: δ along the eigenvectors of G, and the variances of all
that is estimated with it. `operators.local` says where the formulas come from.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.pool_matrices import by_pool

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_ROUNDS = 30
_SETTLED = 1e-3
_TOLD = 1e-9  # of the largest eigenvalue: directions with less tell nothing


@dataclass(frozen=True, eq=False)
class BlockTable:
    """All blocks: `first` bucket, real records, and by value what is listed and shown on average.

    `together` has a row for each block: C_k, flat. With fake values among the listed ones, D and C
    are scaled to the real records, and `shown` is what the shares of the real ones would show.
    """

    first: IntArray
    rows: FloatArray  # N_k
    counts: FloatArray  # real records by (block, value)
    listed: FloatArray  # D_k
    shown: FloatArray  # Mᵀ·counts
    together: csr_array
    buckets: csr_array | None = None  # √|g|·(shares of values) by bucket, where they are known

    @classmethod
    def of(cls, held: csr_array, first: IntArray, counts: FloatArray | None) -> BlockTable:
        """From the buckets (buckets by values) and the first bucket of every block.

        `counts` are those of real records; None where nothing else is listed.

        >>> from scipy.sparse import csr_array
        >>> held = csr_array(np.array([[1, 1, 0], [1, 0, 1], [0, 2, 2]]))
        >>> table = BlockTable.of(held, np.array([0, 2]), None)
        >>> table.rows.tolist(), table.together.toarray()[1].reshape(3, 3).tolist()
        ([4.0, 4.0], [[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
        """
        from scipy.sparse import csr_array, vstack

        values, ends = held.shape[1], [*first[1:].tolist(), held.shape[0]]
        listed, rows, shown, flat, buckets = [], [], [], [], []
        for number, (low, high) in enumerate(zip(first.tolist(), ends, strict=True)):
            inside = csr_array(held[low:high].astype(np.float64))
            share = csr_array(inside / np.maximum(inside.sum(axis=1), 1.0)[:, None])
            whole = np.asarray(inside.sum(axis=0))
            real = whole if counts is None else counts[number]
            scale = float(real.sum()) / max(float(whole.sum()), 1.0)
            met = csr_array(inside.T @ share)
            shown.append(met @ (real / np.maximum(whole, 1.0)))
            listed.append(whole * scale)
            rows.append(max(float(real.sum()), 1.0))
            flat.append(csr_array(met * scale).reshape((1, values * values)))
            buckets.append(csr_array(share * np.sqrt(inside.sum(axis=1) * scale)[:, None]))
        every = np.stack(listed) if counts is None else counts
        return cls(
            first,
            np.array(rows),
            every,
            np.stack(listed),
            np.stack(shown),
            csr_array(vstack(flat)),
            csr_array(vstack(buckets)),
        )

    @classmethod
    def met(cls, first: IntArray, counts: IntArray, together: Iterable[csr_array]) -> BlockTable:
        """From C_k of every block, where nothing but real records is listed.

        >>> from scipy.sparse import csr_array
        >>> table = BlockTable.met(np.array([0]), np.array([[2, 2]]), [csr_array(np.ones((2, 2)))])
        >>> table.listed.tolist(), table.shown.tolist()
        ([[2.0, 2.0]], [[2.0, 2.0]])
        """
        from scipy.sparse import csr_array, vstack

        held = counts.astype(np.float64)
        rows = np.maximum(held.sum(axis=1), 1.0)
        flat = [each.reshape((1, counts.shape[1] ** 2)) for each in together]
        return cls(first, rows, held, held, held, csr_array(vstack(flat)))

    def summed(self, weights: Any) -> tuple[FloatArray, FloatArray]:
        """Σ_k weight_k·D_k and Σ_k weight_k·C_k, by row of the weights (rows by blocks)."""
        values = self.listed.shape[1]
        together = (weights @ self.together).toarray()
        return np.asarray(weights @ self.listed), together.reshape(-1, values, values)

    def products(self, weights: Any) -> FloatArray:
        """Σ_k weight_k·D_kD_kᵀ/N_k, by row of the weights."""
        weighed = (weights * (1 / self.rows)).tocsr()
        found = []
        for low, high in itertools.pairwise(weighed.indptr.tolist()):
            inside = self.listed[weighed.indices[low:high]]
            found.append(inside.T @ (weighed.data[low:high, None] * inside))
        return np.stack(found) if found else np.zeros((0, *2 * self.listed.shape[1:]))

    def spectra(self, weights: Any, together: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues and vectors of Σ_k weight_k·(C_k − D_kD_kᵀ/N_k), by row of the weights.

        Of `together`, Σ_k weight_k·C_k. Where there are fewer buckets than values, directions
        that the buckets tell nothing of are left out.
        """
        values = self.listed.shape[1]
        if self.buckets is not None:
            inside = np.diff(np.append(self.first, self.buckets.shape[0]))
            if 2 * ((weights > 0) @ inside).max(initial=0) <= values:
                return self._spectra_of_buckets(weights)
        known, vectors = np.linalg.eigh(together - self.products(weights))
        return np.maximum(known, 0.0), vectors

    def _spectra_of_buckets(self, weights: Any) -> tuple[FloatArray, FloatArray]:
        """C − DDᵀ/N is Σ_g |g|·(s_g − s)(s_g − s)ᵀ, with s_g the shares of values in bucket g and s
        those in its block. So the vectors follow from a matrix of buckets by buckets."""
        assert self.buckets is not None
        ends, found = [*self.first[1:].tolist(), self.buckets.shape[0]], []
        for row in range(weights.shape[0]):
            low, high = weights.indptr[row : row + 2].tolist()
            rises = []
            for block, weight in zip(
                weights.indices[low:high], weights.data[low:high], strict=True
            ):
                held = self.buckets[int(self.first[block]) : ends[block]].toarray()
                root = held.sum(axis=1)[:, None]  # √|g|: shares add up to 1
                rises.append(
                    np.sqrt(weight) * (held - root * self.listed[block] / self.rows[block])
                )
            whole = np.concatenate(rises) if rises else np.zeros((0, self.listed.shape[1]))
            known, turned = np.linalg.eigh(whole @ whole.T)
            told = known > _TOLD * known.max(initial=0.0)
            vectors = whole.T @ (turned[:, told] / np.sqrt(known[told]))
            found.append((known[told], vectors))
        most = max((len(known) for known, _ in found), default=0)
        every = np.zeros((len(found), most))
        along = np.zeros((len(found), self.listed.shape[1], most))
        for row, (known, vectors) in enumerate(found):
            every[row, : len(known)], along[row, :, : len(known)] = known, vectors
        return every, along


@dataclass(frozen=True, eq=False)
class Deviations:
    """δ of some groups along the eigenvectors of G: what is shown, believed and known of it."""

    hidden: FloatArray  # F − E by (group, value, value)
    vectors: FloatArray  # (group, value, direction): all, or those that are told anything of
    known: FloatArray  # Γ by (group, direction)
    shown: FloatArray  # Vᵀr
    spread: FloatArray  # τ² by group
    chance: FloatArray | None = None  # Cov(n | δ, o), where it is not F − E

    @classmethod
    def fitted(cls, table: BlockTable, loose: Any, residual: FloatArray) -> Self:
        """δ of groups with these f (groups by blocks, sparse) and these r."""
        listed, together = table.summed(loose)
        diagonal = np.arange(listed.shape[1])
        hidden = -together
        hidden[:, diagonal, diagonal] += listed
        known, vectors = table.spectra(loose, together)
        along = (residual[:, None, :] @ vectors)[:, 0, :]
        return cls(hidden, vectors, known, along, likeliest(known, along))

    def moved(self) -> dict[str, FloatArray]:
        """(F − E)·δ by (group, value), for every estimator by name."""
        along = {"shrunk": self.shown * self.left, "inverse": self.shown * self.noise}
        return {
            name: _applied(self.hidden, _applied(self.vectors, each))
            for name, each in along.items()
        }

    @property
    def left(self) -> FloatArray:
        """The variances of δ that are left, by (group, direction)."""
        return np.asarray(self.spread[:, None] / (1 + self.spread[:, None] * self.known))

    @property
    def noise(self) -> FloatArray:
        """Those of G⁺r."""
        told = self.known > _TOLD * self.known.max(axis=1, initial=0.0)[:, None]
        return np.divide(1.0, self.known, out=np.zeros_like(self.known), where=told)

    def quadratics(self, group: IntArray, forms: FloatArray) -> FloatArray:
        """For linear forms u by (pair, value): uᵀ·Cov(n | δ, o)·u, and δ's left, noise and prior.

        The variance of an estimate is the first, and one of the others; shape (4, pairs).
        """
        turned, own = np.empty_like(forms), np.empty(len(forms))
        chance = self.hidden if self.chance is None else self.chance
        along = np.empty((len(forms), self.known.shape[1]))
        for each, pairs in by_pool(group):  # a matrix of many values is not copied for every pair
            turned[pairs] = forms[pairs] @ self.hidden[each]
            along[pairs] = (turned[pairs] @ self.vectors[each]) ** 2
            own[pairs] = ((forms[pairs] @ chance[each]) * forms[pairs]).sum(axis=1)
        prior = self.spread[group] * (turned**2).sum(axis=1)
        learned = self.spread[:, None] * self.left * self.known  # of directions left out: nothing
        return np.stack(
            [
                own,
                np.maximum(prior - (along * learned[group]).sum(axis=1), 0.0),
                (along * self.noise[group]).sum(axis=1),
                prior,
            ]
        )


def _applied(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """matrices[k] @ vectors[k]."""
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def likeliest(known: FloatArray, shown: FloatArray) -> FloatArray:
    """τ² by row, from shown ~ N(0, Γ + τ²Γ²): Fisher's scoring of the likelihood."""
    told = known > _TOLD * known.max(axis=1, initial=0.0)[:, None]
    excess = np.divide(shown**2, known, out=np.zeros_like(known), where=told) - 1
    spread, going = np.zeros(len(known)), np.ones(len(known), np.bool_)
    for _ in range(_ROUNDS):
        weigh = np.where(told, known / (1 + spread[:, None] * known) ** 2, 0.0)
        below = (weigh * known).sum(axis=1)
        renewed = np.divide(
            (weigh * excess).sum(axis=1), below, out=np.zeros(len(known)), where=below > 0
        )
        renewed = np.maximum(renewed, 0.0)
        settled = np.abs(renewed - spread) <= _SETTLED * np.maximum(renewed, 1e-12)
        # each row stops by itself: what is asked beside it must not move its answer
        spread = np.where(going, renewed, spread)
        going &= ~settled
        if not going.any():
            break
    return spread
