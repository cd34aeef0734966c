"""What counts from buckets will be off by, told from sizes and shares (methods, section 1).

For records of a condition that has nothing to do with the values, the unbiased estimate M⁻ᵀo has
the covariance (n_A/N)·V with V = D·C⁻¹·D − D, D = diag(o) and C[x, y] = Σ_g c_x(g)·c_y(g)/|g|.

*No buckets do better than the ceilings let.* A record finds at most the share f'_x of its own value
in its bucket, so C[x, x] ≤ t·o_x with t = f'_x; rows of C sum to o. Taking the others' sum as one
more value (Cauchy–Schwarz on the block inverse) leaves, with f = o_x/N,

    V[x, x]  ≥  o_x·(1 − f)(1 − t)/(t − f) .

*Mixed buckets come close.* In a part of b buckets of S records with r = h_x/b records of x in each
on average, the count of x varies between buckets by v: r(u − r) where values are gathered at their
limit u, and r − ⌊r⌋ times its complement where they are dealt evenly. Values are then told apart as
if t − f were τ = Σ over parts of b·v/(S·o_x), less what is lost because b buckets tell at most b
values apart.

An estimate that is shrunk by itself towards the value's share is off by no more than that share, so
V·o²/(V + o²) counts for the value: also where it cannot be told from others at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.mixed import BucketParts
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import NEARLY_SINGULAR, BucketOperator


@dataclass(frozen=True, eq=False)
class CountVariances:
    """Variances of counts, the condition, and the values that cannot be told apart."""

    variances: FloatArray
    condition: float
    confused: IntArray

    @classmethod
    def exactly(cls, operator: BucketOperator) -> CountVariances:
        """By buckets as they are."""
        return cls(told_variances(operator), operator.condition, operator.confused())


def told_nearly(parts: BucketParts, shares: IntArray, allowed: IntArray) -> CountVariances:
    """The same before anything is mixed; `shares` and what is `allowed` in a bucket are by (part,
    value). Of people in blocks variances add up, and a value is confused where it is for most."""
    people, identified = told_apart(parts, shares, allowed)
    total, there = people.sum(axis=0), people > 0
    variances = np.where(there, variances_of(people, identified), 0.0).sum(axis=0)
    least = float(identified[there].min(initial=1.0))
    lost = np.where(identified < NEARLY_SINGULAR, people, 0.0).sum(axis=0)
    confused = np.flatnonzero((total > 0) & (2 * lost > total))
    return CountVariances(variances, 1 / least if least > 0 else float("inf"), confused)


def told_apart(
    parts: BucketParts, shares: IntArray, allowed: IntArray
) -> tuple[FloatArray, FloatArray]:
    """o and τ by (block, value)."""
    people = np.zeros((int(parts.blocks.max(initial=-1)) + 1, shares.shape[1]))
    np.add.at(people, parts.blocks, shares)
    at_home = (shares / np.maximum(people, 1.0)[parts.blocks]).sum(axis=1)  # values, not records
    left = np.maximum(0.0, 1 - at_home / parts.buckets) * parts.buckets / parts.sizes
    spread = spread_between(shares, parts.buckets[:, None], allowed)
    identified = np.zeros_like(people)
    np.add.at(identified, parts.blocks, left[:, None] * spread)
    rest = 1 - people / np.maximum(people.sum(axis=1), 1.0)[:, None]
    return people, np.minimum(identified / np.maximum(people, 1.0), rest)


def error_of(
    variances: FloatArray,
    counts: IntArray | FloatArray,
    weights: FloatArray | None = None,
    deviation: float | None = None,
) -> float:
    """√(m·Σ_x V_x·P_x/(V_x + P_x))/N: what `publish` compares mechanisms by.

    P_x, how far an estimate is believed to lie from the value's share, squared, is o_x², or
    o_x + deviation·o_x². A value with a weight stands for so many others like it.

    >>> round(error_of(np.array([100.0, np.inf]), np.array([90, 10])), 3)
    0.199
    """
    return float(errors_of(variances, counts, weights, deviation))


def errors_of(
    variances: FloatArray,
    counts: IntArray | FloatArray,
    weights: FloatArray | None = None,
    deviation: float | None = None,
) -> FloatArray:
    """`error_of` for variances by value along the last axis."""
    people = counts.astype(np.float64)
    believed = people**2 if deviation is None else people + deviation * people**2
    finite = np.isfinite(variances)
    kept = np.where(finite, variances, 1.0)
    shrunk = np.divide(
        kept * believed, kept + believed, out=np.zeros_like(kept), where=believed > 0
    )
    value_weights = np.ones(len(people)) if weights is None else weights
    total = np.where(finite, shrunk, believed) @ value_weights
    return np.asarray(
        np.sqrt(value_weights.sum() * total) / max(float(value_weights @ people), 1.0)
    )


def variances_of(
    counts: IntArray | FloatArray, told: FloatArray, weights: FloatArray | None = None
) -> FloatArray:
    """o·(1 − f)(1 − f − τ)/τ; infinite where nothing is told, 0 where nobody has the value.

    `told` may have several rows, by value along the last axis.
    """
    people = counts.astype(np.float64)
    total = people.sum(axis=-1, keepdims=True) if weights is None else weights @ people
    share = people / np.maximum(total, 1.0)
    above = people * (1 - share) * np.maximum(1 - share - told, 0.0)
    untold = np.broadcast_to(np.where(people > 0, np.inf, 0.0), told.shape).copy()
    return np.asarray(np.divide(above, told, out=untold, where=told > 0))


def spread_between(
    part: IntArray | FloatArray, buckets: int | IntArray, allowed: IntArray
) -> FloatArray:
    """v: how much the count of each value varies between the buckets of a part."""
    mean = part / np.maximum(buckets, 1)
    whole = np.floor(mean)
    even = (mean - whole) * (whole + 1 - mean)
    return np.asarray(np.where(allowed > 1, mean * (allowed - mean), even))


def told_by_rungs(
    sizes: IntArray,
    buckets: IntArray,
    shares: IntArray | FloatArray,
    counts: IntArray | FloatArray,
    allowed: IntArray,
    weights: FloatArray | None = None,
) -> FloatArray:
    """τ for sizes and buckets by part, shares and what is allowed by (part, value).

    All may have more axes in front, for several settings with equally many parts.
    """
    people = np.maximum(counts.astype(np.float64), 1.0)
    here = shares / people
    at_home = here.sum(axis=-1) if weights is None else here @ weights  # values, not records
    left = np.maximum(0.0, 1 - at_home / buckets)
    spread = spread_between(shares, buckets[..., None], allowed)
    identified = ((left * buckets)[..., None] * spread / sizes[..., None]).sum(axis=-2)
    return np.asarray(identified / people)


def told_variances(operator: BucketOperator) -> FloatArray:
    """V[x, x] of buckets as they are; infinite where the values cannot be told apart. O(m³)."""
    values, vectors = operator.spectrum
    seen = values > 1e-12
    inverse = (vectors[:, seen] ** 2 / values[seen]).sum(axis=1)
    lost = (vectors[:, ~seen] ** 2).sum(axis=1) > 1e-9
    people = operator.counts
    variances = people * np.maximum(inverse - 1, 0.0)
    return np.asarray(np.where(lost & (people > 0), np.inf, variances))
