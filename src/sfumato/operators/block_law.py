"""What answers from buckets will be off by, foretold before anything is drawn.

For a condition whose people are n_k in the blocks, the share a_k of each and f_k = a_k·(1 − a_k),
`operators.listed` has the residual r with mean Σ_k M_kᵀ(n_k − a_k·D_k) and the covariance of random
slots, Σ_k f_k(C_k − C_k·D_k⁻¹·C_k). H = Σ_k f_k(D_k − C_k) stays hidden of what deviates, and
G = Σ_k f_k(C_k − D_kD_kᵀ/N_k) is identified; n₀ + r + H·P·r is off by a normal error, where τ² is
what the likelihood finds for such residuals on average. This law is told in two ways:

- `BlockLaw`, by blocks as they are mixed and for the people of one condition. Nothing is assumed
  about deviations: what a single δ for all blocks leaves of them is the bias.
- `SizedLaw`, by sizes and shares alone, value by value, for conditions that have nothing to do with
  the value. In a part of b buckets of S records with r = h/b records of a value in each on average,
  its count varies between buckets by v: r(u − r) where values are gathered at their limit u, and
  r − ⌊r⌋ times its complement where they are dealt evenly. So G[x, x] is the sum over parts of
  b·v/S, less what is lost because b buckets tell at most b values apart. No buckets do better than
  their ceilings t let: G[x, x] ≤ o·(t − o/N).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.absolute import expected_absolute
from sfumato.operators.base import FloatArray
from sfumato.operators.deviations import BlockTable, likeliest

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def identified_by_parts(
    sizes: IntArray | FloatArray,
    buckets: IntArray,
    shares: IntArray | FloatArray,
    allowed: IntArray,
    people: IntArray | FloatArray,
) -> FloatArray:
    """G[x, x] of parts by (part, value), `shares` of the `people` with a value going to a part.

    All may have more axes in front, for several settings with equally many parts.

    >>> pairs = identified_by_parts(2, np.array([30]), np.full((1, 4), 15), np.ones(1), 15)
    >>> pairs.round(2).tolist()
    [[3.25, 3.25, 3.25, 3.25]]
    """
    many = np.maximum(buckets, 1)
    spread = varies_between(shares / many[..., None], allowed)
    at_home = (shares / np.maximum(people, 1)).sum(axis=-1)  # values, not records
    left = np.maximum(0.0, 1 - at_home / many) * buckets / sizes
    return np.asarray(left[..., None] * spread)


def varies_between(mean: FloatArray, allowed: IntArray) -> FloatArray:
    """v: how much the count of each value varies between the buckets of a part."""
    whole = np.floor(mean)
    even = (mean - whole) * (whole + 1 - mean)
    return np.asarray(np.where(allowed > 1, mean * (allowed - mean), even))


def left_over(
    hidden: FloatArray, identified: FloatArray, deviation: FloatArray | float
) -> FloatArray:
    """The variance of an estimate, τ² being the `deviation`: of several values one by one.

    >>> left_over(np.array([8.0]), np.array([np.inf]), 1.0).tolist()  # but for the slots' noise
    [8.0]
    """
    return np.asarray(hidden + deviation * hidden**2 / (1 + deviation * identified))


def error_of(variances: FloatArray, counts: IntArray | FloatArray) -> FloatArray:
    """√(m·Σ_x V_x)/N: what `publish` compares mechanisms by; values along the last axis."""
    return np.asarray(np.sqrt(len(counts) * variances.sum(axis=-1)) / max(float(counts.sum()), 1.0))


@dataclass(frozen=True, eq=False)
class SizedLaw:
    """Of buckets that nobody has mixed: people and G[x, x] by (block, value), and of every block
    how much of its f_k usual conditions let through."""

    people: FloatArray
    identified: FloatArray
    through: FloatArray

    @classmethod
    def of(cls, people: IntArray, identified: FloatArray, through: FloatArray) -> Self:
        rest = people * (1 - people / np.maximum(people.sum(axis=1), 1)[:, None])
        return cls(people.astype(np.float64), np.minimum(identified, rest), through)

    @cached_property
    def hidden(self) -> FloatArray:
        """H[x, x] by block."""
        shares = self.people / np.maximum(self.people.sum(axis=1), 1.0)[:, None]
        return np.asarray(self.people * (1 - shares) - self.identified)

    def variances(
        self, free: FloatArray | float = 1.0, deviation: FloatArray | float = 1.0
    ) -> FloatArray:
        """Of counts within conditions with this f, by value; by default of all people, drawn anew,
        whose counts are as far from independence as they are large."""
        hidden, identified = self.through @ self.hidden, self.through @ self.identified
        return left_over(free * hidden, free * identified, deviation)

    def error(self) -> float:
        return float(error_of(self.variances(), self.people.sum(axis=0)))

    def errors(self, inside: FloatArray) -> FloatArray:
        """By (condition, value), for people by (block, condition, value)."""
        many = np.maximum(self.people.sum(axis=1), 1.0)
        share = inside.sum(axis=2) / many[:, None]
        free = share * (1 - share)
        away = inside - share[:, :, None] * self.people[:, None, :]
        told = np.divide(self.identified, self.people, out=0 * self.people, where=self.people > 0)
        rest = self.hidden + self.identified
        kept = 1 - np.divide(self.identified, rest, out=np.ones_like(rest), where=rest > 0)
        pulled = np.einsum("kv,kcv->cv", told, away)
        identified, hidden = free.T @ self.identified, free.T @ self.hidden
        noise = free.T @ (self.identified * np.maximum(kept, 0.0))
        spread = likeliest(identified, np.sqrt(pulled**2 + noise))[:, None]
        gain = 1 + hidden * spread / (1 + spread * identified)
        return expected_absolute(gain * pulled - away.sum(axis=0), gain**2 * noise)


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
