"""The most likely counts: none negative, summing to what is known, and not unbiased."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.operators.base import FloatArray, Operator

TOLERANCE = 1e-5  # log-likelihood units that the maximum may still be away
MOST_CYCLES = 3_000  # of three EM steps each


@dataclass(frozen=True, eq=False)
class Likeliest:
    """Most likely counts, one row per question; `gap` bounds how far each is from the maximum."""

    counts: FloatArray
    cycles: int
    gap: FloatArray

    @property
    def converged(self) -> bool:
        return bool((self.gap <= TOLERANCE).all())


def most_likely(
    published: FloatArray,
    operators: Sequence[Operator],
    *,
    tolerance: float = TOLERANCE,
    most_cycles: int = MOST_CYCLES,
) -> Likeliest:
    """Iterative Bayes (thesis, Section 3.3), accelerated: the constrained maximum likelihood.

    `published` has one axis for questions and one per operator. Works on relative frequencies
    (errata T16) from a uniform start. EM alone needs some 1/p² steps; SQUAREM extrapolates from
    two of them, steps back where the likelihood would fall, and keeps every iterate in the
    simplex. A question stops when N·(max_x Σ_y o_y P[x,y]/q_y − 1), which bounds the distance to
    the maximal log-likelihood, is at most `tolerance`, all after `most_cycles`.

    >>> from fractions import Fraction
    >>> from sfumato.operators import Uniform
    >>> shown = np.array([[30.0, 35.0, 35.0], [50.0, 30.0, 20.0]])
    >>> most_likely(shown, [Uniform(3, Fraction(1, 10))]).counts.round().tolist()
    [[0.0, 50.0, 50.0], [100.0, 0.0, 0.0]]
    """
    totals = published.sum(axis=tuple(range(1, published.ndim)))
    shape = (len(published), *([1] * len(operators)))
    scale = np.maximum(totals, 1.0).reshape(shape)
    observed = published / scale
    cells = int(np.prod(published.shape[1:]))
    shares = np.full(published.shape, 1.0 / max(cells, 1))
    gaps = np.where(totals > 0, np.inf, 0.0)
    active = np.flatnonzero(totals > 0)
    cycles = 0
    while active.size and cycles < most_cycles:
        seen, now = observed[active], shares[active]
        first, scores, _ = _bayes_step(now, seen, operators)
        gap = totals[active] * (scores.reshape(len(active), -1).max(axis=1) - 1)
        gaps[active] = np.maximum(gap, 0.0)
        going = gap > tolerance
        if not going.all():
            active, seen, now, first = active[going], seen[going], now[going], first[going]
        if active.size:
            shares[active] = _accelerated(now, first, seen, operators)
        cycles += 1
    return Likeliest(shares * totals.reshape(shape), cycles, gaps)


def _bayes_step(
    shares: FloatArray, observed: FloatArray, operators: Sequence[Operator]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """One update; the scores D_x = Σ_y o_y P[x,y]/q_y; and the log-likelihood per record."""
    expected = shares
    for axis, operator in enumerate(operators, start=1):
        expected = _along(operator.push, expected, axis)
    there = observed > 0
    ratio = np.divide(observed, expected, out=np.zeros_like(observed), where=there)
    logs = np.log(expected, out=np.zeros_like(expected), where=there & (expected > 0))
    likelihood = (observed * logs).reshape(len(observed), -1).sum(axis=1)
    scores = ratio
    for axis, operator in enumerate(operators, start=1):
        scores = _along(operator.pull, scores, axis)
    return shares * scores, scores, likelihood


def _along(step: object, array: FloatArray, axis: int) -> FloatArray:
    assert callable(step)
    return np.asarray(np.moveaxis(step(np.moveaxis(array, axis, -1)), -1, axis))


def _accelerated(
    now: FloatArray, first: FloatArray, observed: FloatArray, operators: Sequence[Operator]
) -> FloatArray:
    """SQUAREM (Varadhan and Roland 2008, third scheme), one step length per question."""
    second, _, plain = _bayes_step(first, observed, operators)
    change, bend = first - now, second - 2 * first + now
    axes = tuple(range(1, now.ndim))
    norm = np.sqrt((change**2).sum(axis=axes, keepdims=True))
    curve = np.sqrt((bend**2).sum(axis=axes, keepdims=True))
    length = np.maximum(np.divide(norm, curve, out=np.ones_like(norm), where=curve > 0), 1.0)
    jumped = now + 2 * length * change + length**2 * bend
    jumped = np.maximum(jumped, 1e-3 * second)  # a share once 0 would stay 0
    jumped /= jumped.sum(axis=axes, keepdims=True)
    settled, _, reached = _bayes_step(jumped, observed, operators)
    keep = (reached >= plain).reshape(-1, *([1] * len(axes)))
    return np.where(keep, settled, second)
