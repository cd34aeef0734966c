"""Estimates from one column whose inverse has structure: uniform, fine-grain and parts.

Where W[y, x] = own[y]·1{x is y's value} + left[y]·right[x], a line adds to the form of its own
value, and all lines of a block together add left·right to every form: O(lines + pairs).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.drawn import DrawnEstimated
from sfumato.operators.estimator import (
    Estimated,
    Estimator,
    Forms,
    Moments,
    sum_by,
)
from sfumato.operators.inverse import DenseInverse, Inverse, product
from sfumato.operators.shrinkage import CountEstimates

_AT_ONCE = 1 << 22  # numbers that are held at the same time for pairs in several blocks
_LEAST = 1e-9  # people that a value is taken to have at least


@dataclass(frozen=True, eq=False)
class _OwnLines:
    """The lines whose own value is in some form: their pair, and all that is asked of them."""

    lines: IntArray
    pair: IntArray
    profile: IntArray
    code: IntArray

    @classmethod
    def of(cls, forms: Forms, classes: IntArray, codes: IntArray) -> _OwnLines:
        profile = forms.profile[classes]
        form = forms.cells[profile, codes]
        lines = np.flatnonzero(form >= 0)
        profile = profile[lines]
        pair = forms.starts[classes[lines]] + form[lines] - forms.first[profile]
        return cls(lines, pair, profile, codes[lines])

    def values(self, values: FloatArray) -> FloatArray:
        """h of their own value."""
        return np.asarray(values[self.profile, self.code])


@dataclass(frozen=True, eq=False)
class Composition:
    """Of the whole release, by symbol: the share of its block that shows it, and that has it."""

    rows: float
    shown: FloatArray
    true: FloatArray

    @classmethod
    def of(
        cls,
        inverse: Inverse | DenseInverse,
        counts: FloatArray,
        noise: FloatArray | None = None,
        *,
        blocks: bool = True,
    ) -> Composition:
        """From how many records show every symbol; shares of everybody without `blocks`.

        `noise` counts every record as often as its draw was copied.
        """
        estimate = inverse.estimate(counts)
        truth = np.clip(estimate, 0.0, counts.sum()) if noise is None else np.zeros_like(estimate)
        variance = inverse.variances(truth, counts if noise is None else noise)
        estimate = _positive(estimate, np.sqrt(variance), counts)
        of = np.zeros(len(estimate), np.int64)
        if blocks and isinstance(inverse, Inverse):
            of = inverse.blocks
        shares = [e / np.maximum(np.bincount(of, e), _LEAST)[of] for e in (counts, estimate)]
        return cls(float(counts.sum()), *shares)


def _positive(counts: FloatArray, error: FloatArray, shown: FloatArray) -> FloatArray:
    """What counts are on average, given their estimates and that none is negative."""
    from scipy.special import log_ndtr

    with np.errstate(divide="ignore", invalid="ignore"):
        z = counts / error
        moved = counts + error * np.exp(-z * z / 2 - log_ndtr(z)) / np.sqrt(2 * np.pi)
    positive = np.where(np.isfinite(moved), moved, np.where(np.isfinite(counts), counts, shown))
    return np.maximum(positive, _LEAST)


class Structured(DrawnEstimated):
    """One column, whose inverse has structure."""

    def __init__(
        self, moments: Moments, inverse: Inverse, whole: Composition | None = None
    ) -> None:
        self.moments, self.inverse, self._whole = moments, inverse, whole
        self.rows = None if whole is None else whole.rows
        self._beliefs = {}
        (self._symbol,) = moments.shown
        self._block = inverse.blocks[self._symbol]
        self._known: tuple[Forms, _OwnLines] | None = None
        self._sums: dict[tuple[int, int], tuple[FloatArray, FloatArray]] = {}

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.inverse.values,)

    def _own_lines(self, forms: Forms) -> _OwnLines:
        if self._known is None or self._known[0].cells is not forms.cells:
            codes = self.inverse.codes[self._symbol]
            self._known = forms, _OwnLines.of(forms, self.moments.of, codes)
        return self._known[1]

    def _by_block(self, sums: FloatArray, power: int) -> FloatArray:
        """Σ sums·left^power by (class, block), remembered."""
        if self.inverse.is_level:
            power = 0
        key = id(sums), power
        if key not in self._sums:
            many = self.inverse.many_blocks
            cell = self.moments.of * many + self._block if many > 1 else self.moments.of
            whole = product(self.inverse.left[self._symbol] ** power, sums) if power else sums
            totals = sum_by(cell, whole, self.moments.classes * many)
            self._sums[key] = sums, totals.reshape(self.moments.classes, many)
        return self._sums[key][1]

    def _by_form(self, forms: Forms, factors: FloatArray, values: FloatArray) -> FloatArray:
        """Σ factors·h over the symbols of every (form, block)."""
        many, codes = self.inverse.many_blocks, self.inverse.codes
        profile, symbol = np.nonzero((forms.cells[:, codes] >= 0) & (values[:, codes] != 0))
        cell = forms.cells[profile, codes[symbol]] * many + self.inverse.blocks[symbol]
        added = factors[symbol] * values[profile, codes[symbol]]
        totals = sum_by(cell, added, int(forms.first[-1]) * many)
        return totals.reshape(-1, many)

    def _added(
        self, forms: Forms, by_class: FloatArray, by_form: FloatArray, pairs: FloatArray | float
    ) -> FloatArray:
        """Σ over the blocks of by_class·by_form, beside what the pairs have already."""
        totals = np.empty(forms.pairs)
        step = max(_AT_ONCE // by_class.shape[1], 1)
        for low in range(0, forms.pairs, step):
            chosen = slice(low, low + step)
            first, second = by_class[forms.pair_class[chosen]], by_form[forms.pair_form[chosen]]
            totals[chosen] = product(first, second).sum(axis=1)
        return np.asarray(pairs + totals)

    def _alone(self, forms: Forms, sums: FloatArray, values: FloatArray) -> FloatArray:
        """What the lines add to the form of their own value."""
        own_lines = self._own_lines(forms)
        return sum_by(
            own_lines.pair, product(sums[own_lines.lines], own_lines.values(values)), forms.pairs
        )

    def linear(self, forms: Forms, sums: FloatArray, values: FloatArray) -> FloatArray:
        estimate = self._alone(forms, self.inverse.own[self._symbol] * sums, values)
        if not self.inverse.spreads.any():
            return estimate
        rest = self._by_form(forms, self.inverse.right, values)
        return self._added(forms, self._by_block(sums, 1), rest, estimate)

    def counted(self, forms: Forms, sums: FloatArray, there: BoolArray) -> FloatArray:
        asked, spreads = there.astype(np.float64), self.inverse.spreads
        if not spreads.any():
            return self._alone(forms, sums, asked)
        reached = self._by_form(forms, self.inverse.right != 0, asked) > 0
        if spreads.all():
            others = self._by_block(sums, 0)
        else:
            others = self._by_block(np.where(spreads[self._symbol], sums, 0.0), 0)
        by_pair = self._added(forms, others, reached.astype(np.float64), 0.0)
        if spreads.all() and (self.inverse.right != 0).all():
            return by_pair
        # and lines that reach nothing but their own value
        own_lines = self._own_lines(forms)
        counted = reached[forms.pair_form[own_lines.pair], self._block[own_lines.lines]]
        counted &= spreads[self._symbol[own_lines.lines]]
        alone = np.where(counted, 0.0, product(sums[own_lines.lines], own_lines.values(asked)))
        return by_pair + sum_by(own_lines.pair, alone, forms.pairs)

    def quadratic(
        self,
        forms: Forms,
        noise: FloatArray,
        truth: FloatArray | None,
        first: FloatArray,
        second: FloatArray,
    ) -> FloatArray:
        own_lines = self._own_lines(forms)
        symbol = self._symbol[own_lines.lines]
        weight, here = self.inverse.own[symbol], noise[own_lines.lines]
        truth_weights = -here if truth is None else truth[own_lines.lines]
        one = own_lines.values(first)
        other = one if second is first else own_lines.values(second)
        added = product(weight * (weight * here + truth_weights), one * other)
        if not self.inverse.spreads.any():
            return sum_by(own_lines.pair, added, forms.pairs)
        right = self.inverse.right
        rests = [self._by_form(forms, right, sums) for sums in (first, second)]
        at = forms.pair_form[own_lines.pair], self._block[own_lines.lines]
        crossed = one * rests[1][at] + other * rests[0][at]
        added += product(weight * self.inverse.left[symbol] * here, crossed)
        variance = sum_by(own_lines.pair, added, forms.pairs)
        variance = self._added(forms, self._by_block(noise, 2), rests[0] * rests[1], variance)
        plain = -self._by_block(noise, 1) if truth is None else self._by_block(truth, 1)
        return self._added(forms, plain, self._by_form(forms, right, first * second), variance)

    def independent(self, forms: Forms, sums: FloatArray, values: FloatArray) -> FloatArray:
        assert self._whole is not None
        shares = self._by_form(forms, self._whole.true, values)
        return self._added(forms, self._by_block(sums, 0), shares, 0.0)

    def expected(
        self,
        forms: Forms,
        noise: FloatArray,
        truth: FloatArray | None,
        first: FloatArray,
        second: FloatArray,
    ) -> FloatArray:
        assert self._whole is not None
        inverse, shown = self.inverse, self._whole.shown
        crossed = shown * inverse.own * inverse.left
        rests = [self._by_form(forms, inverse.right, sums) for sums in (first, second)]
        others = [self._by_form(forms, crossed, sums) for sums in (second, first)]
        level = np.bincount(inverse.blocks, shown * inverse.left**2, minlength=inverse.many_blocks)
        square = self._by_form(forms, shown * inverse.own**2, first * second)
        square += rests[0] * others[0] + rests[1] * others[1] + rests[0] * rests[1] * level
        own_part = self._by_form(forms, self._whole.true, first * second)
        variance = self._added(forms, self._by_block(noise, 0), square, 0.0)
        truth_weights = -self._by_block(noise, 0) if truth is None else self._by_block(truth, 0)
        return self._added(forms, truth_weights, own_part, variance)

    def rates(self, forms: Forms, sums: FloatArray, there: BoolArray) -> tuple[FloatArray, ...]:
        """With Q what of a block shows something that is there, F what has it, and the step from
        what others add to what those who show it do: Q = F·q₁ + (1 − F)·q₀, q₁ − q₀ = 1/step."""
        assert self._whole is not None
        inverse, shown, asked = self.inverse, self._whole.shown, there.astype(np.float64)
        rest = self._by_form(forms, inverse.right, asked)
        has, shows = (self._by_form(forms, e, asked) for e in (self._whole.true, shown))
        left = np.bincount(inverse.blocks, shown * inverse.left, minlength=inverse.many_blocks)
        inside = self._by_form(forms, shown * inverse.left, asked)
        own_rate = self._by_form(forms, shown * inverse.own, asked)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (own_rate + rest * inside) / shows - rest * (left - inside) / (1 - shows)
            jump = np.where(np.isfinite(step) & (step >= 1), 1 / step, 1.0)
        other = np.clip(shows - has * jump, 0.0, 1.0)
        by_block, reached = self._by_block(sums, 0), has > 0
        parts = (has, has * np.clip(other + jump, 0.0, 1.0), 1 - has, (1 - has) * other)
        return tuple(self._added(forms, by_block, np.where(reached, e, 0.0), 0.0) for e in parts)

    def cells(self, number: Hashable) -> CountEstimates:
        assert self._whole is not None
        inverse, whole, moments = self.inverse, self._whole, self.moments
        pools = self.pools
        sums, copies = moments.sums[(number,)], moments.copies
        noise = sums if copies is None else sums * copies
        truth = -noise if copies is None else np.where(np.asarray(moments.sampled), 0.0, -noise)
        pool = self.pool[moments.of]

        def by_symbol(lines: FloatArray) -> FloatArray:
            blocks = sum_by(
                pool * inverse.many_blocks + self._block, lines, pools * inverse.many_blocks
            )
            return blocks.reshape(pools, inverse.many_blocks)[:, inverse.blocks]

        shown = sum_by(pool * len(inverse.codes) + self._symbol, sums, pools * len(inverse.codes))
        level = np.bincount(inverse.blocks, whole.shown * inverse.left**2, inverse.many_blocks)
        square = whole.shown * inverse.own * (inverse.own + 2 * inverse.left * inverse.right)
        square = square + inverse.right**2 * level[inverse.blocks]
        arrays = [
            inverse.estimate(shown.reshape(pools, len(inverse.codes))),
            by_symbol(sums) * whole.true,
            by_symbol(noise) * square + by_symbol(truth) * whole.true,
        ]
        if inverse.many_blocks > 1:
            arrays = [self._by_value(array) for array in arrays]
        assert self.rows is not None
        outside = 1 - sum_by(pool, sums, pools)[:, None] / max(self.rows, 1.0)
        return CountEstimates(arrays[0], arrays[1], np.maximum(arrays[2], 0.0), outside)

    def _by_value(self, by_symbol: FloatArray) -> FloatArray:
        by_value = np.zeros((len(by_symbol), self.inverse.values))
        np.add.at(by_value.T, self.inverse.codes, by_symbol.T)
        return by_value


class DrawnEstimator(Estimator):
    """For one column whose inverse has structure."""

    def __init__(
        self, inverse: Inverse, whole: Composition | None = None, *, shrunk: bool = True
    ) -> None:
        self._inverse, self._whole, self._shrunk = inverse, whole, shrunk

    def estimate(self, moments: Moments) -> Estimated:
        estimated = Structured(moments, self._inverse, self._whole)
        estimated.shrinks = self._shrunk
        return estimated
