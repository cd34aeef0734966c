"""Estimates where every record was drawn by itself: uniform, fine-grain, parts, decoys, samples.

With z = Σ_x W[y, x]·h(x) what a record that shows y adds, U = Σ e·z is unbiased, and the
covariance of U_i and U_j is estimated without bias by
Σ e_i·e_j·(z_i·z_j − Σ_x W[y, x]·h_i(x)·h_j(x)) (methods, section 1). Sums over the records come by
class and symbol, so both are sums over lines. Few records tell little of how far off they are: the
covariance that the whole release suggests counts as much as `_USUAL` of them.

What is shown is drawn towards independence (`shrinkage`): a row has one gain, that of its count,
whatever is summed over it. Intervals start from U: those of counts hold every truth under which
what is seen is likely (`tails`), and reach to what is believed.

Where groups were sampled and copied back to their size, the noise of a draw counts as often as it
was copied, and a count is likely or not by the law of so many fewer draws, by kind of group. The
sample keeps the shares of its group up to a rounding: of the error that is believed it adds at most
Σ copies·Σ_x W[y, x]·h(x)², what independent draws would add (by brute force half to all of it for
1 to 200 people); intervals, whose law is of whole draws, hold without it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import (
    BELIEVED,
    Ends,
    Estimated,
    Forms,
    Moments,
    Statistic,
    Totals,
    average_ends,
    quotients_of,
    sum_by,
)
from sfumato.operators.normal import ndtr
from sfumato.operators.shrinkage import Belief, CountEstimates, Shrunk, added_up
from sfumato.operators.tails import TwoRates, assisted_count
from sfumato.operators.weighing import Composition, DenseWeights, Inverses, LevelWeights

_USUAL = 30.0  # records
_NOTHING = 1e-9  # variance of a record
_MOST_CELLS = 1 << 24  # (pool, value) pairs that deviations are learnt from


class DrawnEstimated(Estimated):
    """From the inverses of the columns asked about, and what the whole release is made of."""

    def __init__(
        self,
        moments: Moments,
        inverses: Inverses,
        wholes: Sequence[Composition],
        *,
        shrunk: bool = True,
    ) -> None:
        self.moments, self.shrinks, self._inverses, self._wholes = moments, shrunk, inverses, wholes
        self.rows = wholes[0].rows  # of the whole release
        self.way: type[LevelWeights | DenseWeights] = (
            LevelWeights if len(inverses) == 1 else DenseWeights
        )
        self._weights: tuple[Forms, LevelWeights | DenseWeights] | None = None
        self._beliefs: dict[Hashable, tuple[Belief, FloatArray, FloatArray]] = {}

    def weights(self, forms: Forms) -> Any:
        if self._weights is None or self._weights[0] is not forms:
            self._weights = forms, self.way(self.moments, forms, self._inverses, self._wholes)
        return self._weights[1]

    def linear(self, forms: Forms, each: Statistic) -> FloatArray:
        """Σ e·z by row."""
        z = self.weights(forms)
        sums = self.moments.sums[(each.weight,)]
        return forms.by_row(z.over_lines(z.weigh(each.values), sums))

    def independent(self, forms: Forms, each: Statistic) -> FloatArray:
        """Σ e·h on average by row, if the records were like those of the whole release."""
        z, sums = self.weights(forms), self.moments.sums[(each.weight,)]
        return forms.by_row(z.at_pairs(sums, z.true_mean(each.values)))

    def counted(self, forms: Forms, sums: FloatArray, there: BoolArray) -> FloatArray:
        """Σ sums over the lines that can have a value that is there, by pair."""
        z = self.weights(forms)
        return np.asarray(z.over_lines(z.reach(there), sums))

    def covariance(
        self, forms: Forms, first: Statistic, second: Statistic, *, independent: bool
    ) -> FloatArray:
        """Σ noise·z_i·z_j + truth·Σ_x W[y, x]·h_i(x)·h_j(x) by row, truth being −noise but for
        samples; or this on average, if the records were like those of the whole release."""
        sums = self.moments.both(first.weight, second.weight)
        noise, truth = sums, -sums
        if self.moments.copies is not None:
            noise = sums * self.moments.copies
            truth = np.where(self.moments.copies > 1, 0.0, -noise)
        z, both = self.weights(forms), first.values * second.values
        one = z.weigh(first.values)
        square = z.times(one, one if second is first else z.weigh(second.values))
        if independent:
            whole = z.at_pairs(noise, z.mean(square, z.shown))
            return forms.by_row(whole + z.at_pairs(truth, z.true_mean(both)))
        return forms.by_row(z.over_lines(square, noise) + z.over_lines(z.weigh(both), truth))

    def rates(self, forms: Forms, sums: FloatArray, there: BoolArray) -> list[FloatArray]:
        """By row: those who have something that is there, under independence, and how many of them
        show something that is; the same of those who have nothing.

        With Q what of a block shows something that is there, F what has it, and the step from what
        others add to what those who show it do: Q = F·q₁ + (1 − F)·q₀, q₁ − q₀ = 1/step.
        """
        z, asked = self.weights(forms), there.astype(np.float64)
        marked, weights = z.mark(there), z.weigh(asked)
        has, shows, whole = z.true_mean(asked), z.mean(marked, z.shown), z.mean(weights, z.shown)
        inside = z.mean(z.times(marked, weights), z.shown)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = inside / shows - (whole - inside) / (1 - shows)
            jump = np.where(np.isfinite(step) & (step >= 1), 1 / step, 1.0)
        other, reached = np.clip(shows - has * jump, 0.0, 1.0), has > 0
        parts = (has, has * np.clip(other + jump, 0.0, 1.0), 1 - has, (1 - has) * other)
        return [forms.by_row(z.at_pairs(sums, np.where(reached, part, 0.0))) for part in parts]

    def cells(self, number: Hashable) -> CountEstimates:
        """By (pool, value): estimates of counts."""
        sizes, pools = tuple(inverse.values for inverse in self._inverses), self.pools
        many = math.prod(sizes)
        every = np.arange(many).reshape(1, *sizes)
        forms = Forms.of(np.zeros(self.moments.classes, np.int64), every, np.array([0, many]))
        row = self.pool[forms.pair_class] * many + forms.pair_form
        forms, ones = forms.placed(row, pools * many), np.ones(every.shape)
        count = Statistic(number, number, ones, ones > 0)
        variance = self.covariance(forms, count, count, independent=True)
        people = sum_by(self.pool, self.moments.total(number), pools)
        outside = self.outside(forms, count, np.repeat(people, many))
        return CountEstimates(
            self.linear(forms, count).reshape(pools, many),
            self.independent(forms, count).reshape(pools, many),
            np.maximum(variance, 0.0).reshape(pools, many),
            outside.reshape(pools, many),
        )

    def outside(self, forms: Forms, count: Statistic, people: FloatArray) -> FloatArray:
        """By row: what share of the records that could show what is counted are not among its
        people, of the whole release or of the blocks that they are in."""
        whole = self._wholes[0]
        if len(self._inverses) > 1 or (whole.block_rows == whole.rows).all():
            return 1 - people / max(whole.rows, 1.0)
        (inverse,), (symbol,) = self._inverses, self.moments.shown
        sums, every = self.moments.sums[(count.number,)], len(whole.block_rows)
        pair = self.pool[self.moments.of] * every + inverse.blocks[symbol]
        inside = sum_by(pair, sums, self.pools * every)[pair] / whole.block_rows[symbol]
        taken, reached = (
            forms.by_row(self.counted(forms, lines, count.counted))
            for lines in (sums * inside, sums)
        )
        return np.asarray(
            1 - np.divide(taken, reached, out=np.zeros_like(taken), where=reached > 0)
        )

    @cached_property
    def pool(self) -> IntArray:
        """Classes of one pool are one group."""
        pools = self.moments.pool
        return np.arange(self.moments.classes) if pools is None else pools

    @property
    def pools(self) -> int:
        return max(int(self.pool.max(initial=-1)) + 1, 1)

    def belief(self, number: Hashable) -> tuple[Belief, FloatArray, FloatArray]:
        """What the values of every pool tell; its people; and its counts as they are shown."""
        if number not in self._beliefs:
            pools = self.pools
            people = sum_by(self.pool, self.moments.total(number), pools)
            sizes = [inverse.values for inverse in self._inverses]
            if self.moments.classes * math.prod(sizes) > _MOST_CELLS:
                self._beliefs[number] = Belief.usual(pools), people, np.empty((pools, 0))
            else:
                cells = self.cells(number)
                belief = Belief.of(cells).tested(cells)
                group = np.broadcast_to(np.arange(pools)[:, None], cells.unbiased.shape)
                shown = cells.moved(belief.shrunk(cells, group).kept)
                self._beliefs[number] = belief, people, added_up(shown, people, cells.variance)
        return self._beliefs[number]

    def reached(self, forms: Forms) -> BoolArray:
        ones = np.ones(len(self.moments.of))
        return np.asarray(self.counted(forms, ones, forms.cells >= 0) > 0, np.bool_)

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        with np.errstate(all="ignore"):  # weights and values need not be numbers
            return _DrawnSums(self, forms, statistics).totals()


@dataclass(frozen=True, eq=False)
class _Row:
    """Of what a statistic counts, by row: its records, the estimate, and what is believed of it."""

    pool: IntArray
    people: FloatArray
    cells: CountEstimates
    shrunk: Shrunk
    shown: FloatArray
    law: TwoRates
    spread: FloatArray  # τ²
    excess: FloatArray

    @property
    def error(self) -> FloatArray:
        """The squared error of what is shown, as a part of the noise."""
        away = (self.shrunk.kept - self.shrunk.gain) * self.cells.away
        noise = np.maximum(self.cells.variance, 1e-300)
        believed = self.excess * (self.shrunk.variance + away**2)
        error_part = np.minimum(believed / noise, 1.0 + away**2 / noise)
        # of everybody the number is known, but a sum of their values is as noisy as it is
        return np.where(self.cells.variance > 0, error_part, 1.0)


class _DrawnSums:
    """Sums by row, each drawn towards independence by what its count is; and their covariances."""

    def __init__(
        self, estimated: DrawnEstimated, forms: Forms, statistics: Sequence[Statistic]
    ) -> None:
        self._estimated, self._forms, self._statistics = estimated, forms, statistics
        self._moments = estimated.moments
        self._unbiased = np.stack([estimated.linear(forms, statistic) for statistic in statistics])
        self._rows = self._of_statistics()

    def totals(self) -> Totals:
        several = range(len(self._statistics))
        noise = self._covariances(_USUAL)
        values, ends = self._unbiased, None
        if self._estimated.shrinks:
            values = np.stack([self._shown(index) for index in several])
            part = np.sqrt(np.stack([row.error for row in self._rows]))
            error = np.where(part[:, None] * part == 0, 0.0, part[:, None] * part * noise)
        else:
            error = self._covariances(0.0)  # without bias
        if len(several) == 1 and self._statistics[0].is_count:
            ends = partial(self._count_ends, values)
        totals = Totals(
            values,
            self._unbiased,
            np.stack([self._count(statistic) > 0 for statistic in self._statistics]),
            noise,
            error,
            quotients_of(self._statistics, self._moments, self._forms),
            ends=ends,
        )
        if ends is None and len(several) == 1 and self._estimated.shrinks:
            return replace(totals, ends=partial(self._sum_ends, totals))
        return totals

    def _covariances(self, usual: float) -> FloatArray:
        many = len(self._statistics)
        covariances = np.empty((many, many, self._forms.rows))
        for i in range(many):
            for j in range(i + 1):
                covariances[i, j] = covariances[j, i] = self._covariance(i, j, usual)
        return covariances

    def _count(self, each: Statistic, *, drawn: bool = False) -> FloatArray:
        """Its records; or how many draws they are copies of."""
        sums = self._moments.sums[(each.number,)]
        if drawn and self._moments.copies is not None:
            sums = sums / self._moments.copies
        return self._forms.by_row(self._estimated.counted(self._forms, sums, each.there))

    def _of_statistics(self) -> list[_Row]:
        """What every statistic counts, once for those that count the same."""
        rows_by_key: dict[tuple[Hashable, bytes], _Row] = {}
        keys = [(statistic.number, statistic.counted.tobytes()) for statistic in self._statistics]
        for key, each in zip(keys, self._statistics, strict=True):
            if key not in rows_by_key:
                rows_by_key[key] = self._row(each)
        return [rows_by_key[key] for key in keys]

    def _shown(self, place: int) -> FloatArray:
        """A sum drawn towards independence: all sums of a row by the gain of its count."""
        statistic, row, unbiased = self._statistics[place], self._rows[place], self._unbiased[place]
        if statistic.is_count:
            return row.shown
        start = self._estimated.independent(self._forms, statistic)
        kept = row.shrunk.kept
        moved = np.where(kept == 1, unbiased, start + kept * (unbiased - start))
        # what a record adds in the mean, for as many as are shown
        before = row.cells.moved(kept)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(before > 0, moved / before, start / row.cells.independent)
        mean = np.where(np.isfinite(mean), mean, 0.0)
        if statistic.scale is not None:
            mean = np.clip(mean, *average_ends(statistic, self._moments, self._forms))
        return np.where(row.cells.variance > 0, mean * row.shown, moved)

    def _row(self, each: Statistic) -> _Row:
        forms, estimated = self._forms, self._estimated
        count = Statistic(each.number, each.number, each.counted.astype(np.float64), each.counted)
        sums = self._moments.sums[(each.number,)]
        pool = np.zeros(forms.rows, np.int64)
        kept = forms.row >= 0
        pool[forms.row[kept]] = estimated.pool[forms.pair_class[kept]]
        belief, _, _ = estimated.belief(each.number)
        independent, showing, others, shown = estimated.rates(forms, sums, each.counted)
        people = forms.by_row(estimated.counted(forms, sums, each.counted))
        unbiased = estimated.linear(forms, count)
        cells = CountEstimates(
            unbiased,
            independent,
            self._noise_of(count, people),
            estimated.outside(forms, count, people),
        )
        q1 = np.divide(showing, independent, out=np.ones_like(independent), where=independent > 0)
        q0 = np.divide(shown, others, out=np.zeros_like(independent), where=others > 0)
        q1, q0 = np.clip(q1, 1e-9, 1 - 1e-9), np.clip(q0, 1e-9, 1 - 1e-9)
        q1 = np.maximum(q1, q0 + 1e-9)
        step = q1 - q0
        copies, shares = self._draws(each, people)
        law = TwoRates(people, unbiased * step + people * q0, q1, q0, copies, shares)
        if self._moments.copies is None:
            noise = law.error(np.clip(independent, 0.0, people)) ** 2
            ratio = np.clip(cells.variance / noise, 1e-9, 1e9)
            law = replace(law, copies=np.where(np.abs(ratio - 1) < 2e-3, 1.0, ratio)[None])
        # what most people have is what the others have not: they are the same answer
        most = independent > people / 2
        either = [np.where(most, people - counts, counts) for counts in (unbiased, independent)]
        turned = replace(cells, unbiased=either[0], independent=either[1])
        shrunk = belief.shrunk(turned, pool)
        shown = np.clip(cells.moved(shrunk.kept), 0.0, people)
        shown = self._values_of_pools(each, pool, shown)
        spread, excess = belief.spread[pool], belief.excess[pool]
        return _Row(pool, people, cells, shrunk, shown, law, spread, excess)

    def _draws(self, each: Statistic, people: FloatArray) -> tuple[FloatArray, FloatArray]:
        """By kind of draws and row: how many people one stands for, and their share of people."""
        copies, sums = self._moments.copies, self._moments.sums[(each.number,)]
        if copies is None:
            return np.ones((1, len(people))), np.ones((1, len(people)))
        kinds = np.ceil(np.log2(copies)).astype(np.int64)
        inside, noise = (
            np.stack(
                [
                    self._forms.by_row(
                        self._estimated.counted(self._forms, of * (kinds == kind), each.counted)
                    )
                    for kind in range(kinds.max(initial=0) + 1)
                ]
            )
            for of in (sums, sums * copies)
        )
        mean = np.divide(noise, inside, out=np.ones_like(noise), where=inside > 0)
        return mean, inside / np.maximum(people, 1e-300)

    def _noise_of(self, count: Statistic, people: FloatArray) -> FloatArray:
        """V; what is no more than a rounding is none."""
        variance = self._estimated.covariance(self._forms, count, count, independent=True)
        return np.where(
            variance > _NOTHING * people, variance, np.where(np.isnan(variance), variance, 0.0)
        )

    def _values_of_pools(self, each: Statistic, pool: IntArray, shown: FloatArray) -> FloatArray:
        """Rows of one value, or of all but one, and a whole pool, whose values add up to it."""
        _, whole, values = self._estimated.belief(each.number)
        forms, many = self._forms, values.shape[1]
        if each.values.ndim > 2 or not many:
            return shown
        number, codes = forms.inside(each.counted)
        records = forms.by_row(self._moments.total(each.number)[forms.pair_class])
        everybody = (records == whole[pool]) & np.isfinite(shown)
        code = forms.of_rows(np.where(number == 1, codes, -1))
        missing = forms.of_rows(np.where(number == many - 1, many * (many - 1) // 2 - codes, -1))
        one, but = everybody & (code >= 0), everybody & (missing >= 0)
        shown[but] = whole[pool[but]] - values[pool[but], missing[but]]
        shown[one] = values[pool[one], code[one]]
        return shown

    def _count_ends(self, values: FloatArray, quantile: float) -> Ends:
        """The interval of a count, with the prior of the rest of the release."""
        (row,) = self._rows
        cells, outside = row.cells, np.maximum(row.cells.outside, 1e-9)
        inside = 1 - outside
        prior = (cells.independent - inside * cells.unbiased) / outside
        spread = (row.spread * cells.independent**2 + cells.chance) / outside**2
        spread = spread + inside * cells.variance / outside
        shrinks, confidence = self._estimated.shrinks, 2 * float(ndtr(quantile)) - 1
        low, high = assisted_count(
            row.law, prior, spread if shrinks else np.full_like(spread, np.inf), confidence
        )
        if shrinks:
            believed = cells.moved(row.shrunk.gain)
            around = BELIEVED * quantile * np.sqrt(row.shrunk.variance)
            low = np.clip(np.fmin(low, believed - around), 0.0, row.people)
            high = np.clip(np.fmax(high, believed + around), 0.0, row.people)
        return np.fmin(low, values), np.fmax(high, values)

    def _sum_ends(self, plain: Totals, quantile: float) -> Ends:
        """As a normal law has it; of copies of few draws as far as its count may be off, too, whose
        law is not normal; of what is never below 0, not below."""
        (row,), (statistic,) = self._rows, self._statistics
        low, high = plain.interval(plain.values[0], np.sqrt(plain.variance([1.0])), quantile, [1.0])
        least, most = average_ends(statistic, self._moments, self._forms)
        if statistic.scale is not None and self._moments.copies is not None:
            each = np.sqrt(plain.noise[0, 0] / row.cells.variance)
            each = np.copysign(each, self._estimated.independent(self._forms, statistic))
            for end in self._count_ends(row.shown, quantile):
                moved = plain.unbiased[0] + each * (end - row.cells.unbiased)
                low, high = np.fmin(low, moved), np.fmax(high, moved)
        low = np.where(least >= 0, np.fmax(low, 0.0), low)
        high = np.where(most <= 0, np.fmin(high, 0.0), high)
        return np.fmin(low, plain.values), np.fmax(high, plain.values)

    def _covariance(self, i: int, j: int, usual: float) -> FloatArray:
        """From what is seen, and as if so many records more were like those of the release."""
        estimated, forms, pair = self._estimated, self._forms, (i, j)
        first, second = (self._statistics[k] for k in pair)
        seen = estimated.covariance(forms, first, second, independent=False)
        if not usual:
            return seen
        whole = estimated.covariance(forms, first, second, independent=True)
        number = np.minimum(*(self._count(self._statistics[k], drawn=True) for k in pair))
        return np.asarray((number * seen + usual * whole) / (number + usual))
