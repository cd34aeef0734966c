"""What answers from buckets will be off by, foretold before anything is drawn.

For a condition whose people are n_k in the blocks, the share a_k of each and f_k = a_k·(1 − a_k),
`operators.listed` has the residual r with mean Σ_k M_kᵀ(n_k − a_k·D_k) and the covariance of random
slots, Σ_k f_k(C_k − C_k·D_k⁻¹·C_k). H = Σ_k f_k(D_k − C_k) stays hidden of what deviates, and
G = Σ_k f_k(C_k − D_kD_kᵀ/N_k) is identified; n₀ + r + H·P·r is off by a normal error, where τ² is
what the likelihood finds for such residuals on average. `SizedLaw` tells this law by sizes and
shares alone, value by value, for conditions that have nothing to do with the value. In a part of b
buckets of S records with r = h/b records of a value in each on average, its count varies between
buckets by v: r(u − r) where values are gathered at their limit u, and r − ⌊r⌋ times its complement
where they are dealt evenly. So G[x, x] is the sum over parts of b·v/S, less what is lost because b
buckets tell at most b values apart. No buckets do better than their ceilings t let:
G[x, x] ≤ o·(t − o/N).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import NEARLY_SINGULAR
from sfumato.operators.deviations import likeliest

_CLARITY = 1.25  # so much more error is worth telling all values apart
_BELIEVED = 0.25  # 1/2²: what is known of a value that no bucket tells from others
_FEWEST = 10  # buckets of a block
_ROUNDS = 12

# by sizes, buckets (setting, part), shares, what a bucket may hold (setting, part, value), counts
Judge = Callable[[IntArray, IntArray, FloatArray, IntArray, IntArray], FloatArray]


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


def whole_error(
    sizes: IntArray, buckets: IntArray, shares: FloatArray, allowed: IntArray, counts: IntArray
) -> FloatArray:
    """The error of counts of everybody with a value, by setting; sizes are by (setting, part)."""
    told = identified_by_parts(sizes, buckets, shares, allowed, counts).sum(axis=1)
    rest_of_value = counts * (1 - counts / max(int(counts.sum()), 1))
    told = np.minimum(told, rest_of_value)
    error = error_of(left_over(rest_of_value - told, told, 1.0), counts)
    confused = (told < NEARLY_SINGULAR * counts).any(axis=1)
    return np.asarray(error * np.where(confused, _CLARITY, 1.0))


def width_in_block(
    sizes: IntArray, buckets: IntArray, shares: FloatArray, allowed: IntArray, counts: IntArray
) -> FloatArray:
    """Σ_x √v_x, v_x what is not known of the deviation of a value's count in a block: by setting.

    v_x = D_x²·(Γ + z)⁻¹[x, x], where a deviation beyond 2 is not believed, so z = 1/4 (methods,
    10.10). Γ is foretold: a sum over b buckets of a part, in which the count of x varies by
    v, so of diag(g), g = b·v/S, as for covariances of b samples: (Γ + z)⁻¹[x, x] is near
    1/(z + Σ τ·g_x), summed over parts, with τ = 1/(1 + Σ_x g_x/(z + Σ τ·g_x)/b). Fewer than ten
    buckets are not tried, but one.
    """
    many = np.maximum(buckets, 1)
    varies = varies_between(shares / many[..., None], allowed)
    known = np.asarray(varies * (buckets / sizes)[..., None])
    seen = np.ones(many.shape)
    for _ in range(_ROUNDS):
        left = _BELIEVED + (seen[..., None] * known).sum(axis=-2, keepdims=True)
        seen = 1 / (1 + (known / left).sum(axis=-1) / many)
    left = _BELIEVED + (seen[..., None] * known).sum(axis=-2)
    width = (counts / np.sqrt(left)).sum(axis=-1)
    every = buckets.sum(axis=-1)
    return np.asarray(np.where((every >= _FEWEST) | (every == 1), width, np.inf))


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

    def errors(self, inside: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The mean and the variance of errors by (condition, value), for people by (block,
        condition, value)."""
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
        return gain * pulled - away.sum(axis=0), gain**2 * noise
