"""What a record adds to an estimate, by what it shows: z = Σ_x W[y, x]·h(x), by form and symbol.

`LevelWeights` is for one column: as W[y, x] = own[y]·1{x is y's value} + left[y]·right[x], a symbol
adds to the form of its own value, and all symbols of a block together add left·right to every form.
Products of two such z are of this shape again, so that sums over lines and means over the release
cost O(lines + pairs). `DenseWeights` is for several independent columns, whose weights multiply:
they are written down for some forms at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Forms, Moments, sum_by
from sfumato.operators.inverse import Inverse, product
from sfumato.operators.normal import hazard

_AT_ONCE = 1 << 22  # numbers that are held at the same time
_LEAST = 1e-9  # people that a value is taken to have at least

Inverses = Sequence[Inverse]


@dataclass(frozen=True, eq=False)
class Composition:
    """Of the whole release, by symbol: the share of its block that shows it, and that has it, and
    how many records its block has."""

    rows: float
    shown: FloatArray
    true: FloatArray
    block_rows: FloatArray

    @classmethod
    def of(
        cls,
        inverse: Inverse,
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
        of = inverse.blocks if blocks else np.zeros(len(estimate), np.int64)
        shown, true = (e / np.maximum(np.bincount(of, e), _LEAST)[of] for e in (counts, estimate))
        return cls(float(counts.sum()), shown, true, sum_by(of, counts, len(counts))[of])


def _positive(counts: FloatArray, error: FloatArray, shown: FloatArray) -> FloatArray:
    """What counts are on average, given their estimates and that none is negative."""
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = counts + error * hazard(counts / error)
    positive = np.where(np.isfinite(moved), moved, np.where(np.isfinite(counts), counts, shown))
    return np.maximum(positive, _LEAST)


@dataclass(frozen=True, eq=False)
class Levels:
    """z by (form, symbol): level·spread in the symbol's block, and `own` more in its own form."""

    own: FloatArray  # (profile, symbol)
    level: FloatArray  # (form, block)
    spread: FloatArray  # (symbol)


