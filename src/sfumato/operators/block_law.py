"""What `operators.listed` will be off by, told from the blocks before anything is drawn.

For a condition whose people are n_k in the blocks, the residual r of the estimate has the mean
Σ_k M_kᵀ(n_k − a_k·D_k) and the covariance of random slots, Σ_k f_k(C_k − C_k·D_k⁻¹·C_k). τ² is what
the likelihood finds for such residuals on average, and the error of n₀ + r + (F − E)·P·r is normal.
Nothing is assumed about the deviations: they are those of the blocks as they are, and what a single
δ for all blocks leaves of them is the bias.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.operators.base import FloatArray
from sfumato.operators.deviations import BlockTable, likeliest

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class BlockLaw:
    """Bias and covariance of estimated counts, for blocks as they are."""

    def __init__(self, table: BlockTable) -> None:
        self.table = table

    def moments(self, inside: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of all values, for a condition that so many people satisfy, by (block, value)."""
        from scipy.sparse import csr_array

        table, values = self.table, inside.shape[1]
        share = inside.sum(axis=1) / table.rows
        free = np.maximum(share * (1 - share), 0.0)
        hidden, identified = self.matrices(free)
        away = inside - share[:, None] * table.counts
        pulled = self._moved.T @ away.reshape(-1)
        weights = csr_array(free[None, :])
        noise = (weights @ self._noise).toarray().reshape(values, values)
        if len(table.rows) == 1:  # made once
            (variances,), (vectors,), _ = table.one_block
            variances = free[0] * variances
        else:
            variances, vectors = np.linalg.eigh(identified)
            variances = np.maximum(variances, 0.0)
        shown = (vectors.T @ pulled) ** 2 + (vectors * (noise @ vectors)).sum(axis=0)
        spread = float(likeliest(variances[None, :], np.sqrt(np.maximum(shown, 0.0))[None, :])[0])
        left = (vectors * (spread / (1 + spread * variances))) @ vectors.T
        gain = np.eye(values) + hidden @ left
        return gain @ pulled - away.sum(axis=0), gain @ noise @ gain.T

    def matrices(self, free: FloatArray) -> tuple[FloatArray, FloatArray]:
        """F − E, and G, for these f."""
        from scipy.sparse import csr_array

        weights = csr_array(free[None, :])
        (listed,), (together,) = self.table.summed(weights)
        return np.diag(listed) - together, together - self.table.products(weights)[0]

    @cached_property
    def _moved(self) -> csr_array:
        """M of all blocks, one below the other."""
        from scipy.sparse import csr_array, diags_array

        blocks, values = self.table.listed.shape
        counts = self.table.listed.reshape(-1)
        scale = np.divide(1.0, counts, out=np.zeros_like(counts), where=counts > 0)
        together = self.table.together.reshape((blocks * values, values))
        return csr_array(diags_array(scale) @ csr_array(together))

    @cached_property
    def _noise(self) -> csr_array:
        """C − C·D⁻¹·C of every block, flat: the covariance of what all of its people show."""
        from scipy.sparse import csr_array, vstack

        blocks, values = self.table.listed.shape
        noise = []
        for number in range(blocks):
            together = csr_array(self.table.together[[number]].reshape((values, values)))
            moved = self._moved[number * values : (number + 1) * values]
            noise.append(csr_array(together - together @ moved).reshape((1, values * values)))
        return csr_array(vstack(noise))
