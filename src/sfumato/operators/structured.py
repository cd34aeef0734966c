"""Estimates from one column whose inverse has structure: uniform, fine-grain and parts.

Where W[y, x] = own[y]·1{x is y's value} + left[y]·right[x], a line adds to the form of its own
value, and all lines of a block together add left·right to every form: O(lines + pairs).
"""

from __future__ import annotations

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
    Statistic,
    sum_by,
)
from sfumato.operators.inverse import Inverse, product

_AT_ONCE = 1 << 22  # numbers that are held at the same time for pairs in several blocks


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


class Structured(DrawnEstimated):
    """One column, whose inverse has structure."""

    def __init__(self, moments: Moments, inverse: Inverse) -> None:
        self.moments, self.inverse = moments, inverse
        (self._symbol,) = moments.shown
        self._block = inverse.blocks[self._symbol]
        self._known: tuple[Forms, _OwnLines] | None = None
        self._sums: dict[tuple[int, int], tuple[FloatArray, FloatArray]] = {}

    @property
    def largest(self) -> float:  # type: ignore[override]
        return self.inverse.largest

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
            place = self.moments.of * many + self._block if many > 1 else self.moments.of
            whole = product(self.inverse.left[self._symbol] ** power, sums) if power else sums
            found = sum_by(place, whole, self.moments.classes * many)
            self._sums[key] = sums, found.reshape(self.moments.classes, many)
        return self._sums[key][1]

    def _by_form(self, forms: Forms, factors: FloatArray, values: FloatArray) -> FloatArray:
        """Σ factors·h over the symbols of every (form, block)."""
        many, codes = self.inverse.many_blocks, self.inverse.codes
        profile, symbol = np.nonzero((forms.cells[:, codes] >= 0) & (values[:, codes] != 0))
        place = forms.cells[profile, codes[symbol]] * many + self.inverse.blocks[symbol]
        added = factors[symbol] * values[profile, codes[symbol]]
        found = sum_by(place, added, int(forms.first[-1]) * many)
        return found.reshape(-1, many)

    def _added(
        self, forms: Forms, by_class: FloatArray, by_form: FloatArray, pairs: FloatArray | float
    ) -> FloatArray:
        """Σ over the blocks of by_class·by_form, beside what the pairs have already."""
        found = np.empty(forms.pairs)
        step = max(_AT_ONCE // by_class.shape[1], 1)
        for low in range(0, forms.pairs, step):
            chosen = slice(low, low + step)
            first, second = by_class[forms.pair_class[chosen]], by_form[forms.pair_form[chosen]]
            found[chosen] = product(first, second).sum(axis=1)
        return np.asarray(pairs + found)

    def _alone(self, forms: Forms, sums: FloatArray, values: FloatArray) -> FloatArray:
        """What the lines add to the form of their own value."""
        own = self._own_lines(forms)
        return sum_by(own.pair, product(sums[own.lines], own.values(values)), forms.pairs)

    def linear(self, forms: Forms, sums: FloatArray, values: FloatArray) -> FloatArray:
        found = self._alone(forms, self.inverse.own[self._symbol] * sums, values)
        if not self.inverse.spreads.any():
            return found
        rest = self._by_form(forms, self.inverse.right, values)
        return self._added(forms, self._by_block(sums, 1), rest, found)

    def counted(self, forms: Forms, sums: FloatArray, there: BoolArray) -> FloatArray:
        asked, spreads = there.astype(np.float64), self.inverse.spreads
        if not spreads.any():
            return self._alone(forms, sums, asked)
        reached = self._by_form(forms, self.inverse.right != 0, asked) > 0
        if spreads.all():
            others = self._by_block(sums, 0)
        else:
            others = self._by_block(np.where(spreads[self._symbol], sums, 0.0), 0)
        found = self._added(forms, others, reached.astype(np.float64), 0.0)
        if spreads.all() and (self.inverse.right != 0).all():
            return found
        # and lines that reach nothing but their own value
        own = self._own_lines(forms)
        counted = reached[forms.pair_form[own.pair], self._block[own.lines]]
        counted &= spreads[self._symbol[own.lines]]
        alone = np.where(counted, 0.0, product(sums[own.lines], own.values(asked)))
        return found + sum_by(own.pair, alone, forms.pairs)

    def quadratic(
        self,
        forms: Forms,
        noise: FloatArray,
        truth: FloatArray | None,
        first: FloatArray,
        second: FloatArray,
    ) -> FloatArray:
        own = self._own_lines(forms)
        symbol = self._symbol[own.lines]
        weight, here = self.inverse.own[symbol], noise[own.lines]
        known = -here if truth is None else truth[own.lines]
        one = own.values(first)
        other = one if second is first else own.values(second)
        added = product(weight * (weight * here + known), one * other)
        if not self.inverse.spreads.any():
            return sum_by(own.pair, added, forms.pairs)
        right = self.inverse.right
        rests = [self._by_form(forms, right, each) for each in (first, second)]
        at = forms.pair_form[own.pair], self._block[own.lines]
        crossed = one * rests[1][at] + other * rests[0][at]
        added += product(weight * self.inverse.left[symbol] * here, crossed)
        found = sum_by(own.pair, added, forms.pairs)
        found = self._added(forms, self._by_block(noise, 2), rests[0] * rests[1], found)
        plain = -self._by_block(noise, 1) if truth is None else self._by_block(truth, 1)
        return self._added(forms, plain, self._by_form(forms, right, first * second), found)

    def floor(self, forms: Forms, sums: FloatArray, each: Statistic) -> FloatArray | None:
        inverse, asked = self.inverse, each.counted.astype(np.float64)
        if np.isnan(inverse.kept).all() and not inverse.redraws.any():
            return None
        inside = self._by_form(forms, np.ones(len(inverse.codes)), asked)
        least = self._added(forms, self._by_block(sums, 0), inverse.least_variance(inside), 0.0)
        if not inverse.redraws.any():
            return least
        # the background S, which all values tell of together, adds S/p² for each that is asked
        # for; asking for all others is as uncertain
        squares = np.where(inverse.redraws, self._by_form(forms, inverse.own**2, asked), 0.0)
        everything = np.bincount(inverse.blocks, inverse.own**2, minlength=inverse.many_blocks)
        fewer = np.clip(np.minimum(squares, everything - squares), 0.0, None)
        background = np.maximum(-self._by_block(sums, 1), 0.0)
        return self._added(forms, background, fewer, least)

    def steepness(self, forms: Forms, sums: FloatArray, each: Statistic) -> FloatArray | None:
        """Of k among m values that are kept with chance p: (1 − 2k/m)·(1/p − 1) for a record."""
        inverse, asked = self.inverse, each.counted.astype(np.float64)
        if not (np.isfinite(inverse.kept) | inverse.redraws).all():
            return None
        inside = self._by_form(forms, np.ones(len(inverse.codes)), asked)
        drawn = self._by_form(forms, inverse.own - 1, asked) / np.maximum(inside, 1.0)
        return self._added(
            forms, self._by_block(sums, 0), drawn * (1 - 2 * inside / inverse.sizes), 0.0
        )


class DrawnEstimator(Estimator):
    """For one column whose inverse has structure."""

    def __init__(self, inverse: Inverse) -> None:
        self._inverse = inverse

    def estimate(self, moments: Moments) -> Estimated:
        return Structured(moments, self._inverse)
