"""Values of people with several rows in buckets that were mixed block by block.

`operators.local` has the law of records, `people_values` that of people who stand in a bucket with
all their rows. Both together: write h_p for the rows of person p by value, r_p for their number,
and by block D, C, P, C', P' as in `people_values`. With f as in `local`, and one δ for all blocks,
the chance that a condition takes person p moves with δᵀh_p/r_p, so that

    r = Σ_k (o_k − a_k·D_k)  has the mean G·δ,  G = Σ_k f_k(C_k − D_kD_kᵀ/N_k),
    and the covariance  G' = Σ_k f_k(C'_k − v_kv_kᵀ/s_k),  v = Σ_p r_p·h_p,  s = Σ_p r_p²,
    E[n | δ, o] = Σ_k o_k + Σ_k f_k(P_k − C_k)·δ,  Cov = Σ_k f_k(P'_k − C'_k):

n and o move together as o moves by itself, for o is what buckets show of n. δ along the
eigenvectors of G·G'⁺·G is known as `Deviations` has it. A condition that takes some rows of a
person may count anything between P and D: the middle is taken for P, and half the way to either end
is in the error. With one row a person P = P' = D and C' = C, which is `local`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.deviations import BlockTable, Deviations, likeliest

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from sfumato.operators.people_values import PeopleListed

_TOLD = 1e-9  # of the largest eigenvalue of G': directions with less are not shown


@dataclass(frozen=True, eq=False)
class PeopleBlocks:
    """What people hold together in every block. Matrices are flat, a row for each block."""

    within: csr_array  # P
    often: csr_array  # C'
    hidden: csr_array  # P' − C'
    reach: FloatArray  # v by (block, value)
    squares: FloatArray  # s
    per_person: IntArray  # rows of each of its people, by bucket

    @classmethod
    def of(cls, listed: PeopleListed, shares: csr_array, first: IntArray) -> PeopleBlocks:
        """From what is listed of people, the shares of buckets, and the first of every block."""
        from scipy.sparse import csr_array, vstack

        values = listed.held.shape[1]
        block = np.searchsorted(first, listed.bucket, side="right") - 1
        ends = [*first[1:].tolist(), shares.shape[0]]
        matrices: list[list[csr_array]] = [[], [], []]
        reach, squares = np.zeros((len(first), values)), np.zeros(len(first))
        for number, (low, high) in enumerate(zip(first.tolist(), ends, strict=True)):
            inside = np.flatnonzero(block == number)
            held, rows = listed.held[inside], listed.rows[inside].astype(np.float64)
            weight = (listed.bucket_sizes * listed.bucket_rows)[low:high].astype(np.float64)
            met = csr_array(shares[low:high].T @ csr_array(shares[low:high] * weight[:, None]))
            each = csr_array(held.T @ csr_array(held * (1 / rows)[:, None]))
            for into, matrix in zip(
                matrices, (each, met, csr_array(held.T @ held) - met), strict=True
            ):
                into.append(csr_array(matrix).reshape((1, values * values)))
            reach[number], squares[number] = held.T @ rows, float((rows**2).sum())
        within, often, hidden = (csr_array(vstack(each)) for each in matrices)
        return cls(within, often, hidden, reach, squares, listed.bucket_rows)

    def fitted(
        self, table: BlockTable, loose: Any, residual: FloatArray, whole: BoolArray
    ) -> Deviations:
        """δ of groups with these f and these r; `whole` ones take all rows of a person or none."""
        listed, together = table.summed(loose)
        shape = together.shape
        counted = np.zeros(shape)
        diagonal = np.arange(shape[1])
        counted[:, diagonal, diagonal] = listed
        within, often, chance = (
            (loose @ each).toarray().reshape(shape)
            for each in (self.within, self.often, self.hidden)
        )
        middle = np.where(whole[:, None, None], within, (within + counted) / 2)
        shown = together - table.products(loose)
        noise = often - self._known(loose)
        told = shown @ np.linalg.pinv(noise, rcond=_TOLD, hermitian=True)  # G·G'⁺
        known, vectors = np.linalg.eigh(told @ shown)
        known = np.maximum(known, 0.0)
        along = (vectors.transpose(0, 2, 1) @ (told @ residual[:, :, None]))[:, :, 0]
        spread = likeliest(known, along)
        found = Deviations(middle - together, vectors, known, along, spread, chance)
        half = np.where(whole[:, None, None], 0.0, (counted - within) / 2)
        turned = (vectors @ (along * found.noise)[:, :, None])[:, :, 0]
        away = (half @ turned[:, :, None])[:, :, 0]
        return Deviations(
            found.hidden, vectors, known, along, spread, chance + away[:, :, None] * away[:, None]
        )

    def _known(self, weights: Any) -> FloatArray:
        """Σ_k weight_k·v_kv_kᵀ/s_k, by row of the weights."""
        weighed = (weights * (1 / np.maximum(self.squares, 1.0))).toarray()
        found = np.einsum("gk,kx,ky->gxy", weighed, self.reach, self.reach, optimize=True)
        return np.asarray(found, np.float64)
