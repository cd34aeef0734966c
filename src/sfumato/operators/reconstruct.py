"""Reconstructions besides the inverse: most likely counts, and nearest possible counts.

Both answer with counts that can be: none negative, summing to what is known. Neither is unbiased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.operators.base import FloatArray, Operator

TOLERANCE = 1e-5  # log-likelihood units that the maximum may still be away
MOST_CYCLES = 3_000  # of three EM steps each
_CLOSE = 1e-10  # of the largest sum: how well parts add up
_MOST_ROUNDS = 2_000


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


def nearest_possible(estimates: FloatArray, totals: FloatArray) -> FloatArray:
    """The nearest point of {n ≥ 0, Σ n = total} to each row. O(m log m) a row.

    n = max(estimate − θ, 0), θ the largest of (Σ of the k largest − total)/k.

    >>> nearest_possible(np.array([[200.0, 0.0, -100.0]]), np.array([100.0])).tolist()
    [[100.0, 0.0, 0.0]]
    """
    descending = -np.sort(-estimates, axis=1)
    excess = np.cumsum(descending, axis=1) - totals[:, None]
    theta = (excess / np.arange(1, estimates.shape[1] + 1)).max(axis=1)
    return np.asarray(np.maximum(estimates - theta[:, None], 0.0))


def nearest_parts(estimates: FloatArray, totals: FloatArray, together: FloatArray) -> FloatArray:
    """The nearest table to the estimates that is nowhere negative and has these margins.

    Rows are parts of a condition: each has its known total, and all of them add up to `together`.
    Distances count by the noise of a row, which grows with its total: n minimizes
    Σ (n − estimate)²/total, so that n = max(estimate + total·(a_row + b_value), 0), a and b being
    found in turn. −∞ marks what a row cannot hold.

    >>> halves = np.array([[70.0, -10.0, 0.0], [30.0, 20.0, 10.0]])
    >>> found = nearest_parts(halves, np.array([60.0, 60.0]), np.array([90.0, 15.0, 15.0]))
    >>> found.round(2).tolist()
    [[60.0, 0.0, 0.0], [30.0, 15.0, 15.0]]
    """
    weights = np.maximum(totals, 0.0)[:, None]
    shift = np.zeros(estimates.shape[1])
    found = nearest_possible(estimates, totals)
    close = _CLOSE * max(float(np.abs(together).max(initial=0.0)), 1.0)
    for _ in range(_MOST_ROUNDS):
        if np.abs(found.sum(axis=0) - together).max(initial=0.0) <= close:
            break
        moved = estimates + weights * shift
        # what the rows' own step takes off, wherever it leaves something
        step = np.where(found > 0, found - moved, -np.inf).max(axis=1, keepdims=True)
        shift = _column_shifts(
            estimates + np.where(np.isfinite(step), step, 0.0), weights, together
        )
        found = nearest_possible(estimates + weights * shift, totals)
    return found


def added_up(
    estimates: FloatArray, totals: FloatArray, together: FloatArray | None, weights: FloatArray
) -> FloatArray:
    """The nearest amounts to the estimates that have these margins; they may be negative.

    Rows have their known totals, and add up to `together` where that is given. t minimizes
    Σ (t − estimate)²/weight, the weight being that of a row: t = estimate + weight·(a_row +
    b_value). −∞ marks what a row cannot hold; it holds 0 of it.

    >>> halves = np.array([[70.0, -10.0], [30.0, 25.0]])
    >>> margins = np.array([60.0, 60.0]), np.array([105.0, 15.0])
    >>> added_up(halves, *margins, np.array([1.0, 3.0])).round(2).tolist()
    [[70.62, -10.62], [34.38, 25.62]]
    """
    there = np.isfinite(estimates)
    found, room = np.where(there, estimates, 0.0), np.where(there, weights[:, None], 0.0)
    of_row = room.sum(axis=1)
    if together is None:
        lacking = totals - found.sum(axis=1)
        rise = np.divide(lacking, of_row, out=np.zeros(len(totals)), where=of_row > 0)
        return np.asarray(found + room * rise[:, None])
    # a and b solve the equations of all margins, which say one thing twice: the least solution
    lacking = np.concatenate([totals - found.sum(axis=1), together - found.sum(axis=0)])
    equations = np.block([[np.diag(of_row), room], [room.T, np.diag(room.sum(axis=0))]])
    rise = np.linalg.lstsq(equations, lacking, rcond=None)[0]
    rows, columns = rise[: len(totals), None], rise[len(totals) :]
    return np.asarray(found + room * (rows + columns))


def _column_shifts(estimates: FloatArray, weights: FloatArray, together: FloatArray) -> FloatArray:
    """b of every column, so that Σ max(estimate + weight·b, 0) is what it should be."""
    with np.errstate(divide="ignore", invalid="ignore"):
        starts = np.where((weights > 0) & np.isfinite(estimates), -estimates / weights, np.inf)
        order = np.argsort(starts, axis=0)
        sorted_starts = np.take_along_axis(starts, order, axis=0)
        usable = np.isfinite(sorted_starts)
        ordered = np.where(usable, np.take_along_axis(estimates, order, axis=0), 0.0)
        heavy = np.where(usable, weights[order, 0], 0.0)
        shifts = (together - np.cumsum(ordered, axis=0)) / np.cumsum(heavy, axis=0)
    # the last row that is reached before the sum is
    reached = usable & (shifts >= sorted_starts)
    last = np.where(reached.any(axis=0), len(estimates) - 1 - reached[::-1].argmax(axis=0), 0)
    found = shifts[last, np.arange(estimates.shape[1])]
    return np.where(np.isfinite(found), found, 0.0)
