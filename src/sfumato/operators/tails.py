"""How likely what is shown was under every truth, and the interval that follows (methods, 10.2).

T of n people have what is asked for. Each of them shows it with the chance q₁, everybody else with
q₀: O = Bin(T, q₁) + Bin(n − T, q₀). Where one draw stands for k people, so many of its kind are
drawn as there are people over k, and each that shows it adds k to O. For few people the law is
summed up, otherwise it is a saddlepoint approximation (Lugannani and Rice). A truth belongs to the
interval if what is seen is not too far out on either side; a prior from the rest of the table
decides how the error is shared between the two sides, not whether the interval holds (`intervals`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.normal import ndtr, ndtri, shared_error

EXACT = 60  # people whose law is summed up
_STEPS = 40
_NEAR = 1e-4  # of r: a saddlepoint that is the mean itself; of standard errors: an end that is met
_LEAST = 1e-300
_AT_ONCE = 1 << 10  # laws that are summed up at the same time


@dataclass(frozen=True, eq=False)
class TwoRates:
    """By row: people, how many show what is asked for, and how often those with and without do.

    By kind of draw and row: how many people it stands for, and the share of people that it has.
    """

    people: FloatArray
    shown: FloatArray
    own: FloatArray  # q₁
    other: FloatArray  # q₀
    copies: FloatArray
    shares: FloatArray

    def some(self, rows: IntArray) -> TwoRates:
        return TwoRates(*(array[..., rows] for array in vars(self).values()))

    @property
    def seen(self) -> FloatArray:
        """The unbiased estimate, among what is possible."""
        estimate = (self.shown - self.people * self.other) / (self.own - self.other)
        return np.clip(estimate, 0.0, self.people)

    def error(self, truth: FloatArray) -> FloatArray:
        """The standard error of the unbiased estimate."""
        rest = np.maximum(self.people - truth, 0.0)
        variance = truth * self.own * (1 - self.own) + rest * self.other * (1 - self.other)
        variance = variance * (self.copies * self.shares).sum(axis=0)
        return np.asarray(np.sqrt(variance) / (self.own - self.other))

    def below(self, truth: FloatArray) -> FloatArray:
        """Pr(O < o | T) + ½·Pr(O = o | T) by a saddlepoint, for any truth between 0 and n."""
        n, o, q1, q0 = self.people, self.shown, self.own, self.other
        rest = np.maximum(n - truth, 0.0)
        with np.errstate(all="ignore"):
            s = self._root(truth, rest)
            power = np.expm1(self.copies * s)
            one, two = 1 + q1 * power, 1 + q0 * power
            logs = (self.shares / self.copies * (truth * np.log(one) + rest * np.log(two))).sum(0)
            curve = truth * q1 * (1 - q1) / one**2 + rest * q0 * (1 - q0) / two**2
            curve = (self.shares * self.copies * (1 + power) * curve).sum(axis=0)
            r = np.sign(s) * np.sqrt(np.maximum(2 * (s * o - logs), 0.0))
            chance = ndtr(r) + np.exp(-r * r / 2) / np.sqrt(2 * np.pi) * (
                1 / r - 1 / (s * np.sqrt(curve))
            )
        far = (np.abs(r) < _NEAR) | ~np.isfinite(chance) | (o <= 0) | (o >= n)
        rows = np.flatnonzero(far)
        if len(rows):
            chance[rows] = self.some(rows)._at_the_ends(truth[rows], rest[rows])
        return np.asarray(np.clip(chance, 0.0, 1.0))

    def _root(self, truth: FloatArray, rest: FloatArray) -> FloatArray:
        """s with K'(s) = o: in closed form for one kind of draws; else by Newton's steps."""
        n, o, q1, q0 = self.people, self.shown, self.own, self.other
        first, second = q1 / (1 - q1), q0 / (1 - q0)
        a = first * second * (n - o)
        b = truth * first + rest * second - o * (first + second)
        root = np.sqrt(np.maximum(b * b + 4 * a * o, 0.0))
        mean_copies = (self.shares * self.copies).sum(axis=0)
        s = np.log(np.where(b > 0, 2 * o / (b + root), (root - b) / (2 * a))) / mean_copies
        if len(self.copies) == 1:
            return np.asarray(s)
        for _ in range(_STEPS):
            odds = np.exp(self.copies * s)
            one, two = first * odds, second * odds
            slope = (self.shares * (truth * one / (1 + one) + rest * two / (1 + two))).sum(0)
            curve = truth * one / (1 + one) ** 2 + rest * two / (1 + two) ** 2
            curve = (self.shares * self.copies * curve).sum(axis=0)
            limit = 1 / mean_copies
            step = np.clip((o - slope) / np.maximum(curve, _LEAST), -limit, limit)
            s = s + step
            if not (np.abs(step) > 1e-9 * limit).any():
                break
        return np.asarray(s)

    def _at_the_ends(self, truth: FloatArray, rest: FloatArray) -> FloatArray:
        """At the mean itself a normal law with its skewness; and where nobody or everybody shows
        it."""
        o, q1, q0 = self.shown, self.own, self.other
        draws, square = ((self.shares * self.copies**power).sum(axis=0) for power in (-1, 2))
        with np.errstate(all="ignore"):
            spread = self.error(truth) * (q1 - q0)
            skew = truth * q1 * (1 - q1) * (1 - 2 * q1) + rest * q0 * (1 - q0) * (1 - 2 * q0)
            z = (o - truth * q1 - rest * q0) / spread
            central = ndtr(z) - np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * square * skew * (
                z * z - 1
            ) / (6 * spread**3)
            nobody = 0.5 * np.exp(draws * (truth * np.log1p(-q1) + rest * np.log1p(-q0)))
            everybody = 1 - 0.5 * np.exp(draws * (truth * np.log(q1) + rest * np.log(q0)))
        at_an_end = np.where(o <= 0, nobody, everybody)
        return np.asarray(np.where((o <= 0) | (o >= self.people), at_an_end, central))


class _Tails:
    """The law of every row: summed up for few people, between whole truths by straight lines; else
    a saddlepoint."""

    def __init__(self, law: TwoRates) -> None:
        self._law, self._table = law, np.empty(0)
        self._first = np.full(len(law.people), -1)  # where the table of a row begins
        whole = np.abs(law.shown - np.rint(law.shown)) < 1e-6
        few = np.flatnonzero((law.people <= EXACT) & whole & (law.copies == 1).all(axis=0))
        if len(few):
            shown = np.clip(np.rint(law.shown[few]), 0, law.people[few])
            cases = np.stack([law.people[few], shown, law.own[few], law.other[few]], axis=1)
            cases, case = np.unique(np.round(cases, 12), axis=0, return_inverse=True)
            people = np.rint(cases[:, 0]).astype(np.int64)
            begins = (np.diff(people, prepend=-1) > 0) | (np.arange(len(cases)) % _AT_ONCE == 0)
            some = np.split(cases, np.flatnonzero(begins)[1:])
            tables = [_mid_tails(round(rows[0, 0]), *rows[:, 1:].T).reshape(-1) for rows in some]
            self._table = np.concatenate(tables)
            self._first[few] = (np.cumsum(people + 1) - people - 1)[case.reshape(-1)]

    def below(self, rows: IntArray, truth: FloatArray) -> FloatArray:
        """Pr(O < o | T) + ½·Pr(O = o | T)."""
        chance, first = np.empty(len(rows)), self._first[rows]
        many, few = np.flatnonzero(first < 0), np.flatnonzero(first >= 0)
        if len(many):
            chance[many] = self._law.some(rows[many]).below(truth[many])
        if len(few):
            people = self._law.people[rows[few]].astype(np.int64)
            at, low = truth[few], np.minimum(truth[few].astype(np.int64), people)
            step, high = at - low, np.minimum(low + 1, people)
            one, other = (self._table[first[few] + place] for place in (low, high))
            chance[few] = one * (1 - step) + other * step
        return chance


def _mid_tails(people: int, shown: FloatArray, own: FloatArray, other: FloatArray) -> FloatArray:
    """Pr(O < o) + ½Pr(O = o) by (row, truth): one person after the other shows it or does not."""
    place = np.arange(people + 2)
    chance = (place < shown[:, None]) + (place == shown[:, None]) / 2  # if so many show it so far
    after = [chance]  # so many people who do not have it
    for _ in range(people):
        chance = chance.copy()
        chance[:, :-1] += other[:, None] * np.diff(chance)
        after.append(chance)
    table, law = np.empty((len(shown), people + 1)), (place == 0) * np.ones((len(shown), 1))
    table[:, 0] = after[people][:, 0]
    for truth in range(1, people + 1):
        law[:, 1:] -= own[:, None] * np.diff(law)
        law[:, 0] *= 1 - own
        table[:, truth] = np.einsum("rk,rk->r", law, after[people - truth])
    return table


def assisted_count(
    law: TwoRates,
    prior: FloatArray,
    belief: FloatArray,
    confidence: float,
) -> tuple[FloatArray, FloatArray]:
    """The truths under which what is shown is likely, from end to end, within 0 … n.

    The prior N(μ, A) shares the error, as in `intervals.assisted_interval`.
    """
    _, quantiles = shared_error(1 - confidence, 40.0, 4001)
    pull, tails = quantiles - quantiles[::-1], _Tails(law)

    def excess(side: int, rows: IntArray, truth: FloatArray, below: FloatArray) -> FloatArray:
        """By how many standard errors a truth is kept."""
        wanted = 2 * law.some(rows).error(truth) * (truth - prior[rows])
        least = np.interp(wanted / np.maximum(belief[rows], _LEAST), pull, quantiles[::side])
        return np.asarray(side * ndtri(np.clip(below, 1e-300, 1 - 1e-16)) - least)

    every, seen = np.arange(len(law.people)), law.seen
    error, below = law.error(seen), tails.below(every, seen)

    def furthest(side: int, end: FloatArray) -> FloatArray:
        def kept(rows: IntArray, truth: FloatArray) -> FloatArray:
            return excess(side, rows, truth, tails.below(rows, truth))

        return _furthest(kept, seen, excess(side, every, seen, below), end, error)

    low, high = furthest(-1, np.zeros_like(seen)), furthest(1, law.people)
    return np.fmin(low, high), np.fmax(low, high)


def _furthest(
    excess: Callable[[IntArray, FloatArray], FloatArray],
    start: FloatArray,
    fits: FloatArray,
    end: FloatArray,
    error: FloatArray,
) -> FloatArray:
    """The truth furthest from `start`, where the excess is `fits`, towards `end` that is kept, its
    excess not being negative: by doubled steps until one is not, then by false positions."""
    result, inside, outside = start.copy(), start.copy(), end.copy()
    misses = np.full_like(end, np.nan)
    step, was_kept = np.copysign(np.maximum(2 * error, 1e-3), end - start), fits < 0
    rows = np.flatnonzero((fits >= 0) & (start != end))
    fits = fits.copy()
    for _ in range(_STEPS):
        if not len(rows):
            break
        low, high, one, other = inside[rows], outside[rows], fits[rows], misses[rows]
        bracketed = ~np.isnan(other)
        truth = low + np.where(bracketed, (high - low) * one / (one - other), step[rows])
        truth = np.where(np.abs(truth - low) < np.abs(high - low), truth, high)
        excesses = excess(rows, truth)
        kept, met = excesses >= 0, np.abs(excesses) < _NEAR
        # an end that stays counts half the next time (Illinois)
        half = np.where(bracketed & (kept == was_kept[rows]), 0.5, 1.0)
        inside[rows], outside[rows] = np.where(kept, truth, low), np.where(kept, high, truth)
        fits[rows] = np.where(kept, excesses, half * one)
        misses[rows] = np.where(kept, half * other, excesses)
        was_kept[rows], step[rows] = kept, 2 * step[rows]
        result[rows] = np.where(kept | met, truth, low)
        close = np.abs(outside[rows] - inside[rows]) <= np.maximum(1e-3, _NEAR * error[rows])
        rows = rows[~(met | (kept & (truth == high)) | (close & ~np.isnan(misses[rows])))]
    return result
