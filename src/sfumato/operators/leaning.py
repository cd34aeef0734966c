"""Answers of local buckets that lean on a model (methods, section 8).

The rules P(value | quasi) deal the values that a bucket lists to its people, each bucket by the
rule that was fitted without it: R[r, x] is the chance that record r has value x. What the rules
foresee for a group is ΣR over its records. A block that the group holds whole is exact then too,
because every bucket deals out what it lists. The default looks at the group alone and learns how it
deviates in all blocks; the rules look at all people and learn what goes with what. Either is off
where the other need not be, so the answer is the mean of both.

Error bars and intervals are the default's: they hold for every truth, and what the rules add to a
value is not taken for certain.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.bucketed import summed
from sfumato.operators.estimator import (
    Estimated,
    Estimator,
    Forms,
    Moments,
    Statistic,
    Totals,
)
from sfumato.operators.foreseen import CellNumbers

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from sfumato.operators.dealt import Pairs

Gradient = Sequence[FloatArray | float]

# chosen among 1/2, 2/3 and 4/5 on the first 50,000 rows of CENSUS (occ100k) and of sal500k
_LEANING = 0.5


@dataclass(frozen=True, eq=False)
class DealtCells:
    """R of everybody; people of one bucket with the same quasi codes are alike, and one *cell*."""

    numbers: CellNumbers
    chances: csr_array  # (cells, values)

    @classmethod
    def of(
        cls, codes: Sequence[IntArray], sizes: Sequence[int], bucket: IntArray, pairs: Pairs
    ) -> DealtCells:
        """From the codes and the bucket of every record, and the chances of (record, value)."""
        from scipy.sparse import csr_array

        numbers = CellNumbers([*sizes, int(bucket.max(initial=0)) + 1])
        cell = numbers.of([*codes, bucket])
        _, first = np.unique(cell, return_index=True)
        shape = (len(bucket), int(pairs.value.max(initial=0)) + 1)
        every = csr_array((pairs.chance, (pairs.record, pairs.value)), shape=shape)
        return cls(numbers, csr_array(every[first]))

    def summed(self, moments: Moments, sums: FloatArray, values: int) -> FloatArray:
        """Σ sums·R by (class, value)."""
        from scipy.sparse import csr_array

        assert moments.quasi is not None
        cell = self.numbers.of([*moments.quasi, moments.shown[0]])
        shape = moments.classes, self.chances.shape[0]
        lined = csr_array((sums, (moments.of, cell)), shape=shape)
        found = np.zeros((moments.classes, values))
        found[:, : self.chances.shape[1]] = (lined @ self.chances).toarray()
        return found


class LeaningEstimator(Estimator):
    """`default` reads the buckets; lines of moments also say their quasi codes."""

    def __init__(self, default: Estimator, dealt: DealtCells, values: int) -> None:
        self._default, self._dealt, self._values = default, dealt, values

    def estimate(self, moments: Moments) -> LeaningEstimated:
        return LeaningEstimated(moments, self._default.estimate(moments), self._dealt, self._values)


class LeaningEstimated(Estimated):
    """The default's estimates of the classes, and what the rules deal to their lines."""

    def __init__(
        self, moments: Moments, default: Estimated, dealt: DealtCells, values: int
    ) -> None:
        self.moments, self.default, self._dealt, self._values = moments, default, dealt, values
        self._sums: dict[Hashable, FloatArray] = {}

    def by_class(self, weight: Hashable) -> FloatArray:
        """Σ e·R by (class, value)."""
        if weight not in self._sums:
            sums = self.moments.sums[(weight,)]
            self._sums[weight] = self._dealt.summed(self.moments, sums, self._values)
        return self._sums[weight]

    def reached(self, forms: Forms) -> BoolArray:
        return self.default.reached(forms)

    def read(self, forms: Forms, statistics: Sequence[Statistic]) -> Totals:
        return LeaningTotals(self, forms, statistics)

    def histogram(self, weight: Hashable, number: Hashable) -> FloatArray:
        return between(self.default.histogram(weight, number), self.by_class(weight))


class LeaningTotals(Totals):
    """Linear forms between the default and the rules; around them, the default's intervals."""

    def __init__(
        self, estimated: LeaningEstimated, forms: Forms, statistics: Sequence[Statistic]
    ) -> None:
        self._default = estimated.default.read(forms, statistics)
        dealt = [
            forms.by_row(summed(forms, estimated.by_class(each.weight), each.values))
            for each in statistics
        ]
        self.values = between(self._default.values, np.stack(dealt))
        self.present = self._default.present

    def variance(self, gradient: Gradient) -> FloatArray:
        return self._default.variance(gradient)

    def unbiased(self) -> FloatArray:
        return self._default.unbiased()

    def noise(self, gradient: Gradient) -> FloatArray:
        return self._default.noise(gradient)

    def interval(
        self, value: FloatArray, stderr: FloatArray, quantile: float, gradient: Gradient
    ) -> tuple[FloatArray, FloatArray]:
        """The default's, around its own value; wider where the value that is shown lies outside."""
        steps = zip(gradient, self._default.values, self.values, strict=True)
        own = value + sum(slope * (there - here) for slope, there, here in steps)
        low, high = self._default.interval(np.asarray(own), stderr, quantile, gradient)
        return np.fmin(low, value), np.fmax(high, value)


def between(default: FloatArray, dealt: FloatArray) -> FloatArray:
    return np.asarray(default + _LEANING * (dealt - default))
