"""What a sub-table tells about one of its records, to who knows how often it holds each value.

The draws of a sub-table are independent, but its counts q are not secret to this reader, so its
records inform one another: whoever sees too few x shown among the others thinks that the record
before them is an x. For a record shown as y, with o the histogram that the sub-table shows,

    Pr(x | release) ∝ q_x·P[x, y]·a_x,   a_x = L(o − e_y | q − e_x),

L(v | q) being the chance that records of true counts q show v. The bounds on a are proved in the
documents (methods, section 4): one that holds whatever is shown, and a sharper one that fails only
where some count is shown far off its expectation, with a chance of at most `FAILURE`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray

FAILURE = 1e-6  # that a release shows a count further off than the bound allows for, per column
DEPTH = 16  # pairs of records that the recursion takes away; each shrinks what is left of the start
EVENTS = (
    3 + DEPTH
)  # a symbol's count too low, too high, the others' mean too high; and, in parts of
# two symbols at least, a sum over the part too low or too high at every depth


def posterior_odds(counts: IntArray, retentions: FloatArray, symbols: int) -> FloatArray:
    """The largest odds of each value, for a reader of the whole sub-table who knows its counts.

    `retentions` are those of its operator; `symbols` is the number of (part, value) of the column.
    From its own record alone a record of 12 in 36 has odds of 2 under an amplification of 4; the
    others can raise that four times, here (so that 2 keeps what 4 promised), but hardly in a
    large sub-table. O(m).

    >>> kept = np.full(6, 1 / 3)  # (1/3 + 1/9) / (1/9) = 4
    >>> few = np.array([12, 8, 6, 5, 4, 1])
    >>> [posterior_odds(few * times, kept, 6)[0].round(2).tolist() for times in (1, 100_000)]
    [8.0, 2.03]
    """
    q = counts[None].astype(np.float64)
    return np.asarray(posterior_odds_of_parts(q, retentions[None], symbols)[0])


def padded(rows: Sequence[npt.NDArray[Any]]) -> FloatArray:
    """Rows of different lengths as one array, with −1 where a row has ended.

    >>> padded([np.array([1, 2]), np.array([3])]).tolist()
    [[1.0, 2.0], [3.0, -1.0]]
    """
    lengths = np.array([len(row) for row in rows])
    rectangle = np.full((len(rows), lengths.max(initial=0)), -1.0)
    rectangle[np.arange(rectangle.shape[1]) < lengths[:, None]] = np.concatenate(rows)
    return rectangle


def posterior_odds_of_parts(q: FloatArray, retentions: FloatArray, symbols: int) -> FloatArray:
    """So for several sub-tables and operators, a row for each, both `padded`."""
    there = q >= 0
    m, p, q = there.sum(axis=-1, keepdims=True), np.where(there, retentions, 0.5), np.maximum(q, 0)

    def total(by_value: FloatArray) -> FloatArray:
        return np.asarray(np.where(there, by_value, 0.0).sum(axis=-1, keepdims=True))

    def largest(by_value: FloatArray) -> FloatArray:
        return np.asarray(np.where(there, by_value, -np.inf).max(axis=-1, keepdims=True))

    def smallest(by_value: FloatArray) -> FloatArray:
        return np.asarray(np.where(there, by_value, np.inf).min(axis=-1, keepdims=True))

    def sum_shown(weights: FloatArray, log_chance: float) -> FloatArray:
        """The largest Σ w_y·o_y but for e^−log_chance; the smallest if that is negative."""
        away = _deviation(total(weights**2 * expected), largest(weights), abs(log_chance))
        return np.asarray(total(weights * expected) + math.copysign(1.0, log_chance) * away)

    moved = 1 - p
    background = total(q * moved) / m
    expected = background + p * q
    log_chance = math.log(EVENTS * symbols / FAILURE)
    least, most = _shown_range(expected, log_chance)
    always = p * m + moved
    surest = largest(always)  # max over y of P[x', y]/P[x, y] is this / (1 − p_x)
    weights = q * moved  # of the other values, for a record shown as x
    others = total(weights) - weights
    with np.errstate(divide="ignore", invalid="ignore"):
        at_most = apart = surest / smallest(moved)  # max a_x / a_x' at the recursion's start
        for removed in range(2 * DEPTH, 0, -2):
            lower = np.maximum(background - removed * largest(moved) / m, 0) + (
                p * np.maximum(q - removed, 0) / apart
            )
            upper = background + p * q * apart
            fewest = sum_shown(1 / upper, -log_chance) - (removed - 1) / smallest(upper)
            high = np.where(fewest > 0, m * most / lower / fewest, np.inf)
            low = m * np.maximum(least - removed + 1, 0) / upper / sum_shown(1 / lower, log_chance)
            rising = moved + p * np.where(p > 0, high, 0)
            falling = moved + p * np.fmax(low, 0.0)  # 0 for 0/0
            apart = np.fmin(at_most, largest(rising) / smallest(falling))
        shown = weights * p / lower
        mean = (total(shown * expected) - shown * expected) / others
        square = (total(shown**2 * expected) - shown**2 * expected) / others**2
        mean += _deviation(square, largest(shown) / others, log_chance)
        kept = (total(weights * moved) - weights * moved) / others
        by_mean = (kept + np.where(fewest > 0, m / fewest, np.inf) * mean) / falling
        by_pairs = others / (falling * (total(weights / rising) - weights / rising))
        by_surest = others / (moved * (total(weights / always) - weights / always))
        factor = np.fmin(np.fmin(by_mean, by_pairs), by_surest)
        odds = q * always / others * np.maximum(factor, 1)
    return np.asarray(np.where(others > 0, odds, np.inf))


def coupled_variance(size: IntArray, values: IntArray, excess: FloatArray) -> FloatArray:
    """About Σ Var(n̂_x) of uniform sub-tables whose odds may rise by 1 + `excess`; else infinite.

    For choosing what to merge only. 18 was fitted to `posterior_odds` on CENSUS occupations, 350 to
    350,000 records of 13 values.
    """
    room = np.maximum(excess, 0)
    gamma, kept = 1 + room, room / (values + room)
    left = gamma / (1 + 18 * kept / np.sqrt(size / values))
    left = np.maximum(left, np.sqrt(gamma)) - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = left / (values + left)
        moved = (1 - kept) / values  # W[y, x] = (1{y=x} − moved)/kept
        total = size * (((1 - moved) ** 2 + (values - 1) * moved**2) / kept**2 - 1)
    return np.asarray(np.where(excess > 0, total, np.inf))


def _shown_range(expected: FloatArray, log_chance: float) -> tuple[FloatArray, FloatArray]:
    """Where a sum of independent indicators lies, but for e^−log_chance on either side.

    Chernoff: Pr(o ≥ sE) ≤ exp(−E(s·ln s − s + 1)), and so below; s = e^(1 + W((λ/E − 1)/e)).
    """
    from scipy.special import lambertw

    argument = (log_chance / expected - 1) / math.e
    most = expected * np.exp(1 + lambertw(argument, 0).real)
    lower = np.minimum(argument, -1e-300)
    least = np.where(argument < 0, expected * np.exp(1 + lambertw(lower, -1).real), 0.0)
    return least, most


def _deviation(square: FloatArray, largest: FloatArray, log_chance: float) -> FloatArray:
    """By how much a sum of independent terms in [0, `largest`] leaves its mean: Bernstein."""
    return np.asarray(np.sqrt(2 * log_chance * np.maximum(square, 0)) + log_chance / 3 * largest)
