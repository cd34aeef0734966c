"""How likely what is shown was under every truth, and the interval that follows (methods, 10.2).

T of n people have what is asked for. Each of them shows it with the chance q₁, everybody else with
q₀: O = Bin(T, q₁) + Bin(n − T, q₀). For few people its law is summed up, for many it is a
saddlepoint approximation (Lugannani and Rice). A truth belongs to the interval if what is seen is
not too far out on either side; a prior from the rest of the table decides how the error is shared
between the two sides, not whether the interval holds (`intervals`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from sfumato.draws import BoolArray
from sfumato.operators.base import FloatArray

EXACT = 60  # people whose law is summed up
_HALVINGS = 40
_NEAR = 1e-4  # of r: a saddlepoint that is the mean itself
_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class TwoRates:
    """By row: people, how many show what is asked for, and how often those with and without do."""

    people: FloatArray
    shown: FloatArray
    own: FloatArray  # q₁
    other: FloatArray  # q₀
    stretch: FloatArray | float = 1.0  # of the noise, over that of O

    def variance(self, truth: FloatArray) -> FloatArray:
        """Of O."""
        rest = np.maximum(self.people - truth, 0.0)
        return truth * self.own * (1 - self.own) + rest * self.other * (1 - self.other)

    def below(self, truth: FloatArray) -> FloatArray:
        """Pr(O < o | T) + ½·Pr(O = o | T); where the noise is wider, of as many errors."""
        middle = truth * self.own + (self.people - truth) * self.other
        shown = np.clip(middle + (self.shown - middle) / self.stretch, 0.0, self.people)
        chance = saddlepoint(replace(self, shown=shown), truth)
        whole = np.abs(self.shown - np.rint(self.shown)) < 1e-6
        few = np.flatnonzero((self.people <= EXACT) & whole & (self.stretch == 1.0))
        if len(few):
            some = TwoRates(*(e[few] for e in (self.people, shown, self.own, self.other)))
            chance[few] = _interpolated(some, truth[few])
        return chance

    def error(self, truth: FloatArray) -> FloatArray:
        """The standard error of the unbiased estimate."""
        return np.asarray(self.stretch * np.sqrt(self.variance(truth)) / (self.own - self.other))


def saddlepoint(law: TwoRates, truth: FloatArray) -> FloatArray:
    """The mid-tail of O below what is shown, for any truth between 0 and n."""
    from scipy.special import ndtr

    n, o, q1, q0 = law.people, law.shown, law.own, law.other
    rest = np.maximum(n - truth, 0.0)
    spread = np.maximum(law.variance(truth), _LEAST)
    with np.errstate(all="ignore"):
        first, second = q1 / (1 - q1), q0 / (1 - q0)
        a = first * second * (n - o)
        b = truth * first + rest * second - o * (first + second)
        root = np.sqrt(np.maximum(b * b + 4 * a * o, 0.0))
        x = np.where(b > 0, 2 * o / (b + root), (root - b) / (2 * a))
        s = np.log(x)
        one, other = 1 + q1 * (x - 1), 1 + q0 * (x - 1)
        logs = truth * np.log(one) + rest * np.log(other)
        curve = truth * q1 * (1 - q1) * x / one**2 + rest * q0 * (1 - q0) * x / other**2
        r = np.sign(s) * np.sqrt(np.maximum(2 * (s * o - logs), 0.0))
        v = s * np.sqrt(curve)
        chance = ndtr(r) + np.exp(-r * r / 2) / np.sqrt(2 * np.pi) * (1 / r - 1 / v)
        # at the mean itself: a normal law with its skewness
        skew = truth * q1 * (1 - q1) * (1 - 2 * q1) + rest * q0 * (1 - q0) * (1 - 2 * q0)
        z = (o - truth * q1 - rest * q0) / np.sqrt(spread)
        central = ndtr(z) - np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * skew * (z * z - 1) / (
            6 * spread**1.5
        )
        nothing = 0.5 * np.exp(truth * np.log1p(-q1) + rest * np.log1p(-q0))
        everything = 1 - 0.5 * np.exp(truth * np.log(q1) + rest * np.log(q0))
    chance = np.where((np.abs(r) < _NEAR) | ~np.isfinite(chance), central, chance)
    chance = np.where(o <= 0, nothing, np.where(o >= n, everything, chance))
    return np.asarray(np.clip(chance, 0.0, 1.0))


def _interpolated(law: TwoRates, truth: FloatArray) -> FloatArray:
    """The law for whole truths, summed up; between them by straight lines."""
    chances = np.empty(len(truth))
    kinds = np.stack([law.people, law.own, law.other], axis=1)
    different, inverse = np.unique(kinds, axis=0, return_inverse=True)
    for number, (people, own_rate, other) in enumerate(different):
        rows = np.flatnonzero(inverse.reshape(-1) == number)
        table = _mid_tails(round(people), float(own_rate), float(other))
        at = np.clip(truth[rows], 0.0, people)
        low = np.minimum(at.astype(np.int64), max(len(table) - 2, 0))
        shown = np.clip(np.rint(law.shown[rows]), 0, people).astype(np.int64)
        step = at - low
        above = table[np.minimum(low + 1, len(table) - 1), shown]
        chances[rows] = table[low, shown] * (1 - step) + above * step
    return chances


@lru_cache(256)  # a search for ends asks for the same ones again and again
def _mid_tails(people: int, own: float, other: float) -> FloatArray:
    """Pr(O < o) + ½Pr(O = o) by (truth, o)."""
    table = np.zeros((people + 1, people + 1))
    for truth in range(people + 1):
        law = np.ones(1)
        for chance, many in ((own, truth), (other, people - truth)):
            law = np.convolve(law, _binomial(many, chance))
        table[truth] = np.cumsum(law) - law / 2
    return table


def _binomial(many: int, chance: float) -> FloatArray:
    from scipy.special import gammaln, xlog1py, xlogy

    k = np.arange(many + 1)
    logs = gammaln(many + 1) - gammaln(k + 1) - gammaln(many - k + 1)
    return np.exp(logs + xlogy(k, chance) + xlog1py(many - k, -chance))


def assisted_count(
    law: TwoRates,
    prior: FloatArray,
    belief: FloatArray,
    confidence: float,
) -> tuple[FloatArray, FloatArray]:
    """The truths under which what is shown is likely, from end to end, within 0 … n.

    The prior N(μ, A) shares the error, as in `intervals.assisted_interval`.
    """
    from scipy.special import expit, ndtri

    error = 1 - confidence
    odds = np.linspace(-40.0, 40.0, 4001)
    pull = ndtri(error * expit(odds)) - ndtri(error * expit(-odds))

    def share(truth: FloatArray) -> FloatArray:
        wanted = 2 * law.error(truth) * (truth - prior) / np.maximum(belief, _LEAST)
        return np.asarray(expit(np.interp(wanted, pull, odds)))

    def kept_above(truth: FloatArray) -> BoolArray:  # not too many truths below: the upper end
        return np.asarray(law.below(truth) >= error * share(truth), np.bool_)

    def kept_below(truth: FloatArray) -> BoolArray:
        return np.asarray(law.below(truth) <= 1 - error * (1 - share(truth)), np.bool_)

    nobody, everybody = np.zeros_like(law.people), law.people
    seen = np.clip((law.shown - law.people * law.other) / (law.own - law.other), 0.0, law.people)
    close = np.maximum(1e-3, 1e-4 * law.error(seen))
    high = _last(kept_above, seen, everybody, close)
    low = _last(kept_below, seen, nobody, close)
    return np.fmin(low, high), np.fmax(low, high)


def _last(
    kept: Callable[[FloatArray], BoolArray], start: FloatArray, end: FloatArray, close: FloatArray
) -> FloatArray:
    """The truth furthest from `start` towards `end` that is kept, by halving."""
    whole = kept(end)
    inside, outside = start, np.where(whole, start, end)
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        fits = kept(middle)
        inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
        if (np.abs(outside - inside) <= close).all():
            break
    return np.where(whole, end, inside)
