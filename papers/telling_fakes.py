"""Telling fakes from real values: an adversary knows all but one record of a bucket.

Without fakes the last record is then known for certain (F'-privacy paper, Section 6). With σ fakes
σ + 1 listed values are left; if fakes could not be told from real values, the best guess would be
right with 1/(1 + σ). This adversary also knows the histogram and how fakes are drawn, weighs the
values left by Bayes' rule, and names the likeliest.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.draws import Draws, IntArray, Positions
from sfumato.mechanisms.buckets import BucketedPlan, certainty
from sfumato.mechanisms.buckets.filling import places
from sfumato.operators.base import FloatArray


@dataclass(frozen=True)
class FakesOutcome:
    """How often the guess was right, with a 95 % interval, beside the stated certainty."""

    trials: int
    right: int
    low: float
    high: float
    stated: Fraction

    @property
    def success(self) -> float:
        return self.right / max(self.trials, 1)

    def __str__(self) -> str:
        return (
            f"knowing all but one record of a bucket: {self.success:.1%} right "
            f"(95 %: {self.low:.1%} … {self.high:.1%}) over {self.trials:,} buckets; "
            f"stated certainty {self.stated} = {float(self.stated):.1%}"
        )


def tell_fakes(plan: BucketedPlan, trials: int, draws: Draws) -> FakesOutcome:
    """Attack `trials` buckets of a plan, chosen at random, one record of each.

    The stated certainty is that of the plan's smallest buckets; all fakes are as published.
    """
    chosen = draws.choose("buckets", plan.buckets, min(trials, plan.buckets))
    targets = draws.below("targets", Positions(0, plan.buckets), 1 << 62)
    right = tried = 0
    for first, listed, held in _contents(plan):
        inside = chosen[(chosen >= first) & (chosen < first + len(listed))]
        rows = inside - first
        if not len(rows):
            continue
        place = targets[inside] % held.shape[1]
        truth = held[rows, place]
        known = np.ones(held.shape[1], np.bool_)
        for row, target, value in zip(rows, place, truth, strict=True):
            known[:] = True
            known[target] = False
            right += _guess(plan, listed[row], held[row][known]) == value
            tried += 1
    low, high = _interval(right, tried)
    stated = certainty(plan.setting[0].size, plan.fake_values, plan.setting[0].size - 1)
    return FakesOutcome(tried, right, low, high, stated)


def _contents(plan: BucketedPlan) -> list[tuple[int, IntArray, IntArray]]:
    """(first bucket, listed values, real values), row for row."""
    real: dict[int, IntArray] = {}
    for first, kinds in plan.contents():
        real[first] = np.repeat(places(kinds), kinds.times, axis=0)
    begins = sorted(real)
    found = []
    for first, kinds in plan.listed():
        listed = np.repeat(places(kinds), kinds.times, axis=0)
        begin = begins[int(np.searchsorted(begins, first, side="right")) - 1]
        rows = real[begin][first - begin : first - begin + len(listed)]
        found.append((first, listed, rows))
    return found


def _guess(plan: BucketedPlan, listed: IntArray, known: IntArray) -> int:
    """The likeliest value of the record that is not known."""
    left = [int(value) for value in listed if value not in known]
    if plan.fakes is None:
        return left[0]
    counts = plan.histogram.counts.astype(np.float64)
    # that x is in the bucket has odds o_x : b − o_x where blocks are well mixed
    odds = counts / np.maximum(plan.buckets - counts, 1.0)
    weights = np.where(plan.fakes.listable(len(known) + 1), plan.fakes.weights, 0).astype(float)
    scores = [
        odds[value] * _fakes_chance(weights, known, value, [o for o in left if o != value])
        for value in left
    ]
    return left[int(np.argmax(scores))]


def _fakes_chance(weights: FloatArray, known: IntArray, value: int, fakes: list[int]) -> float:
    """That these fakes were drawn, in any order, if `value` is real."""
    free = float(weights.sum() - weights[known].sum() - weights[value])
    total = 0.0
    for order in itertools.permutations(fakes):
        chance, rest = 1.0, free
        for fake in order:
            chance *= weights[fake] / max(rest, 1e-300)
            rest -= float(weights[fake])
        total += chance
    return total


def _interval(right: int, trials: int) -> tuple[float, float]:
    """Clopper and Pearson's exact 95 % interval."""
    from scipy.stats import beta

    low = float(beta.ppf(0.025, right, trials - right + 1)) if right else 0.0
    high = float(beta.ppf(0.975, right + 1, trials - right)) if right < trials else 1.0
    return low, high
