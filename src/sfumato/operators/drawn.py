"""Estimates where every record was drawn by itself: uniform, fine-grain, parts, decoys, samples.

With z = Σ_x W[y, x]·h(x) what a record that shows y adds, T̂ = Σ e·z is unbiased, and the
covariance of T̂_i and T̂_j is estimated without bias by
Σ e_i·e_j·(z_i·z_j − Σ_x W[y, x]·h_i(x)·h_j(x)) (methods, section 1). Sums over the records come by
class and symbol, so both are sums over lines. Where W has the structure of `Inverse`, a line adds
to the form of its own value, and all lines of a block together add left·right to every form:
O(lines + pairs).

Where groups were sampled and copied back to their size, the noise of a draw counts as often as it
was copied. The sample itself varies too; by less than independent draws from the group would, whose
variance is at most Σ copies·Σ_x W[y, x]·h(x)². And few draws can miss a value altogether, so that
two unseen draws are added (Agresti and Coull).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.decoy import Decoy, Held
from sfumato.operators.estimator import (
    Estimated,
    Estimator,
    Forms,
    Moments,
    Statistic,
    Totals,
    sum_by,
)
from sfumato.operators.inverse import DenseInverse, Inverse, product

_AT_ONCE = 1 << 22  # numbers that are held at the same time for pairs in several blocks


class DrawnEstimated(Estimated):
    """Sums over lines: what `Structured` and `Joint` have in common."""

    moments: Moments
    largest: float  # weight of all, without its sign

    @abstractmethod
    def linear(self, forms: Forms, sums: FloatArray, values: FloatArray) -> FloatArray:
        """Σ sums·z by pair."""

    @abstractmethod
    def quadratic(
        self,
        forms: Forms,
        noise: FloatArray,
        truth: FloatArray,
        first: FloatArray,
        second: FloatArray,
    ) -> FloatArray:
        """Σ noise·z_i·z_j + truth·Σ_x W[y, x]·h_i(x)·h_j(x) by pair."""

    @abstractmethod
    def counted(self, forms: Forms, sums: FloatArray, there: BoolArray) -> FloatArray:
        """Σ sums over the lines that can have a value that is there, by pair."""

    def floor(self, forms: Forms, sums: FloatArray, there: BoolArray) -> FloatArray | None:
        """The least variance that any table of people allows an indicator, by pair."""
        return None

    def law(
        self, forms: Forms, statistics: Sequence[Statistic], i: int, j: int, plain: FloatArray
    ) -> FloatArray:
        """The covariance by row, where the operator knows more than that of independent draws."""
        return plain

    def reached(self, forms: Forms) -> BoolArray:
        ones = np.ones(len(self.moments.of))
        return np.asarray(self.counted(forms, ones, forms.cells >= 0) > 0, np.bool_)

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        return DrawnTotals(self, forms, statistics)


class DrawnTotals(Totals):
    """Estimates by row; covariances are computed for the combinations that are asked for."""

    def __init__(
        self, estimated: DrawnEstimated, forms: Forms, statistics: Sequence[Statistic]
    ) -> None:
        self._estimated, self._forms, self._statistics = estimated, forms, statistics
        self._moments = estimated.moments
        sums = self._moments.sums
        self.values = np.stack(
            [
                forms.by_row(estimated.linear(forms, sums[(each.weight,)], each.values))
                for each in statistics
            ]
        )
        self.present = np.stack([self._count(each) > 0 for each in statistics])

    def _count(self, each: Statistic, weights: FloatArray | float = 1.0) -> FloatArray:
        sums = self._moments.sums[(each.number,)] * weights
        return self._forms.by_row(self._estimated.counted(self._forms, sums, each.there))

    def variance(self, gradient: Sequence[FloatArray | float]) -> FloatArray:
        whole: FloatArray = np.zeros(self._forms.rows)
        for i, slope in enumerate(gradient):
            for j in range(i + 1):
                twice = 1.0 if i == j else 2.0
                whole = whole + twice * slope * gradient[j] * self._covariance(i, j)
        floor = self._floor(gradient)
        return whole if floor is None else np.maximum(whole, floor)

    def _covariance(self, i: int, j: int) -> FloatArray:
        first, second = self._statistics[i], self._statistics[j]
        sums = self._moments.sums[(first.weight, second.weight)]
        noise, truth = sums, -sums
        if self._moments.copies is not None:
            noise = sums * self._moments.copies
            truth = np.where(np.asarray(self._moments.sampled), 0.0, -noise)
        plain = self._forms.by_row(
            self._estimated.quadratic(self._forms, noise, truth, first.values, second.values)
        )
        if i == j and self._moments.copies is not None and first.is_indicator:
            plain = plain + self._unseen(first)
        return self._estimated.law(self._forms, self._statistics, i, j, plain)

    def _unseen(self, each: Statistic) -> FloatArray:
        """What two draws that were not seen would add, each copied as often as the mean record.

        2w²·(s/n)²·(q/s), which fades out where nothing was copied.
        """
        assert self._moments.copies is not None
        squares = self._moments.sums[(each.weight, each.weight)] * self._moments.copies
        n, s = self._count(each), self._count(each, self._moments.copies)
        q = self._forms.by_row(self._estimated.counted(self._forms, squares, each.there))
        with np.errstate(divide="ignore", invalid="ignore"):
            unseen = 2 * self._estimated.largest**2 * s * q / (n * n) * (1 - n / s)
        return np.where(n > 0, unseen, 0.0)

    def _floor(self, gradient: Sequence[FloatArray | float]) -> FloatArray | None:
        """Sums of one indicator: the least variance, whatever people there are."""
        there = self._statistics[0].there
        if not all(
            each.is_indicator and (each.there is there or np.array_equal(each.there, there))
            for each in self._statistics
        ):
            return None
        whole: FloatArray = np.zeros(self._forms.rows)
        for i, slope in enumerate(gradient):
            for j in range(i + 1):
                weights = (self._statistics[i].weight, self._statistics[j].weight)
                least = self._estimated.floor(self._forms, self._moments.sums[weights], there)
                if least is None:
                    return None
                twice = 1.0 if i == j else 2.0
                whole = whole + twice * slope * gradient[j] * self._forms.by_row(least)
        return whole


class Structured(DrawnEstimated):
    """One column, whose inverse has structure."""

    def __init__(self, moments: Moments, inverse: Inverse) -> None:
        self.moments, self.inverse = moments, inverse
        (self._symbol,) = moments.shown
        self._block = inverse.blocks[self._symbol]
        self._own, self._left = inverse.own[self._symbol], inverse.left[self._symbol]
        self._known: tuple[Forms, tuple[IntArray, IntArray]] | None = None

    @property
    def largest(self) -> float:  # type: ignore[override]
        return self.inverse.largest

    def _lines(self, forms: Forms) -> tuple[IntArray, IntArray]:
        """The lines whose own value is in some form, and the pair of each."""
        if self._known is None or self._known[0].cells is not forms.cells:
            profile = forms.profile[self.moments.of]
            form = forms.cells[profile, self.inverse.codes[self._symbol]]
            lines = np.flatnonzero(form >= 0)
            start = forms.starts[:-1][self.moments.of[lines]]
            pair = start + form[lines] - forms.first[profile[lines]]
            self._known = forms, (lines, pair)
        return self._known[1]

    def _at_lines(self, forms: Forms, lines: IntArray, values: FloatArray) -> FloatArray:
        profile = forms.profile[self.moments.of[lines]]
        return np.asarray(values[profile, self.inverse.codes[self._symbol[lines]]])

    def _by_block(self, sums: FloatArray) -> FloatArray:
        """Sums by (class, block)."""
        many = self.inverse.many_blocks
        place = self.moments.of * many + self._block
        found = sum_by(place, sums, self.moments.classes * many)
        return found.reshape(self.moments.classes, many)

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
        lines, pair = self._lines(forms)
        here = self._at_lines(forms, lines, values)
        asked = here != 0
        return sum_by(pair[asked], sums[lines[asked]] * here[asked], forms.pairs)

    def linear(self, forms: Forms, sums: FloatArray, values: FloatArray) -> FloatArray:
        found = self._alone(forms, self._own * sums, values)
        if not self.inverse.spreads.any():
            return found
        by_class = self._by_block(product(self._left, sums))
        return self._added(forms, by_class, self._by_form(forms, self.inverse.right, values), found)

    def counted(self, forms: Forms, sums: FloatArray, there: BoolArray) -> FloatArray:
        asked = there.astype(np.float64)
        if not self.inverse.spreads.any():
            return self._alone(forms, sums, asked)
        # a line that adds to other values adds to its own as well: it counts once
        spreads = self.inverse.spreads[self._symbol]
        found = self._alone(forms, np.where(spreads, 0.0, sums), asked)
        reaches = self._by_form(forms, self.inverse.right != 0, asked) > 0
        others = self._by_block(np.where(spreads, sums, 0.0))
        return self._added(forms, others, reaches.astype(np.float64), found)

    def quadratic(
        self,
        forms: Forms,
        noise: FloatArray,
        truth: FloatArray,
        first: FloatArray,
        second: FloatArray,
    ) -> FloatArray:
        lines, pair = self._lines(forms)
        one, other = (self._at_lines(forms, lines, each) for each in (first, second))
        asked = (one != 0) | (other != 0)
        lines, pair, one, other = lines[asked], pair[asked], one[asked], other[asked]
        own, left = self._own[lines], self._left[lines]
        added = own * (own * noise[lines] + truth[lines]) * one * other
        if not self.inverse.spreads.any():
            return sum_by(pair, added, forms.pairs)
        right, block = self.inverse.right, self._block[lines]
        form = forms.pair_form[pair]
        rests = [self._by_form(forms, right, each) for each in (first, second)]
        crossed = one * rests[1][form, block] + other * rests[0][form, block]
        added += product(own * left * noise[lines], crossed)
        found = sum_by(pair, added, forms.pairs)
        squares = self._by_block(product(self._left**2, noise))
        plain = self._by_block(product(self._left, truth))
        found = self._added(forms, squares, rests[0] * rests[1], found)
        return self._added(forms, plain, self._by_form(forms, right, first * second), found)

    def floor(self, forms: Forms, sums: FloatArray, there: BoolArray) -> FloatArray | None:
        if np.isnan(self.inverse.kept).all():
            return None
        inside = self._by_form(forms, np.ones(len(self.inverse.codes)), there.astype(np.float64))
        least = self.inverse.least_variance(inside)
        return self._added(forms, self._by_block(sums), least, 0.0)

    def histogram(self, weight: Hashable) -> FloatArray:
        return histogram(self.moments, weight, [self.inverse])


class DecoyEstimated(Structured):
    """Decoys: where a row asks about one value, the groups' own law (`Decoy.covariance`)."""

    def __init__(self, moments: Moments, operator: Decoy) -> None:
        super().__init__(moments, operator.inverse())
        self._operator = operator

    def law(
        self, forms: Forms, statistics: Sequence[Statistic], i: int, j: int, plain: FloatArray
    ) -> FloatArray:
        first, second = statistics[i], statistics[j]
        if not (first.is_indicator and second.is_indicator):
            return plain
        low, high = forms.extremes(first.there & second.there)
        single = np.flatnonzero(low == high)
        # what is never negative is kept so: an estimate outside its bounds is noise
        square = self._held(forms, (first.weight, second.weight), first, bounded=i == j)
        held = [
            self._held(forms, (each.weight,), each, bounded=each.weight == each.number)
            for each in (first, second)
        ]
        chosen = [Held(each.all[single], each.own[single]) for each in (square, *held)]
        closed = plain.copy()
        closed[single] = self._operator.covariance(low[single], *chosen)
        return closed

    def _held(
        self, forms: Forms, weights: tuple[Hashable, ...], each: Statistic, *, bounded: bool
    ) -> Held:
        sums = self.moments.sums[weights]
        everything = forms.by_row(self.counted(forms, sums, each.there))
        own = forms.by_row(self.linear(forms, sums, each.values))
        return Held(everything, np.clip(own, 0.0, everything) if bounded else own)