class LevelWeights:
    """One column, asked for some forms."""

    def __init__(
        self, moments: Moments, forms: Forms, inverses: Inverses, wholes: Sequence[Composition]
    ) -> None:
        (self._inverse,), (self._symbol,) = inverses, moments.shown
        self._moments, self._forms = moments, forms
        self.shown, self._true = wholes[0].shown, wholes[0].true
        self._many, self._blocks = self._inverse.many_blocks, self._inverse.blocks
        form = forms.cells[:, self._inverse.codes]
        self._inside = form >= 0
        self._cell = np.maximum(form, 0) * self._many + self._blocks
        profile = forms.profile[moments.of]
        self._lines = np.flatnonzero(self._inside[profile, self._symbol])
        self._at = profile[self._lines], self._symbol[self._lines]
        first = forms.starts[moments.of[self._lines]] - forms.first[self._at[0]]
        self._pair = first + form[self._at]

    def weigh(self, values: FloatArray) -> Levels:
        """z of h."""
        h, inverse = self._asked(values), self._inverse
        level = self._by_form(product(inverse.right, h))
        return Levels(product(inverse.own, h), level, inverse.left)

    def mark(self, there: BoolArray) -> Levels:
        """1 where a symbol is a value that is there."""
        nothing = np.zeros((int(self._forms.first[-1]), self._many))
        return Levels(self._asked(there), nothing, self._inverse.left)

    def reach(self, there: BoolArray) -> Levels:
        """1 where a record that shows a symbol can have a value that is there."""
        h, spreads = self._asked(there), self._inverse.spreads.astype(np.float64)
        reached = (self._by_form(h * (self._inverse.right != 0)) > 0).astype(np.float64)
        some = Levels(h, reached, spreads)
        return Levels(h * (1 - self._beside(some)), reached, spreads)

    def times(self, one: Levels, other: Levels) -> Levels:
        own = product(one.own, other.own) + product(one.own, self._beside(other))
        own = own + product(other.own, self._beside(one))
        return Levels(own, product(one.level, other.level), product(one.spread, other.spread))

    def over_lines(self, z: Levels, sums: FloatArray) -> FloatArray:
        """Σ sums·z by pair."""
        own = product(sums[self._lines], z.own[self._at])
        alone = sum_by(self._pair, own, self._forms.pairs)
        if not (z.level != 0).any():
            return alone
        return alone + self.at_pairs(product(z.spread[self._symbol], sums), z.level)

    def mean(self, z: Levels, shares: FloatArray) -> FloatArray:
        """By (form, block): z on average over symbols with these shares."""
        every = sum_by(self._blocks, product(shares, z.spread), self._many)
        return np.asarray(self._by_form(product(shares, z.own)) + product(z.level, every))

    def true_mean(self, values: FloatArray) -> FloatArray:
        """By (form, block): h on average over what the release has."""
        return self._by_form(product(self._asked(values), self._true))

    def at_pairs(self, sums: FloatArray, by_form: FloatArray) -> FloatArray:
        """Σ over the blocks of what lines add up to, times what stands by (form, block)."""
        classes = self._moments.classes
        by_class = sum_by(
            self._moments.of * self._many + self._blocks[self._symbol], sums, classes * self._many
        ).reshape(classes, self._many)
        totals, step = np.empty(self._forms.pairs), max(_AT_ONCE // self._many, 1)
        for low in range(0, len(totals), step):
            pairs = slice(low, low + step)
            one = by_class[self._forms.pair_class[pairs]]
            totals[pairs] = product(one, by_form[self._forms.pair_form[pairs]]).sum(axis=1)
        return totals

    def _asked(self, values: Any) -> FloatArray:
        """h by (profile, symbol)."""
        return np.where(self._inside, values[:, self._inverse.codes], 0.0)

    def _by_form(self, by_symbol: FloatArray) -> FloatArray:
        size = int(self._forms.first[-1]) * self._many
        totals = sum_by(self._cell[self._inside], by_symbol[self._inside], size)
        return totals.reshape(-1, self._many)

    def _beside(self, z: Levels) -> FloatArray:
        """What a symbol adds to its own form as others of its block do, by (profile, symbol)."""
        beside, spread = np.zeros(self._inside.shape), np.broadcast_to(z.spread, self._inside.shape)
        beside[self._inside] = product(
            z.level.reshape(-1)[self._cell[self._inside]], spread[self._inside]
        )
        return beside


Rows = Callable[[int, IntArray], FloatArray]  # by (form, joint symbol) of a profile's forms


class DenseWeights:
    """Several columns; forms of one profile at a time."""

    def __init__(
        self, moments: Moments, forms: Forms, inverses: Inverses, wholes: Sequence[Composition]
    ) -> None:
        self._moments, self._forms, self._inverses = moments, forms, inverses
        sizes = [len(inverse.codes) for inverse in inverses]
        self._symbols = int(np.prod(sizes))
        self._symbol = np.ravel_multi_index(moments.shown, sizes)
        self.shown = reduce(np.multiply.outer, [whole.shown for whole in wholes]).reshape(-1)
        self._true = reduce(
            np.multiply.outer,
            [
                np.bincount(inverse.codes, whole.true, inverse.values).astype(np.float64)
                for whole, inverse in zip(wholes, inverses, strict=False)
            ],
        )

    def weigh(self, values: FloatArray) -> Rows:
        return self._along(values, self._inverses)

    def mark(self, there: BoolArray) -> Rows:
        codes = [inverse.codes for inverse in self._inverses]

        def rows(profile: int, chosen: IntArray) -> FloatArray:
            inside = self._within(profile, chosen) & there[profile]
            inside = inside[np.ix_(np.arange(len(chosen)), *codes)]
            return np.asarray(inside.reshape(len(chosen), -1), np.float64)

        return rows

    def reach(self, there: BoolArray) -> Rows:
        reached = self._along(
            there.astype(np.float64), [inverse.pattern() for inverse in self._inverses]
        )
        return lambda profile, chosen: (reached(profile, chosen) > 0).astype(np.float64)

    def times(self, one: Rows, other: Rows) -> Rows:
        if one is other:
            return lambda profile, chosen: one(profile, chosen) ** 2
        return lambda profile, chosen: one(profile, chosen) * other(profile, chosen)

    def over_lines(self, z: Rows, sums: FloatArray) -> FloatArray:
        from scipy.sparse import csr_array

        forms, of, totals = self._forms, self._moments.of, np.zeros(self._forms.pairs)
        for profile, chosen in self._pieces():
            rows, classes = z(profile, chosen), np.flatnonzero(forms.profile == profile)
            lines = np.flatnonzero(forms.profile[of] == profile)
            index, symbol = np.searchsorted(classes, of[lines]), self._symbol[lines]
            first = forms.starts[classes] - int(forms.first[profile])
            pairs = first[:, None] + chosen[None, :]
            finite = np.isfinite(sums[lines])
            shape = (len(classes), self._symbols)
            lined = csr_array((np.where(finite, sums[lines], 0.0), (index, symbol)), shape=shape)
            totals[pairs] += np.asarray(lined @ rows.T)
            for line in np.flatnonzero(~finite):
                totals[pairs[index[line]]] += product(sums[lines[line]], rows[:, symbol[line]])
        return totals

    def mean(self, z: Rows, shares: FloatArray) -> FloatArray:
        means = np.zeros((int(self._forms.first[-1]), 1))
        for profile, chosen in self._pieces():
            means[chosen, 0] = z(profile, chosen) @ shares
        return means

    def true_mean(self, values: FloatArray) -> FloatArray:
        means, inside = np.zeros((int(self._forms.first[-1]), 1)), self._forms.cells >= 0
        np.add.at(means[:, 0], self._forms.cells[inside], (values * self._true)[inside])
        return means

    def at_pairs(self, sums: FloatArray, by_form: FloatArray) -> FloatArray:
        of_class = self._moments.by_class(sums)[self._forms.pair_class]
        return product(of_class, by_form[self._forms.pair_form, 0])

    def _pieces(self) -> Iterator[tuple[int, IntArray]]:
        """A profile, and some of its forms."""
        step, first = max(_AT_ONCE // self._symbols, 1), self._forms.first
        for profile in range(len(self._forms.cells)):
            for low in range(int(first[profile]), int(first[profile + 1]), step):
                yield profile, np.arange(low, min(low + step, int(first[profile + 1])))

    def _within(self, profile: int, chosen: IntArray) -> BoolArray:
        wide = chosen.reshape(-1, *([1] * (self._forms.cells.ndim - 1)))
        return np.asarray(self._forms.cells[profile] == wide, np.bool_)

    def _along(self, values: FloatArray, inverses: Inverses) -> Rows:
        def rows(profile: int, chosen: IntArray) -> FloatArray:
            weighed = np.where(self._within(profile, chosen), values[profile], 0.0)
            for axis, inverse in enumerate(inverses, start=1):
                weighed = np.moveaxis(inverse.weigh(np.moveaxis(weighed, axis, -1)), -1, axis)
            return weighed.reshape(len(chosen), -1)

        return rows
