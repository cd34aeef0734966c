"""Intervals that hold for every truth, and are short where a prior is right.

An interval around a shrunk estimate is right on average over what the prior believes in, and
wrong where the truth lies far from it: exactly the answers that surprise. The interval here starts
from the unbiased estimate y ~ N(θ, σ²) and holds with the stated chance for *every* θ; the prior
N(μ, τ²) decides only how the error is shared between its two ends, so that it is short on average
where the prior is right (Yu and Hoff, Adaptive multigroup confidence intervals, 2018).
"""

from __future__ import annotations

import numpy as np

from sfumato.operators.base import FloatArray

_FURTHEST = 60.0  # in log odds: how unevenly the two ends may share the error
_HALVINGS = 60


def assisted_interval(
    unbiased: FloatArray,
    stderr: FloatArray,
    prior: FloatArray,
    deviation: FloatArray,
    confidence: float,
) -> tuple[FloatArray, FloatArray]:
    """{θ: y − θ between the quantiles αw(θ) and 1 − α(1 − w(θ)) of its law, from above}.

    w(θ), the share of the error that is spent on truths below y's side, solves
    θ = μ + τ²/(2σ)·(Φ⁻¹(αw) − Φ⁻¹(α(1−w))); it is 1/2 where nothing is believed, and the interval
    is then y ± 1.96 σ. Both ends are roots of increasing functions of w.

    >>> y, far = np.array([10.0]), np.array([1e6])
    >>> [end.round(2).tolist() for end in assisted_interval(y, np.ones(1), y, far, 0.95)]
    [[8.04], [11.96]]
    >>> [end.round(2).tolist() for end in assisted_interval(y, np.ones(1), y, np.ones(1), 0.95)]
    [[8.36], [11.64]]
    """
    from scipy.special import expit, ndtri

    error = 1 - confidence
    sigma = np.maximum(stderr, 1e-300)
    pull = deviation**2 / (2 * sigma)
    ends = []
    for upper in (False, True):
        low, high = np.full(sigma.shape, -_FURTHEST), np.full(sigma.shape, _FURTHEST)
        for _ in range(_HALVINGS):
            odds = (low + high) / 2
            above, below = ndtri(error * expit(odds)), ndtri(error * expit(-odds))
            beyond = prior + pull * (above - below) > unbiased + sigma * (
                -above if upper else below
            )
            high, low = np.where(beyond, odds, high), np.where(beyond, low, odds)
        share = expit(low) if upper else expit(-low)
        step = sigma * ndtri(error * share)
        ends.append(unbiased - step if upper else unbiased + step)
    return ends[0], ends[1]


def within_possible(
    ends: tuple[FloatArray, FloatArray],
    value: FloatArray,
    slope: FloatArray | float,
    count: FloatArray,
    most: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """The ends of an interval for value + slope·(n − count), n being between 0 and `most`.

    What was estimated outside of that is not cut off: noise stays visible.

    >>> five, forty = np.array([5.0]), np.array([40.0])
    >>> within_possible((five - 9, five + 90), five, 1.0, five, forty)
    (array([0.]), array([40.]))
    >>> within_possible((-five - 90, -five + 90), -five, -1.0, five, forty)
    (array([-40.]), array([0.]))
    """
    possible = (
        value + slope * (np.fmin(count, 0.0) - count),
        value + slope * (np.fmax(count, most) - count),
    )
    return np.fmax(ends[0], np.fmin(*possible)), np.fmin(ends[1], np.fmax(*possible))