class DrawnEstimator(Estimator):
    """For one column whose inverse has structure; `decoy` is its operator, where it is decoys."""

    def __init__(self, inverse: Inverse, decoy: Decoy | None = None) -> None:
        self._inverse, self._decoy = inverse, decoy

    def estimate(self, moments: Moments) -> Estimated:
        if self._decoy is not None:
            return DecoyEstimated(moments, self._decoy)
        return Structured(moments, self._inverse)


def histogram(
    moments: Moments, weight: Hashable, inverses: Sequence[Inverse | DenseInverse]
) -> FloatArray:
    """Σ e by (class, value …), −∞ where no record of the class could have the values."""
    found = moments.table(weight, [len(each.codes) for each in inverses])
    reached = (found != 0).astype(np.float64)
    for axis, inverse in enumerate(inverses, start=1):
        found = _by_value(inverse, inverse.estimate(np.moveaxis(found, axis, -1)), axis)
        pattern = inverse.pattern().estimate(np.moveaxis(reached, axis, -1))
        reached = _by_value(inverse, pattern, axis)
    return np.where(reached > 0, found, -np.inf)


def _by_value(inverse: Inverse | DenseInverse, by_symbol: FloatArray, axis: int) -> FloatArray:
    found = np.zeros((*by_symbol.shape[:-1], inverse.values))
    np.add.at(found.T, inverse.codes, by_symbol.T)
    return np.moveaxis(found, -1, axis)
