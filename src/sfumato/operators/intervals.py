"""Intervals that hold for every truth, and are short where they can be.

An interval around a shrunk estimate is right on average over what the prior believes in, and
wrong where the truth lies far from it: exactly the answers that surprise. The interval here starts
from the unbiased estimate y ~ N(θ, σ²) and holds with the stated chance for *every* θ; the prior
N(μ, τ²) decides only how the error is shared between its two ends, so that it is short on average
where the prior is right (Yu and Hoff, Adaptive multigroup confidence intervals, 2018). Counts of
records that were drawn one by one have their own law (`tails`); `ratio_interval` asks of every
quotient whether the two sums are likely under it (Fieller).
"""

from __future__ import annotations

import numpy as np

from sfumato.operators.base import FloatArray
from sfumato.operators.normal import expit, ndtri, shared_error

_FURTHEST = 60.0  # in log odds: how unevenly the two ends may share the error
_NODES = 1 << 11  # of a table, to either side of 0
_STEPS = 4
_STRONGEST = 1e15  # a belief that is as good as none
_TOLD = 1e-9  # of the whole variance: with less noise than that nothing is learnt by a belief
_LEAST = 1e-300


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
    sigma = np.maximum(stderr, _LEAST)
    with np.errstate(over="ignore"):
        pull = np.minimum((deviation / sigma) ** 2 / 2, _STRONGEST)
        off = (unbiased - prior) / sigma
    # the upper end is the lower one of what is mirrored at y
    down, up = _reached(np.tile(pull, 2), np.concatenate([off, -off]), 1 - confidence).reshape(
        2, -1
    )
    return unbiased + sigma * down, unbiased - sigma * up


def _reached(pull: FloatArray, off: FloatArray, error: float) -> FloatArray:
    """b = Φ⁻¹(α(1 − w)) where pull·(Φ⁻¹(αw) − b) − b = off, which grows with w: found between the
    nodes of a table, then by false positions."""
    odds, above = shared_error(error, _FURTHEST, 2 * _NODES + 1)
    below, node, step = above[::-1], np.zeros(len(pull), np.int64), _NODES
    while step:
        middle = node + step
        at = pull * (above[middle] - below[middle]) - below[middle]
        node, step = np.where(at > off, node, middle), step // 2
    ends = [odds[node + k] for k in (0, 1)]
    low, high = (pull * (above[node + k] - below[node + k]) - below[node + k] - off for k in (0, 1))
    found = below[node]
    for _ in range(_STEPS):
        with np.errstate(over="ignore", invalid="ignore"):  # y may be infinitely far from μ
            share = np.clip(np.nan_to_num(-low / np.maximum(high - low, _LEAST)), 0.0, 1.0)
        middle_odds = ends[0] + share * (ends[1] - ends[0])
        found = ndtri(error * expit(-middle_odds))
        at = pull * (ndtri(error * expit(middle_odds)) - found) - found - off
        beyond = at > 0
        ends = [np.where(beyond, ends[0], middle_odds), np.where(beyond, middle_odds, ends[1])]
        low, high = np.where(beyond, low, at), np.where(beyond, at, high)
    return found


def assisted_prediction(
    unbiased: FloatArray,
    noise: FloatArray,
    chance: FloatArray,
    prior: FloatArray,
    belief: FloatArray,
    confidence: float,
) -> tuple[FloatArray, FloatArray]:
    """`assisted_interval` for θ = m + c, where c ~ N(0, γ) is chance, and y ~ N(m, ν) tells of m.

    It holds for every m, N(μ, τ²) being believed of it. y − θ hangs together with θ, so that the
    error must not be shared by θ. It does not hang together with v = (γy + νθ)/(γ + ν), which has
    the mean m: the interval is that of v, whose y scatters by ν²/(γ + ν), and is carried back by
    θ = y + (v − y)·(γ + ν)/ν. `noise` is ν, `chance` γ, `belief` τ².

    >>> y, one = np.array([10.0]), np.ones(1)
    >>> [end.round(2).tolist() for end in assisted_prediction(y, one, 0 * one, y, one, 0.95)]
    [[8.36], [11.64]]
    >>> [end.round(2).tolist() for end in assisted_prediction(y, one, one, y, one, 0.95)]
    [[7.64], [12.36]]
    """
    whole = noise + chance
    stretch = whole / np.maximum(noise, _TOLD * whole + _LEAST)
    return assisted_interval(
        unbiased,
        np.sqrt(whole),
        unbiased + stretch * (prior - unbiased),
        np.sqrt(stretch * (stretch * belief + chance)),
        confidence,
    )


def ratio_interval(
    top: FloatArray,
    bottom: FloatArray,
    covariance: tuple[FloatArray, FloatArray, FloatArray],
    quantile: float,
    possible: tuple[FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """{R: (N − R·D)² ≤ quantile²·Var(N − R·D)} among what is `possible`, from end to end.

    `covariance` has Var N, Cov(N, D) and Var D. Where D may be 0 the set has no end of its own on
    one side: the quotient is then not told there; where N may be 0, too, it is on neither, whatever
    between two ends is out.

    >>> far = np.array([-99.0]), np.array([99.0])
    >>> one, five, ten = np.array([1.0]), np.array([5.0]), np.array([10.0])
    >>> [end.round(2).tolist() for end in ratio_interval(five, ten, (one, 0 * one, one), 2.0, far)]
    [[0.29], [0.75]]
    >>> [end.round(2).tolist() for end in ratio_interval(five, one, (one, 0 * one, one), 2.0, far)]
    [[-99.0], [99.0]]
    """
    square = quantile**2
    a = bottom**2 - square * covariance[2]
    b = top * bottom - square * covariance[1]
    c = top**2 - square * covariance[0]
    root = np.sqrt(np.maximum(b * b - a * c, 0.0))
    # without loss of digits where a is small: the two roots multiply to c / a
    larger = b + np.where(b >= 0, root, -root)
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = larger / a, c / larger
    first, second = np.fmin(*ends), np.fmax(*ends)
    # with a ≤ 0 it is what lies outside of the two roots, or everything
    open_ = c <= 0
    below, above = (first >= possible[0]) | open_, (second <= possible[1]) | open_
    low = np.where(a > 0, first, np.where(below | ~above, possible[0], second))
    high = np.where(a > 0, second, np.where(above | ~below, possible[1], first))
    low, high = (np.fmin(np.fmax(end, possible[0]), possible[1]) for end in (low, high))
    return low, high
