"""Estimates drawn towards independence by as much as their group suggests (methods, 10.1).

In a group of n among N people a value has the unbiased estimate u with the variance V, and n₀ = n·f
under independence, f being its share in the whole release. What a count deviates by has the
variance t·n₀² + c, where c = n₀(1 − n/N) is chance and t one of a few sizes; how often each size
occurs is told by all values of the group (a mixture, fitted by expectation and maximization). The
posterior mean is then used as far as it lies within 1.5 standard errors of the unbiased estimate:
what deviates like nothing else is not drawn away from what it shows (Efron and Morris's limited
translation).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray

# chosen on the first half of occ100k (methods, 10.1)
SIZES = np.array([0.0, 0.01, 0.04, 0.16, 0.64, 2.5, 10.0])
USUAL = np.array([0.05, 0.1, 0.2, 0.3, 0.25, 0.07, 0.03])
LIMIT = 1.5  # standard errors
_WEIGHT = 20.0  # of what is usual, in values
_ROUNDS = 30
_AT_ONCE = 1 << 20  # (value, size) pairs that are weighed at the same time
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class CountEstimates:
    """Estimates of counts, one beside the other: of values, or of sets of values."""

    unbiased: FloatArray
    independent: FloatArray  # n₀
    variance: FloatArray  # V
    outside: FloatArray  # 1 − n/N

    def each(self, change: Callable[[FloatArray], FloatArray]) -> CountEstimates:
        """The same change of every array."""
        outside = np.broadcast_to(self.outside, self.unbiased.shape)
        return CountEstimates(
            *map(change, (self.unbiased, self.independent, self.variance, outside))
        )

    @property
    def away(self) -> FloatArray:
        return self.unbiased - self.independent

    def moved(self, gain: FloatArray) -> FloatArray:
        return np.asarray(self.independent + gain * self.away)

    @property
    def chance(self) -> FloatArray:
        return self.independent * np.maximum(self.outside, 0.0)

    @cached_property
    def likely(self) -> tuple[FloatArray, FloatArray]:
        """By (cell, size): how likely it is under the size, over the likeliest; and K, what is left
        of a deviation."""
        believed = SIZES * self.independent[..., None] ** 2 + self.chance[..., None]
        whole = np.maximum(believed + self.variance[..., None], _LEAST)
        logs = -(np.log(whole) + self.away[..., None] ** 2 / whole) / 2
        return np.exp(logs - logs.max(axis=-1, keepdims=True)), believed / whole


@dataclass(frozen=True, eq=False)
class Belief:
    """By group: how often deviations have each size, and the size of one normal prior, τ²."""

    shares: FloatArray  # (groups, sizes)
    spread: FloatArray
    excess: FloatArray  # of squared errors over what is believed

    @classmethod
    def usual(cls, groups: int) -> Belief:
        """Where there are too many values to look at all of them."""
        shares = np.broadcast_to(USUAL, (groups, len(SIZES)))
        return cls(shares, np.full(groups, USUAL @ SIZES), np.ones(groups))

    @classmethod
    def of(cls, values: CountEstimates) -> Belief:
        """From all values of every group: cells by (group, value)."""
        groups, many = values.unbiased.shape
        shares = np.empty((groups, len(SIZES)))
        step = max(_AT_ONCE // max(many * len(SIZES), 1), 1)
        there = (values.independent > 0) & np.isfinite(values.away) & np.isfinite(values.variance)
        values = values.each(lambda array: np.where(there, array, 0.0))
        for low in range(0, groups, step):
            at = slice(low, low + step)
            likely, _ = values.each(itemgetter(at)).likely
            likely = likely * there[at][..., None]
            size_shares, going = shares[at], np.arange(len(shares[at]))
            size_shares[:] = USUAL
            for _ in range(_ROUNDS):
                before = size_shares[going]
                whole = np.maximum(np.einsum("gvs,gs->gv", likely, before), _LEAST)
                renewed = before * np.einsum("gvs,gv->gs", likely, 1 / whole) + _WEIGHT * USUAL
                size_shares[going] = renewed / renewed.sum(axis=1, keepdims=True)
                # each group stops by itself: what is asked beside it must not move its answer
                moving = np.abs(size_shares[going] - before).max(axis=1, initial=0.0) >= 1e-3
                likely, going = likely[moving], going[moving]
                if not len(going):
                    break
        fixed = values.chance + values.variance
        spread = likeliest_spread(values.independent**2, fixed, values.away**2, 0.1)
        return cls(shares, spread, np.ones(groups))

    def shrunk(self, cells: CountEstimates, group: IntArray) -> Shrunk:
        """Cells of these groups, drawn towards independence."""
        likely, gains = cells.likely
        weights = self.shares[group] * likely
        weights = weights / weights.sum(axis=-1, keepdims=True)
        gain = (weights * gains).sum(axis=-1)
        away = cells.away
        left = (
            gains * cells.variance[..., None] + ((gains - gain[..., None]) * away[..., None]) ** 2
        )
        error = np.sqrt(np.maximum(cells.variance, 0.0))
        kept = 1 - np.divide(LIMIT * error, np.abs(away), out=np.ones_like(away), where=away != 0)
        kept = np.where(error > 0, np.clip(np.maximum(gain, kept), 0.0, 1.0), 1.0)
        return Shrunk(kept, gain, (weights * left).sum(axis=-1))

    def tested(self, values: CountEstimates) -> Belief:
        """The same, with how much larger errors seem to be than believed (Stein)."""
        group = np.broadcast_to(np.arange(len(self.shares))[:, None], values.unbiased.shape)
        shrunk, noise = self.shrunk(values, group), values.variance
        moved, limited = (1 - shrunk.kept) * values.away, shrunk.kept > shrunk.gain
        seen = moved**2 + noise * np.where(limited, 1.0, 2 * shrunk.gain - 1)
        believed = shrunk.variance + ((shrunk.kept - shrunk.gain) * values.away) ** 2
        there = np.isfinite(seen) & (noise > 0)
        seen, believed = (
            np.divide(e, noise, out=np.zeros_like(seen), where=there).sum(axis=1)
            for e in (seen, believed)
        )
        return replace(self, excess=np.maximum(seen / np.maximum(believed, _LEAST), 1.0))


@dataclass(frozen=True, eq=False)
class Shrunk:
    """What is left of deviations: as shown, as believed, and the variance of the belief."""

    kept: FloatArray
    gain: FloatArray
    variance: FloatArray


def likeliest_spread(
    scale: FloatArray, rest: FloatArray, squares: FloatArray, start: float = 0.0
) -> FloatArray:
    """τ² by row, from the squares of deviations ~ N(0, τ²·scale + rest): Fisher's scoring of the
    likelihood; from a `start` above 0 by steps of up to 8 times."""
    spread, going = np.full(len(scale), start), np.ones(len(scale), np.bool_)
    for _ in range(_ROUNDS):
        whole = np.maximum(spread[:, None] * scale + rest, _LEAST)
        weight = scale / whole
        score = (weight * (squares / whole - 1)).sum(axis=1)
        moved = np.maximum(spread + score / np.maximum((weight**2).sum(axis=1), 1e-300), 0.0)
        if start:
            moved = np.clip(np.clip(moved, spread / 8, spread * 8), 1e-9, 1e6)
        settled = np.abs(moved - spread) <= 1e-3 * np.maximum(moved, _LEAST)
        # each row stops by itself: what is asked beside it must not move its answer
        spread = np.where(going, moved, spread)
        going &= ~settled
        if not going.any():
            break
    return spread


def added_up(
    counts: FloatArray,
    totals: FloatArray,
    weights: FloatArray,
    least: FloatArray | float = 0.0,
    most: FloatArray | float = np.inf,
    by_value: FloatArray | None = None,
) -> FloatArray:
    """Counts by (group, value) that add up to what is known, between what is possible: to `totals`
    in every group, and over all groups to what there is of every value, where that is known.

    What they lack is shared in proportion to the weights, their variances for example.

    >>> two = np.array([[5.0, 2.0, -1.0]])
    >>> added_up(two, np.array([8.0]), np.array([[1.0, 1.0, 2.0]])).tolist()
    [[5.25, 2.25, 0.5]]
    >>> groups, ones = np.array([[3.0, 1.0], [2.0, 2.0]]), np.ones((2, 2))
    >>> added_up(groups, np.full(2, 4.0), ones, by_value=np.array([4.0, 4.0])).tolist()
    [[2.5, 1.5], [1.5, 2.5]]
    """
    finite = np.isfinite(counts) & np.isfinite(weights)
    most = np.minimum(most, totals[:, None])
    adjusted = np.clip(np.where(finite, counts, 0.0), least, most)
    known = [(1, totals[:, None])] if by_value is None else [(0, by_value), (1, totals[:, None])]
    for _ in range(_ROUNDS):
        settled = True
        for axis, wanted in known:
            whole = finite.all(axis=axis, keepdims=True)
            lacking = np.where(whole, wanted - adjusted.sum(axis=axis, keepdims=True), 0.0)
            room = np.where(lacking > 0, adjusted < most, adjusted > least) & finite
            shares = np.where(room, weights, 0.0)
            every = shares.sum(axis=axis, keepdims=True)
            moved = np.divide(lacking * shares, every, out=np.zeros_like(adjusted), where=every > 0)
            adjusted = np.clip(adjusted + moved, least, most)
            settled = settled and bool((np.abs(lacking) <= 1e-9 * np.maximum(wanted, 1.0)).all())
        if settled:
            break
    adjusted = np.where(adjusted <= 1e-12 * totals[:, None], 0.0, adjusted)  # a rounding is nobody
    return np.where(finite, adjusted, counts)
