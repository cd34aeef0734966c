"""Estimates from buckets that list values, mixed in one block or block by block (methods, 7, 10.3).

Blocks are public, and records reach slots within their block, so a release is a sum of small ones.
Of block k are known its N_k records, the counts D_k of its values and C_k[x, y] = Σ_g c_x·c_y/|g|.
Let the share a_k of it be in a group, f_k = a_k(1 − a_k), and let the group show o_k. If it were
drawn from the block at random, its counts would be n_k = a_k·D_k on average. Groups are not: they
deviate by f_k·D_k·(δ + η_k), with one δ_x ~ N(0, τ²) for all blocks, because what goes with being
in the group goes with it everywhere, and an η_k ~ N(0, Ω) of every block. Slots are random, so

    r_k = o_k − a_k·D_k  has the mean G_k·(δ + η_k) and the covariance G_k = f_k(C_k − D_kD_kᵀ/N_k),
    E[n_k | δ, η_k, o_k] = o_k + H_k·(δ + η_k),  Cov = H_k,   H_k = f_k(D_k − C_k).

δ is estimated from all blocks together, τ² by maximum likelihood. With one block and τ² = ∞ this is
the inverse; a block that a group holds whole has f_k = 0 and is known exactly. A group has one
gain, that of its count, whatever is summed over it, so that sums asked in two ways are the same;
the covariance of two sums is that of counts times (Σde − ΣdΣe/N)/(n − n²/N). Where all counts are
known, the first sum stands for them.

Intervals start from the unbiased estimate. Along directions that no bucket tells anything of the
noise has no end: what needs them is between what is possible. So is every count, bucket by bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.limits import current_limits
from sfumato.operators.base import FloatArray
from sfumato.operators.deviations import BlocksOfGroup, BlockTable, Deviations
from sfumato.operators.estimator import (
    BELIEVED,
    Ends,
    Estimated,
    Forms,
    Moments,
    Prior,
    Statistic,
    Totals,
    quotients_of,
    sum_by,
    summed,
)
from sfumato.operators.marks import MarkDeviations, MarkSystem
from sfumato.operators.shrinkage import added_up

_AT_ONCE = 1 << 21  # numbers of one kind of matrix that are made at the same time
_KEPT = 1 << 23  # and that are kept for the error bars of what was estimated with them
_MOST_VALUES = 128  # of blocks that are taken to differ
_UNSEEN = 1e-6  # of what an answer needs: with more untold, it is between what is possible
_PART = 0.5  # of a record: nobody is missing
_LEAST = 1e-300
_NOTHING = 1e-9  # of the records: a count that leaves no more open is known


class ListedEstimated(Estimated):
    """Lines show buckets, and buckets are in blocks; every class has one δ.

    `shrunk` believes of δ what it can know, `inverse` takes what is unbiased.
    """

    def __init__(self, moments: Moments, table: BlockTable, name: str = "shrunk") -> None:
        self.table, self.name, self.values = table, name, table.listed.shape[1]
        self._block = np.searchsorted(table.first, moments.shown[0], side="right") - 1
        self.moments = moments
        of = moments.of * len(self.weights) + self._references()
        distinct, of = np.unique(of, return_inverse=True)
        # the weight that tells the gain of a class; the class that it was a part of
        self.reference, self._whole = distinct % len(self.weights), distinct // len(self.weights)
        pool = self._whole if moments.pool is None else moments.pool[self._whole]
        self.moments = replace(moments, classes=len(distinct), of=of.reshape(-1), pool=pool)
        self._sums: dict[tuple[Hashable, ...], Any] = {}
        self._fits: list[tuple[IntArray, Deviations | MarkDeviations]] = []
        self._counts: dict[Hashable, FloatArray] = {}

    @cached_property
    def weights(self) -> list[Hashable]:
        """All weights that are summed, one that counts records first, if there is one."""
        sums = self.moments.sums
        weights = [pair[0] for pair in sums if len(pair) == 1]
        return sorted(
            weights,
            key=lambda w: (w, w) in sums and not np.array_equal(sums[(w,)], sums[(w, w)]),
        )

    def by_block(self, *weights: Hashable) -> Any:
        """Σ e by (class, block), over N: sparse."""
        from scipy.sparse import csr_array

        if weights not in self._sums:
            sums = self.moments.both(*weights)
            shape = (self.moments.classes, len(self.table.rows))
            lined = csr_array((sums, (self.moments.of, self._block)), shape=shape)
            self._sums[weights] = csr_array(lined * (1 / self.table.rows))
        return self._sums[weights]

    def loose(self, one: Hashable, other: Hashable) -> Any:
        """f for two weights, (Σde − ΣdΣe/N)/N by (class, block); never below 0 for d = e."""
        free_part = self.by_block(one, other) - self.by_block(one) * self.by_block(other)
        if one == other:
            free_part.data = np.maximum(free_part.data, 0.0)
        return free_part

    def _references(self) -> IntArray:
        """By line: the first weight that is not known exactly of the class in the block.

        Of a block that a class has whole the count is known, but no sum: such blocks are a class
        by themselves, with a δ of the sum.
        """
        pair = self.moments.of * len(self.table.rows) + self._block
        distinct, same = np.unique(pair, return_inverse=True)
        rows = self.table.rows[distinct % len(self.table.rows)]

        def share(*weights: Hashable) -> FloatArray:
            summed_lines = sum_by(same.reshape(-1), self.moments.both(*weights), len(rows))
            return np.asarray(summed_lines / rows)

        records = np.maximum(share(self.weights[0]), _NOTHING)
        free = [share(w, w) - share(w) ** 2 > _NOTHING * records for w in self.weights]
        return np.asarray(np.stack(free).argmax(axis=0)[same.reshape(-1)])

    def _parts_of(self, forms: Forms) -> tuple[Forms, IntArray]:
        """The same for the parts of the classes, and which pair each of their pairs was."""
        width = np.diff(forms.starts)[self._whole]
        begins = forms.starts[self._whole] - (np.cumsum(width) - width)
        pair = np.repeat(begins, width) + np.arange(width.sum())
        profile, row = forms.profile[self._whole], forms.row[pair]
        cells = self._listed(forms.cells)
        return replace(forms, profile=profile, row=row, cells=cells), pair

    @cached_property
    def free(self) -> Any:
        """f by (class, block), of the reference."""
        from scipy.sparse import csr_array, diags_array

        parts = [
            diags_array((self.reference == index).astype(np.float64)) @ self.loose(weight, weight)
            for index, weight in enumerate(self.weights)
            if index == 0 or (self.reference == index).any()
        ]
        combined = csr_array(sum(parts[1:], parts[0]))
        combined.sort_indices()
        return combined

    def _lined(self, weight: Hashable, place: IntArray, places: int) -> Any:
        """What stands beside the lines, by place and value: sparse."""
        from scipy.sparse import csr_array

        shape = (places, len(self.table.sizes))
        at = place, self.moments.shown[0]
        return csr_array((self.moments.sums[(weight,)], at), shape=shape) @ self.table.shares

    @cached_property
    def shown(self) -> tuple[FloatArray, FloatArray]:
        """By (class, value, weight): Σ_k o_k + n₀ − Mᵀn₀, and r. Fakes blur what is shown."""
        start, residual = [], []
        for weight in self.weights:
            parts = self.by_block(weight)
            beside = self._lined(weight, self.moments.of, self.moments.classes).toarray()
            residual.append(beside - parts @ self.table.shown)
            start.append(parts @ self.table.counts + residual[-1])
        return np.stack(start, axis=2), np.stack(residual, axis=2)

    def fits(self) -> Iterator[tuple[IntArray, Deviations | MarkDeviations]]:
        """Some classes at a time, with their δ."""
        if self._fits:
            yield from self._fits
            return
        loose, kept = self.free, []
        size = self.width if len(self.table.rows) == 1 or self.is_mixed else self.values**2
        for low in range(0, self.moments.classes, max(_AT_ONCE // size, 1)):
            current_limits().check()
            some = np.arange(low, min(low + max(_AT_ONCE // size, 1), self.moments.classes))
            deviations: Deviations | MarkDeviations
            if self.is_mixed:
                deviations = self._mixed(loose, some)
            elif len(self.table.rows) == 1 or self.values > _MOST_VALUES:
                deviations = Deviations.shared(
                    self.table, loose[some], self.shown[1][some], self.reference[some]
                )
            else:
                deviations = Deviations.of_blocks(
                    [self._blocks_of(loose, c) for c in some.tolist()]
                )
            if self.moments.classes * size <= _KEPT:
                kept.append((some, deviations))
            yield some, deviations
        self._fits = kept

    @property
    def is_mixed(self) -> bool:
        """Whether buckets list other columns, too, whose marks deviate with those asked for."""
        return self.table.marks is not None

    @property
    def width(self) -> int:
        """The longest of what is written out for every pair."""
        marks = self.table.marks
        return self.values if marks is None else int(max(self.values, *marks.combined.shape))

    def _mixed(self, loose: Any, some: IntArray) -> MarkDeviations:
        """What the marks of some classes deviate by."""
        from scipy.sparse import csr_array

        table, marks, beyond = self.table, self.table.marks, []
        assert marks is not None
        for weight in self.weights:
            at = self.moments.of, self.moments.shown[0]
            shape = self.moments.classes, len(table.sizes)
            lined = csr_array((self.moments.sums[(weight,)], at), shape=shape)[some].toarray()
            expected = (self.by_block(weight)[some] @ marks.in_block).toarray() * table.sizes
            beyond.append((lined - expected).T)
        by_bucket, reference = np.stack(beyond, axis=2), self.reference[some]
        free = loose[some].toarray()
        if len(table.rows) == 1:
            return MarkDeviations.of(
                marks.one_block, by_bucket, free[:, 0], reference, table.asked, table.shares
            )
        return MarkDeviations.joined(
            [
                MarkDeviations.of(
                    MarkSystem(marks, free[number]),
                    by_bucket[:, number : number + 1],
                    np.ones(1),
                    reference[number : number + 1],
                    table.asked,
                    table.shares,
                )
                for number in range(len(some))
            ]
        )

    def _blocks_of(self, loose: Any, number: int) -> BlocksOfGroup:
        """The blocks that a class is partly in."""
        table, (low, high) = self.table, loose.indptr[number : number + 2]
        free = loose.data[low:high]
        blocks, free = loose.indices[low:high][free > 0], free[free > 0]
        shares, residual = [], []
        for weight in self.weights:
            share = self.by_block(weight)[[number]].toarray()[0, blocks]
            pairs, lines = self._by_class_and_block[weight]
            shown = lines[np.searchsorted(pairs, number * len(table.rows) + blocks)].toarray()
            shares.append(share)
            residual.append(shown - share[:, None] * table.shown[blocks])
        together = table.together[blocks].toarray().reshape(-1, self.values, self.values)
        return BlocksOfGroup(
            free,
            shares[self.reference[number]],
            table.listed[blocks],
            together,
            table.rows[blocks],
            np.stack(residual, axis=2),
            int(self.reference[number]),
        )

    @cached_property
    def _by_class_and_block(self) -> dict[Hashable, tuple[IntArray, Any]]:
        """The (class, block) pairs that have records, in order, and what they show by value."""
        from scipy.sparse import csr_array

        pair = self.moments.of * len(self.table.rows) + self._block
        distinct, inverse = np.unique(pair, return_inverse=True)
        return {
            weight: (distinct, csr_array(self._lined(weight, inverse.reshape(-1), len(distinct))))
            for weight in self.weights
        }

    @cached_property
    def estimated(self) -> dict[str, FloatArray]:
        """Σ e by (class, value, weight), for every estimator by name."""
        start, _ = self.shown
        estimates = {name: start.copy() for name in ("shrunk", "inverse", "shown")}
        for classes, deviations in self.fits():
            for name, moved in deviations.moved().items():
                estimates[name][classes] += moved
        return estimates

    @cached_property
    def entries(self) -> tuple[IntArray, IntArray, FloatArray]:
        """What the buckets of the lines list: line, value and how many."""
        at, shares = self.moments.shown[0], self.table.shares
        width = np.diff(shares.indptr)[at]
        line = np.repeat(np.arange(len(at)), width)
        within = np.arange(len(line)) - np.repeat(np.cumsum(width) - width, width)
        entry = shares.indptr[at[line]] + within
        counts = shares.data[entry] * self.table.sizes[at[line]]
        return line, shares.indices[entry].astype(np.int64), np.rint(counts)

    def ends(self, number: Hashable, place: IntArray, places: int) -> FloatArray:
        """The fewest and the most records that can have what is asked for, by place.

        `place` says for every entry where it is counted, −1 for nowhere: bucket by bucket, as many
        as there are records, or values, and in all no more than have the values; and at least
        those for whom nothing else is left.
        """
        line, value, counts = self.entries
        asked = np.flatnonzero(place >= 0)
        own_values, held_counts = asked, counts[asked]
        pair = line[asked] * places + place[asked]
        if not (np.diff(pair) > 0).all():  # a line lists each value once, in their order
            _, first, same = np.unique(pair, return_index=True, return_inverse=True)
            held_counts = sum_by(same.reshape(-1), held_counts, len(first))
            own_values = asked[first]
        records = self.moments.sums[(number,)][line[own_values]]
        listed = self.table.sizes[self.moments.shown[0][line[own_values]]]
        bounds = np.maximum(records + held_counts - listed, 0.0), np.minimum(records, held_counts)
        ends = np.stack([sum_by(place[own_values], bound, places) for bound in bounds])
        if self.table.sizes.sum() > self.table.rows.sum() + _PART:  # buckets list fakes, too
            pairs = np.unique(place[asked] * self.values + value[asked])
            people = self.table.counts.sum(axis=0)[pairs % self.values]
            ends[1] = np.minimum(ends[1], sum_by(pairs // self.values, people, places))
        return ends

    def cut(self, number: Hashable) -> FloatArray:
        """Counts by (class, value) between what is possible, adding up to the records; and, where
        the classes have everybody in them, to the people that there are of every value."""
        if number not in self._counts:
            line, value, _ = self.entries
            shape = self.moments.classes, self.values
            cell = self.moments.of[line] * self.values + value
            least, most = self.ends(number, cell, shape[0] * shape[1]).reshape(2, *shape)
            shrunk = self.estimated["shrunk"][:, :, self.weights.index(number)]
            totals = self.moments.total(number)
            everybody = abs(float(totals.sum() - self.table.rows.sum())) < _PART
            of_value = self.table.counts.sum(axis=0) if everybody else None
            self._counts[number] = added_up(shrunk, totals, most - least, least, most, of_value)
        return self._counts[number]

    def counts(self, name: str, each: Statistic) -> FloatArray:
        """Σ e by (class, value), of the estimator of that name.

        What is moved to what is possible takes with it what a record adds in the mean.
        """
        estimates = self.estimated[name][:, :, self.weights.index(each.weight)]
        if name != "shrunk":
            return estimates
        if each.weight == each.number:
            return self.cut(each.number)
        before = self.estimated[name][:, :, self.weights.index(each.number)]
        number = np.maximum(self.moments.total(each.number), 1.0)
        mean = self.moments.total(each.weight) / number
        return np.asarray(estimates + mean[:, None] * (self.cut(each.number) - before))

    def possible(self) -> FloatArray:
        """By (class, value): how many records of the class's blocks have the value."""
        there = self.by_block(self.weights[0]).copy()
        there.data[:] = 1.0
        return np.asarray(there @ self.table.counts)

    def reached(self, forms: Forms) -> BoolArray:
        if len(self.table.rows) == 1:  # what no bucket lists nobody has
            there = np.isin(np.arange(int(forms.first[-1])), self._listed(forms.cells))
            return np.asarray(there[forms.pair_form])
        parts, pair = self._parts_of(forms)
        number = summed(parts, self.possible(), np.ones(parts.cells.shape))
        return np.asarray(sum_by(pair, number, forms.pairs) > 0, np.bool_)

    def _listed(self, by_column: Any) -> Any:
        """What stands by profile and value of every column, for the values that are listed."""
        codes = self.table.codes
        return by_column[(slice(None), *codes)] if codes else by_column

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        forms, _ = self._parts_of(forms)
        statistics = [
            replace(each, values=self._listed(each.values), there=self._listed(each.there))
            for each in statistics
        ]
        return _Sums(self, forms, statistics).totals()


