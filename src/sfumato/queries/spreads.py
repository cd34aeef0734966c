"""Aggregates of second moments: how far values scatter, and how two go together.

All are functions of n, Σx, Σx² and, for two arguments, Σy, Σxy, Σy². As in SQL, a record counts
where all arguments are known.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sqlglot import exp

from sfumato.draws import BoolArray
from sfumato.operators.base import FloatArray
from sfumato.queries.aggregates import Call, LinearSum
from sfumato.queries.duals import Dual

_NEARLY_ONE = 1 - 1e-12
_NO_SPREAD = 1e-9  # of the sum of squares


class Spread(Call):
    """A function of n and of the sums of powers of the arguments."""

    least = 0.0  # records that it takes
    bends = True

    def sums(self) -> tuple[LinearSum, ...]:
        return self.powers()

    def below(self) -> tuple[int, ...]:
        return (0,)

    def known(self, totals: FloatArray, present: BoolArray) -> BoolArray:
        return np.asarray(present & (totals[0] > self.least), np.bool_)


def _about_the_mean(number: Dual, first: Dual, second: Dual, both: Dual) -> Dual:
    """Σ (x − mean x)·(y − mean y) from n, Σx, Σy and Σxy."""
    return both - first * second / number


class Variance(Spread, node=exp.VariancePop):
    """Σx²/n − (Σx/n)², never below 0 when it is shown."""

    name = "var_pop"
    usage: ClassVar[tuple[str, ...]] = ("VAR_POP(x)",)

    def combine(self, *totals: Dual) -> Dual:
        number, total, squares = totals
        return _about_the_mean(number, total, total, squares) / (number - self.least)

    def read(self, found: Dual) -> Dual:
        return found.within(0.0, np.inf)


class SampleVariance(Variance, node=exp.Variance):
    name = "var_samp"
    usage = ("VAR_SAMP(x)", "VARIANCE(x)")
    least = 1.0


class Deviation(Variance, node=exp.StddevPop):
    """The root of the variance; so is its interval."""

    name = "stddev_pop"
    usage: ClassVar[tuple[str, ...]] = ("STDDEV_POP(x)",)

    def read(self, found: Dual) -> Dual:
        return found.sqrt()


class SampleDeviation(Deviation, node=(exp.Stddev, exp.StddevSamp)):
    name = "stddev_samp"
    usage = ("STDDEV(x)", "STDDEV_SAMP(x)")
    least = 1.0


@dataclass(frozen=True, eq=False)
class Pairs:
    """How many there are, the means of both, and the sums of squares and products about them."""

    number: Dual
    means: tuple[Dual, Dual]
    first: Dual
    both: Dual
    second: Dual


class Together(Spread):
    """Of two arguments; `REGR_…(y, x)` name the dependent one first."""

    takes = 2

    def combine(self, *totals: Dual) -> Dual:
        number, one, other, one_square, both, other_square = totals
        pairs = Pairs(
            number,
            (one / number, other / number),
            _about_the_mean(number, one, one, one_square),
            _about_the_mean(number, one, other, both),
            _about_the_mean(number, other, other, other_square),
        )
        return self.of_pairs(pairs)

    @abstractmethod
    def of_pairs(self, pairs: Pairs) -> Dual:
        """From the moments of both arguments."""

    def known(self, totals: FloatArray, present: BoolArray) -> BoolArray:
        with np.errstate(all="ignore"):
            found = np.isfinite(self.combine(*map(Dual, totals)).value)
        return np.asarray(super().known(totals, present) & found, np.bool_)


class Covariance(Together, node=exp.CovarPop):
    name = "covar_pop"
    usage = ("COVAR_POP(y, x)",)

    def of_pairs(self, pairs: Pairs) -> Dual:
        return pairs.both / (pairs.number - self.least)


class SampleCovariance(Covariance, node=exp.CovarSamp):
    name = "covar_samp"
    usage = ("COVAR_SAMP(y, x)",)
    least = 1.0


class Correlation(Together, node=exp.Corr):
    """r, with the interval of Fisher's atanh r."""

    name = "corr"
    usage = ("CORR(y, x)",)

    def of_pairs(self, pairs: Pairs) -> Dual:
        found = pairs.both / (pairs.first * pairs.second) ** 0.5
        return found.within(-_NEARLY_ONE, _NEARLY_ONE).atanh()

    def read(self, found: Dual) -> Dual:
        return found.tanh()

    def known(self, totals: FloatArray, present: BoolArray) -> BoolArray:
        """Not where one argument is the same for everybody; its spread is a rounding then."""
        number, one, other, one_square, _, other_square = totals
        with np.errstate(all="ignore"):
            constant = one_square - one**2 / number <= _NO_SPREAD * one_square
            constant |= other_square - other**2 / number <= _NO_SPREAD * other_square
        return np.asarray(super().known(totals, present) & ~constant, np.bool_)


class Determination(Correlation, node=exp.RegrR2):
    """r²; its interval reaches down to 0 where that of r does."""

    name = "regr_r2"
    usage = ("REGR_R2(y, x)",)

    def read(self, found: Dual) -> Dual:
        return super().read(found) ** 2.0

    def ends(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        one, other = super().ends(low, high)
        inside = (low <= 0) & (high >= 0)
        return np.where(inside, 0.0, np.fmin(one, other)), np.fmax(one, other)


class Slope(Together, node=exp.RegrSlope):
    """Of the line y = intercept + slope·x that is nearest in squares."""

    name = "regr_slope"
    usage = ("REGR_SLOPE(y, x)",)

    def of_pairs(self, pairs: Pairs) -> Dual:
        return pairs.both / pairs.second


class Intercept(Together, node=exp.RegrIntercept):
    name = "regr_intercept"
    usage = ("REGR_INTERCEPT(y, x)",)

    def of_pairs(self, pairs: Pairs) -> Dual:
        return pairs.means[0] - pairs.both / pairs.second * pairs.means[1]
