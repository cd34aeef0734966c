"""Intervals of functions that bend: draws from the normal law of the sums (methods, 10.6).

VAR, CORR and the like are functions of sums that are known with noise. Some hundred draws of these,
always the same ones, are put through the function; what no table of people could have is dropped,
and the quantiles of the rest are the interval. Where so few records may be below that there could
be none, nothing is told.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sfumato.draws import Draws, Positions
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Totals
from sfumato.queries.aggregates import Aggregate

_DRAWS = 400
_ROUNDING = 1e-18  # of a squared sum: less is no noise
_FEWEST = 0.5  # of the draws: with fewer that are possible, nothing is told


def simulated(
    aggregate: Aggregate, totals: Totals, quantile: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Value, standard error and ends by row; not a number where nothing is told."""
    from scipy.special import ndtr

    present = np.asarray(totals.present.all(axis=0))
    start = aggregate.combine(*totals.values)
    start = np.where(aggregate.known(totals.values, present) & np.isfinite(start), start, np.nan)
    drawn = _drawn(totals)
    flat = drawn.reshape(len(drawn), drawn.shape[1] * _DRAWS)
    seen = aggregate.combine(*flat)
    possible = aggregate.known(flat, np.repeat(present, _DRAWS)) & np.isfinite(seen)
    seen = np.where(possible, seen, np.nan).reshape(-1, _DRAWS)
    defined = np.isfinite(seen).mean(axis=1) >= _FEWEST
    for call, slots in aggregate.places():
        if call.rule.least is not None:  # its first sum is a count without which it has no value
            defined &= np.quantile(drawn[slots.start], float(ndtr(-quantile)), axis=1) > 0
    tail = float(ndtr(-quantile))
    ends = np.full((3, len(start)), np.nan)
    ends[:, defined] = np.nanquantile(seen[defined], [tail, 0.5, 1 - tail], axis=1)
    exact = (drawn == drawn[:, :, :1]).all(axis=(0, 2))
    low, middle, high = np.where(exact, start, ends)
    value = np.where(np.isnan(start), middle, np.clip(start, low, high))
    return value, (high - low) / (2 * quantile), low, high


def _drawn(totals: Totals) -> FloatArray:
    """Sums by (statistic, row, draw) from their normal law; of counts that may be 0, none."""
    centre, many = totals.unbiased, len(totals.unbiased)
    covariance = np.moveaxis(totals.noise, 2, 0)
    noise = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0)
    # in units of each sum's error: sums of squares are a million times as large as counts
    scale = np.sqrt(np.where(noise > _ROUNDING * (centre.T**2 + 1), noise, 0.0))
    unit = np.where(scale > 0, scale, np.inf)
    alike = np.nan_to_num(covariance / (unit[:, :, None] * unit[:, None]))
    eigenvalues, vectors = np.linalg.eigh(np.clip(alike, -1.0, 1.0))
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None]
    draws = centre.T[:, :, None] + scale[:, :, None] * (root @ _normal(many))
    return np.asarray(np.moveaxis(draws, 0, 1))


@cache
def _normal(many: int) -> FloatArray:
    """Standard normal numbers by (statistic, draw), the same for every question."""
    from scipy.special import ndtri

    half = _DRAWS // 2
    words = Draws.from_seed(0).words("draws of sums", Positions(0, many * half))
    normal = ndtri(((words >> np.uint64(11)) + 0.5) * 2.0**-53).reshape(many, half)
    return np.concatenate([normal, -normal], axis=1)
