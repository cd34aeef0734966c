"""How far the estimate of a share errs: the exact tails of two binomials.

A personal group of `size` records has `count` of them with some value, a share f. `sample` of its
records are perturbed with retention p over m values (all of them where sample = size) and scaled
back to `size`. What is published of the value is T; the estimate is F' = (T/size − (1−p)/m)/p
(Lemma 2). The tails here are those of F' about f over everything that is drawn: the sample, the
perturbation and the scaling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.draws import BoolArray, IntArray

FloatArray = npt.NDArray[np.float64]
_CHUNK = 1 << 21  # terms summed at once
_REACH = 9.5  # standard deviations on each side: what is left out is below 1e-15


@dataclass(frozen=True)
class Setting:
    """The promise (λ, δ) = (`error`, `chance`) and the perturbation: retention p, m values."""

    error: Fraction
    chance: Fraction
    retention: Fraction
    values: int

    @property
    def background(self) -> Fraction:
        """(1−p)/m: the chance that a record of another value is published as this one."""
        return (1 - self.retention) / self.values


@dataclass(frozen=True, eq=False)
class Tails:
    """Chances for each case: F' > (1+λ)f, F' < (1−λ)f, F' ≥ f and F' ≤ f."""

    above: FloatArray
    below: FloatArray
    at_least: FloatArray
    at_most: FloatArray

    def both_ways(self, chance: float) -> BoolArray:
        """Definition 3 as errata R13 reads it: either tail alone reaches δ."""
        return np.asarray((self.above >= chance) & (self.below >= chance))

    def either_way(self, chance: float) -> BoolArray:
        """Whichever way the estimate errs, it errs by more than λ with chance at least δ.

        The paper's own gloss of Definition 3 ("where F' > f"). It follows from `both_ways`, and
        is all that can be asked for a value so rare that its estimate is nearly always too low.
        """
        upwards = self.above >= chance * self.at_least
        return np.asarray(upwards & (self.below >= chance * self.at_most))


def tails(setting: Setting, size: IntArray, sample: IntArray, count: IntArray) -> Tails:
    """The exact tails, case by case; absolute error below 1e-12. Equal cases are computed once.

    >>> setting = Setting(Fraction("0.3"), Fraction("0.3"), Fraction(1, 2), 10)
    >>> n = np.array([128]); found = tails(setting, n, n, n // 2)
    >>> round(float(found.above[0]), 4), round(float(found.below[0]), 4)
    (0.0101, 0.0108)
    """
    first, inverse = distinct_rows(size, sample, count)
    n_all, n, c = size[first], sample[first], count[first]
    # T > N q + p c (1+λ), all over one denominator, in whole numbers
    p, q, error = setting.retention, setting.background, setting.error
    above = _whole_floor(n_all, c, q, p * (1 + error)) + 1
    below = -_whole_floor(-n_all, -c, q, p * (1 - error))  # a ceiling
    at_least = -_whole_floor(-n_all, -c, q, p)
    at_most = _whole_floor(n_all, c, q, p) + 1
    least = np.concatenate([above, below, at_least, at_most])
    repeated = [np.tile(array, 4) for array in (n_all, n, c)]
    reached = _reach_at_least(setting, repeated[0], repeated[1], repeated[2], least)
    reached = reached.reshape(4, -1)[:, inverse]
    return Tails(reached[0], 1 - reached[1], reached[2], 1 - reached[3])


def _whole_floor(size: IntArray, count: IntArray, q: Fraction, r: Fraction) -> IntArray:
    """⌊size·q + count·r⌋ exactly; in Python's integers where 64 bits would not do."""
    denominator = math.lcm(q.denominator, r.denominator)
    a, b = int(q * denominator), int(r * denominator)
    largest = int(np.abs(size).max(initial=0)) * (abs(a) + abs(b) + 1)
    if max(largest, denominator) < 1 << 62:
        return np.asarray((size * a + count * b) // denominator, np.int64)
    wide = size.astype(object) * a + count.astype(object) * b
    return np.asarray(wide // denominator).astype(np.int64)


def _reach_at_least(
    setting: Setting, size: IntArray, sample: IntArray, count: IntArray, least: IntArray
) -> FloatArray:
    """Pr(T ≥ least).

    Of the sample, ⌊nc/N⌋ records have the value, or one more with the chance of the remainder
    (controlled rounding, R3). O = Binomial + Binomial of them are published with it before
    scaling, and T is ⌊ON/n⌋, or one more with the chance of that remainder (R5).
    """
    enough = -(-least * sample // size)  # T ≥ least for sure from this O on
    almost = (enough - 1) * size - (least - 1) * sample  # and sometimes for one less
    share = np.maximum(almost, 0) / sample
    hits, rest = np.divmod(sample * count, size)
    more = rest / size
    # four cases: a hit more in the sample or not, a copy more in the group or not
    weights = np.stack(
        [(1 - more) * (1 - share), (1 - more) * share, more * (1 - share), more * share]
    )
    case, position = np.nonzero(weights)
    sums = _sum_at_least(
        setting, sample[position], hits[position] + case // 2, enough[position] - case % 2
    )
    total = np.bincount(position, weights[case, position] * sums, minlength=len(size))
    return np.asarray(total, np.float64)


def _sum_at_least(setting: Setting, n: IntArray, k: IntArray, least: IntArray) -> FloatArray:
    """Pr(Binomial(k, p+q) + Binomial(n−k, q) ≥ least), equal cases computed once."""
    if not len(n):
        return np.zeros(0)
    bounded = np.clip(least, 0, n + 1)
    first, inverse = distinct_rows(n, k, bounded)
    return _convolved(setting, n[first], k[first], bounded[first])[inverse]


def _convolved(setting: Setting, n: IntArray, k: IntArray, least: IntArray) -> FloatArray:
    from scipy import stats

    q = float(setting.background)
    kept = float(setting.retention + setting.background)
    middle, deviation = k * kept, np.sqrt(k * kept * (1 - kept))
    # Binomial tails fall faster than these from 9.5 deviations and 40 counts on
    low = np.maximum(np.floor(middle - _REACH * deviation - 40), 0).astype(np.int64)
    high = np.minimum(np.ceil(middle + _REACH * deviation + 40).astype(np.int64), k)
    width = high - low + 1
    result = np.zeros(len(n))
    edges = np.cumsum(width)
    start = 0
    while start < len(n):
        before = int(edges[start - 1]) if start else 0
        stop = max(int(np.searchsorted(edges, before + _CHUNK, side="right")), start + 1)
        w = width[start:stop]
        owner = np.repeat(np.arange(start, stop), w)
        first = np.cumsum(w) - w
        i = np.arange(len(owner)) - np.repeat(first, w) + low[owner]
        kept_as = stats.binom.pmf(i, k[owner], kept)
        others = stats.binom.sf(least[owner] - i - 1, (n - k)[owner], q)
        result[start:stop] = np.bincount(owner - start, kept_as * others, minlength=stop - start)
        start = stop
    return np.minimum(result, 1.0)


def distinct_rows(*columns: IntArray) -> tuple[IntArray, IntArray]:
    """The first place of each different row of whole numbers ≥ 0, and which of them each row is."""
    key, room = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        span = int(column.max(initial=0)) + 1
        if room * span >= 1 << 62:  # too wide to pack: number what is there so far
            key, room = np.unique(key, return_inverse=True)[1].reshape(-1), len(key)
        key = key * span + column
        room *= span
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)