class _Sums:
    """Linear forms of the estimates. Classes of one row add up, and so do their variances."""

    def __init__(
        self, estimated: ListedEstimated, forms: Forms, statistics: Sequence[Statistic]
    ) -> None:
        self._estimated, self._forms, self._statistics = estimated, forms, statistics

    def totals(self) -> Totals:
        name, ends, prior = self._estimated.name, None, None
        values, unbiased = self._by_row(name), self._by_row("inverse")
        chance, left, noise, spread, unseen, needed = self._covariances()
        untold = np.einsum("iir->ir", unseen > _UNSEEN * needed)
        if name == "inverse":
            values[untold], left = np.nan, noise
        elif not self._estimated.is_mixed:
            prior = Prior(self._by_row("shown"), chance, spread)
        possible = quotients_of(self._statistics, self._estimated.moments, self._forms)
        present = np.stack([self._present(statistic) for statistic in self._statistics])
        estimates = Totals(
            values, unbiased, present, chance + noise, chance + left, possible, prior
        )
        if name != "inverse" and len(values) == 1 and self._statistics[0].is_count:
            around: Callable[[float], Ends] = partial(self._told_ends, estimates)
            if self._estimated.is_mixed:
                around = partial(self._believed_ends, estimates, chance[0, 0])
            ends = partial(self._count_ends, values, around, untold[0])
        return replace(estimates, ends=ends)

    def _told_ends(self, plain: Totals, quantile: float) -> Ends:
        error = np.sqrt(plain.variance([1.0]))
        return plain.interval(plain.values[0], error, quantile, [1.0])

    def _believed_ends(self, plain: Totals, chance: FloatArray, quantile: float) -> Ends:
        """Where columns share buckets: what is believed, also with the wider belief.

        Truths for which more people are expected than under independence scatter by more.
        """
        (count,), estimated = self._statistics, self._estimated
        independent = estimated.by_block(count.number) @ estimated.table.counts
        start = self._forms.by_row(summed(self._forms, independent, count.values))
        each = np.divide(chance, start, out=np.zeros_like(start), where=start > 0)
        ends = []
        for centre, whole, reach in (
            (plain.values[0], plain.error[0, 0], quantile),
            (plain.unbiased[0], plain.noise[0, 0], BELIEVED * quantile),
        ):
            half = centre + reach**2 * each / 2
            rest = centre**2 - reach**2 * (whole - chance)
            root = np.sqrt(np.maximum(half**2 - rest, 0.0))
            around = reach * np.sqrt(whole)
            low, high = half - root, half + root
            ends.append(np.where(low > start, low, centre - around))
            ends.append(np.where(high > start, high, centre + around))
        return np.fmin(ends[0], ends[2]), np.fmax(ends[1], ends[3])

    def _present(self, each: Statistic) -> BoolArray:
        number, many = self._estimated.moments.total(each.number), self._estimated.values
        occupied = np.repeat(number[:, None] > 0, many, axis=1).astype(np.float64)
        totals = summed(self._forms, occupied, each.there.astype(np.float64))
        return np.asarray(self._forms.by_row(totals) > 0, np.bool_)

    def _by_row(self, name: str) -> FloatArray:
        """What the estimator of that name has, by (statistic, row)."""
        forms, estimated = self._forms, self._estimated
        linear = [
            forms.by_row(summed(forms, estimated.counts(name, statistic), statistic.values))
            for statistic in self._statistics
        ]
        return np.stack(linear)

    def _count_ends(
        self,
        values: FloatArray,
        around: Callable[[float], Ends],
        untold: BoolArray,
        quantile: float,
    ) -> Ends:
        """For every δ, within what is possible; all of that where nothing is told."""
        (count,), forms, estimated = self._statistics, self._forms, self._estimated
        line, value, _ = estimated.entries
        classes = estimated.moments.of[line]
        profile = forms.profile[classes]
        form = np.where(count.values[profile, value] > 0, forms.cells[profile, value], -1)
        pair = np.where(form >= 0, forms.starts[classes] + form - forms.first[profile], 0)
        row = np.where(form >= 0, forms.row[pair] if len(forms.row) else -1, -1)
        least, most = estimated.ends(count.number, row, forms.rows)
        low, high = around(quantile)
        # an interval outside of what is possible tells that its law does not hold
        untold = untold | (low > most) | (high < least)
        low, high = np.fmax(low, least), np.fmin(high, most)
        low, high = np.where(untold, least, low), np.where(untold, most, high)
        return np.fmin(low, values), np.fmax(high, values)

    def _covariances(self) -> FloatArray:
        """`Deviations.products` of two statistics by row, each that of counts over the free part
        of what they sum: (which, statistic, statistic, row)."""
        statistics, many, rows = self._statistics, len(self._statistics), self._forms.row
        total = np.zeros((6, many, many, self._forms.rows))
        for classes, deviations in self._estimated.fits():
            for pairs, group in self._pairs_of(classes):
                forms = [self._form(statistic, pairs) for statistic in statistics]
                for i, one in enumerate(statistics):
                    for j, other in enumerate(statistics[: i + 1]):
                        products = deviations.products(group, forms[i], forms[j])
                        products = products * self._ratio(one.weight, other.weight, pairs)
                        for part, by_pair in zip(total, products, strict=True):
                            np.add.at(part[i, j], rows[pairs], by_pair)
        below = np.tril_indices(many, -1)
        total[:, below[1], below[0]] = total[:, below[0], below[1]]
        return total

    def _ratio(self, one: Hashable, other: Hashable, pairs: IntArray) -> FloatArray:
        """By pair: the free part of Σde over that of the reference."""
        above, below = (
            np.asarray(matrix.sum(axis=1), np.float64).reshape(-1)
            for matrix in (self._estimated.loose(one, other), self._estimated.free)
        )
        ratio = np.divide(above, below, out=np.zeros_like(above), where=below > _LEAST)
        return np.asarray(ratio[self._forms.pair_class[pairs]])

    def _form(self, each: Statistic, pairs: IntArray) -> FloatArray:
        """h by (pair, value)."""
        forms = self._forms
        profile = forms.profile[forms.pair_class[pairs]]
        inside = forms.cells[profile] == forms.pair_form[pairs][:, None]
        return np.where(inside, each.values[profile], 0.0)

    def _pairs_of(self, classes: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Pairs of some classes that have a row, and the place of their class among these, some
        at a time."""
        many = np.diff(self._forms.starts)[classes]
        position = np.repeat(np.arange(len(classes)), many)
        within = np.arange(len(position)) - np.repeat(np.cumsum(many) - many, many)
        pairs = self._forms.starts[classes][position] + within
        kept = self._forms.row[pairs] >= 0
        pairs, position = pairs[kept], position[kept]
        step = max(_AT_ONCE // self._estimated.width, 1)
        for low in range(0, len(pairs), step):
            yield pairs[low : low + step], position[low : low + step]
