"""Intervals of functions that bend: as far as they go where the sums may be (methods, 10.6).

VAR, CORR and the like are functions of sums that are known with noise. The sums that are as likely
as the ends of an interval of one of them lie on an ellipsoid around what is unbiased; the interval
is from the least to the most that the function is there, which for a quotient is Fieller's. Many
directions, always the same ones, are tried, and steps along the slope from the best. What no table
of people could have is left out. Where so few records may be below that there could be none,
nothing is told.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sfumato.draws import BoolArray, Draws, Positions
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Totals
from sfumato.queries.aggregates import Aggregate

_DIRECTIONS = 400
_STEPS = 6
_ROUNDING = 1e-18  # of a squared sum: less is no noise
_FEWEST = 0.5  # of the directions: with fewer that are possible, nothing is told


def furthest(
    aggregate: Aggregate, totals: Totals, quantile: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Value, standard error and ends by row; not a number where nothing is told."""
    present, root = np.asarray(totals.present.all(axis=0)), _root(totals)
    directions = _directions(root.shape[1])

    def at(sums: FloatArray, there: BoolArray) -> FloatArray:
        seen = aggregate.combine(*sums)
        return np.where(aggregate.known(sums, there) & np.isfinite(seen), seen, np.nan)

    def moved(steps: FloatArray) -> FloatArray:
        """Sums by (statistic, row, step), from steps by (row, statistic, step)."""
        centre = totals.unbiased.T[:, :, None]
        return np.asarray(np.moveaxis(centre + quantile * (root @ steps), 1, 0))

    sums = moved(directions[None])
    seen = at(sums.reshape(len(sums), -1), np.repeat(present, _DIRECTIONS)).reshape(-1, _DIRECTIONS)
    defined = np.isfinite(seen).mean(axis=1) >= _FEWEST
    for call, slots in aggregate.places():
        if call.rule.least is not None:  # its first sum is a count without which it has no value
            reach = np.sqrt(np.square(root[:, slots.start]).sum(axis=1))
            defined &= totals.unbiased[slots.start] > quantile * reach
    ends = []
    for sign in (-1.0, 1.0):
        signed = np.where(np.isnan(seen), -np.inf, sign * seen)
        best, step = signed.max(axis=1), directions[:, signed.argmax(axis=1)].T
        for _ in range(_STEPS):
            slope = np.stack(aggregate.slopes(moved(step[:, :, None])[:, :, 0]), axis=1)
            along = sign * np.einsum("rsd,rs->rd", root, slope)
            length = np.sqrt(np.square(along).sum(axis=1, keepdims=True))
            steep = (length > 0) & np.isfinite(length)
            step = np.where(steep, along / np.where(steep, length, 1.0), step)
            best = np.fmax(best, sign * at(moved(step[:, :, None])[:, :, 0], present))
        ends.append(np.where(defined, sign * best, np.nan))
    low, high = ends
    start, exact = at(totals.values, present), (root == 0).all(axis=(1, 2))
    value = np.where(defined, np.where(np.isnan(start), (low + high) / 2, start), np.nan)
    low, high = np.fmin(low, value), np.fmax(high, value)
    value, low, high = (np.where(exact, start, each) for each in (value, low, high))
    return value, (high - low) / (2 * quantile), low, high


def _root(totals: Totals) -> FloatArray:
    """By row A, with A·Aᵀ the covariance of the sums; of counts that may be 0, none."""
    covariance = np.moveaxis(totals.noise, 2, 0)
    noise = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0)
    # in units of each sum's error: sums of squares are a million times as large as counts
    scale = np.sqrt(np.where(noise > _ROUNDING * (totals.unbiased.T**2 + 1), noise, 0.0))
    unit = np.where(scale > 0, scale, np.inf)
    alike = np.nan_to_num(covariance / (unit[:, :, None] * unit[:, None]))
    eigenvalues, vectors = np.linalg.eigh(np.clip(alike, -1.0, 1.0))
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None]
    return np.asarray(scale[:, :, None] * root)


@cache
def _directions(many: int) -> FloatArray:
    """Unit vectors by (statistic, direction), the same for every question."""
    from scipy.special import ndtri

    half = _DIRECTIONS // 2
    words = Draws.from_seed(0).words("directions of sums", Positions(0, many * half))
    normal = ndtri(((words >> np.uint64(11)) + 0.5) * 2.0**-53).reshape(many, half)
    unit = normal / np.sqrt(np.square(normal).sum(axis=0))
    return np.concatenate([unit, -unit], axis=1)
