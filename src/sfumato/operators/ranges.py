"""Estimates from ranges and sets: shares of records, between ends that are certain (methods, 10.7).

A record counts with the share of its people that satisfy the conditions (`matched`), columns taken
as independent inside a record. Whose value it shows nothing tells, and how values go with the
conditions inside a record neither: estimated from the records themselves it is off by half and
more, as mechanisms make records alike on purpose. So nothing is certain but the ends: rows that
satisfy the conditions whoever is meant, rows that may, and how many people a column is told to
have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import (
    Ends,
    Estimated,
    Forms,
    Gradient,
    Moments,
    Statistic,
    Totals,
    counts_among,
    sum_by,
)

_HALVINGS = 50
_ROUNDING = 1e-9
_UNIFORM = 12  # a number anywhere between two ends has their squared distance over this as variance


@dataclass(frozen=True, eq=False)
class ConditionShares:
    """By record, for a condition on one quasi column: how many of its people satisfy it, whether
    all do, and whether any may; and between how many people the column is told to have."""

    people: FloatArray
    all: BoolArray
    any: BoolArray
    told: tuple[float, float]


@dataclass(frozen=True, eq=False)
class ShareSums:
    """By line, for one weight: the count, the least and the most; then the ends of the sum of all
    lines of a group, by group."""

    number: FloatArray
    certain: FloatArray
    possible: FloatArray
    told: tuple[FloatArray, FloatArray]

    @classmethod
    def of(
        cls,
        readings: Sequence[ConditionShares],
        rows: int,
        summed: Callable[[FloatArray], FloatArray],
    ) -> ShareSums:
        """`summed` adds up by line what it is given by record; all of the readings are joined."""
        people, everybody, anybody = np.ones(rows), np.ones(rows), np.ones(rows)
        for reading in readings:
            people, everybody, anybody = (
                people * reading.people,
                everybody * reading.all,
                anybody * reading.any,
            )
        outside = sum(rows - reading.told[0] for reading in readings)
        least, most = (
            max(rows - outside, 0.0),
            min([rows, *(reading.told[1] for reading in readings)]),
        )
        bounds = np.array([least]), np.array([most], np.float64)
        return cls(summed(people), summed(everybody), summed(anybody), bounds)


class RangeEstimated(Estimated):
    """Records count for the values that they show, with their share: every line in one row."""

    def __init__(self, moments: Moments, shares: Mapping[Hashable, ShareSums]) -> None:
        self.moments, self.shares = moments, shares

    def pair(self, forms: Forms) -> IntArray:
        """Of every line, −1 where it is not asked for."""
        of = self.moments.of
        form = self.of_value(forms, forms.cells)
        return np.where(form >= 0, forms.starts[of] + form - forms.first[forms.profile[of]], -1)

    def of_value(self, forms: Forms, by_value: Any) -> Any:
        """What stands by profile and value, by line."""
        shown = self.moments.shown or (np.zeros(len(self.moments.of), np.int64),)
        return by_value[(forms.profile[self.moments.of], *shown)]

    def reached(self, forms: Forms) -> BoolArray:
        pair = self.pair(forms)
        return np.bincount(pair[pair >= 0], minlength=forms.pairs) > 0

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        return _RangeSums(self, forms, statistics).totals()


class _RangeSums:
    """Sums of shares; what they can be at all is their interval."""

    def __init__(
        self, estimated: RangeEstimated, forms: Forms, statistics: Sequence[Statistic]
    ) -> None:
        pair = estimated.pair(forms)
        self._row = np.append(forms.row, -1)[pair]  # −1 where a line is in none
        self._rows, self._statistics = forms.rows, statistics
        self._moments = moments = estimated.moments
        pool = np.zeros(moments.classes, np.int64) if moments.pool is None else moments.pool
        self._pool = pool[moments.of]
        self._pool_of_row = np.zeros(self._rows, np.int64)
        kept = forms.row >= 0
        self._pool_of_row[forms.row[kept]] = pool[forms.pair_class[kept]]
        self._shares = [estimated.shares[statistic.weight] for statistic in statistics]
        self._values = [estimated.of_value(forms, statistic.values) for statistic in statistics]
        self._records = [
            estimated.moments.sums[(statistic.number,)] * estimated.of_value(forms, statistic.there)
            for statistic in statistics
        ]

    def totals(self) -> Totals:
        """The variance of a sum is as if all that is possible were as likely."""
        shares, values = self._shares, self._values
        sums = [self._sums(s.number * h) for s, h in zip(shares, values, strict=True)]
        alone = np.eye(len(sums))
        ends = [self._ends(list(gradient)) for gradient in alone]
        for index, statistic in enumerate(self._statistics):
            if statistic.is_count:
                sums[index] = np.clip(sums[index], *ends[index])
        open_ = np.stack([high - low for low, high in ends])
        noise, estimates = open_ * open_[:, None] / _UNIFORM, np.stack(sums)
        present = np.stack([self._sums(record) > 0 for record in self._records])
        quotients = self._quotients(estimates) if len(sums) == 2 else None
        least, most = np.stack(ends, axis=1)
        return Totals(
            estimates, estimates, present, noise, noise, quotients, ends=lambda _: (least, most)
        )

    def _sums(self, by_line: FloatArray) -> FloatArray:
        """By row."""
        inside = self._row >= 0
        return sum_by(self._row[inside], by_line[inside], self._rows)

    def _ends(self, gradient: Gradient) -> Ends:
        """The least and the most that Σ_j gradient_j·T_j can be; sums of one weight have the same
        people."""
        low, high = np.zeros(self._rows), np.zeros(self._rows)
        for shares in {id(share): share for share in self._shares}.values():
            parts = zip(gradient, self._shares, self._values, strict=True)
            h = sum(self._of_row(slope) * values for slope, of, values in parts if of is shares)
            least, most = self._ends_of(shares, np.asarray(h, np.float64))
            low, high = low + least, high + most
        return low, high

    def _of_row(self, by_row: FloatArray | float) -> FloatArray:
        """By line; 0 where it is in no row."""
        by_line: FloatArray = np.append(np.broadcast_to(by_row, (self._rows,)), 0.0)[self._row]
        return by_line

    def _ends_of(self, shares: ShareSums, h: FloatArray) -> Ends:
        """Of Σ h·n by row, every line between its own ends; where h is one number or 0, what all
        lines add up to leaves no more open."""
        up = np.where(h > 0, shares.possible, shares.certain)
        down = np.where(h > 0, shares.certain, shares.possible)
        low, high = self._sums(h * down), self._sums(h * up)
        level = self._sums(h) / np.maximum(self._sums((h != 0).astype(np.float64)), 1)
        off = np.abs(h - self._of_row(level)) > _ROUNDING * np.abs(h)
        flat = self._sums((off & (h != 0)).astype(np.float64)) == 0
        counted = (h != 0).astype(np.float64)
        fewest, most = self._sums(counted * shares.certain), self._sums(counted * shares.possible)
        least, last = (
            np.bincount(self._pool, line_ends, len(pool_ends))[self._pool_of_row] - row_ends
            for line_ends, pool_ends, row_ends in (
                (shares.certain, shares.told[0], fewest),
                (shares.possible, shares.told[1], most),
            )
        )
        fewest = np.maximum(fewest, shares.told[0][self._pool_of_row] - last)
        most = np.minimum(most, shares.told[1][self._pool_of_row] - least)
        ends = level * fewest, level * most
        return np.where(flat, np.fmin(*ends), low), np.where(flat, np.fmax(*ends), high)

    def _quotients(self, sums: FloatArray) -> Ends:
        """All R for which the first sum less R times the second can be 0, found by halving."""
        first, second = self._statistics
        least, most = np.full(self._rows, -np.inf), np.full(self._rows, np.inf)
        above, below = self._ends([1.0, 0.0]), self._ends([0.0, 1.0])
        if first.is_count and second.is_count:
            among = counts_among(first, second, self._moments)
            least[:], most = 0.0, np.fmin(above[1], 1.0) if among else above[1]
        h, counted = self._values
        if self._shares[0] is self._shares[1] and (counted[(h != 0) & (self._row >= 0)] == 1).all():
            least, most = np.full(self._rows, np.inf), np.full(self._rows, -np.inf)
            asked = (counted == 1) & (self._row >= 0)  # an average is among its values
            np.minimum.at(least, self._row[asked], h[asked])
            np.maximum.at(most, self._row[asked], h[asked])
        with np.errstate(divide="ignore", invalid="ignore"):
            value = sums[0] / sums[1]
            corners = [top / bottom for top in above for bottom in below]
        start = np.fmax(np.min(corners, axis=0), least), np.fmin(np.max(corners, axis=0), most)
        ends, room = [], _ROUNDING * np.maximum(np.abs(above).max(axis=0), 1.0)
        for far in start:
            inside, outside, middle = value, far, far
            for _ in range(_HALVINGS):
                with np.errstate(invalid="ignore"):  # an end without end times nobody
                    low, high = self._ends([1.0, -middle])
                possible = (low <= room) & (high >= -room)
                inside = np.where(possible, middle, inside)
                outside = np.where(possible, outside, middle)
                middle = (inside + outside) / 2
            ends.append(np.where(np.isfinite(far), inside, far))
        return np.fmin(ends[0], value), np.fmax(ends[1], value)
