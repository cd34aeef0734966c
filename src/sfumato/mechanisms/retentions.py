"""The best fine-grain retentions, by one parameter instead of an LP of m² rows.

Maximize Σ w_x p_x subject to (m−1)·p_i + γ_i·p_j ≤ γ_i − 1 for all i ≠ j and p ≥ p_min (thesis,
Figure 23; errata T12, T14). Let t be the largest retention and k a value that has it. Then value
k is limited by the second largest, every other value by t:

    p_i = min(t, u_i(t), v_k(t)),  u_i(t) = (γ_i(1−t) − 1)/(m−1),  v_k(t) = 1 − (1+(m−1)t)/γ_k.

u_i(t) ≥ t and v_i(t) ≥ t hold exactly up to t_i = (γ_i−1)/(m−1+γ_i), the uniform retention of
γ_i. So either t ≤ t_k and v_k does not bind: the objective is Σ w_i min(t, u_i(t)), whoever k is,
concave with breakpoints t_i. Or t > t_k and k stands alone above the others; that objective starts
from the first one's at t_k and is concave too, so only values with a rising start can win, and
there are few of them: their weights must outgrow the sum of the others' geometrically.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.operators.base import DYADIC, FloatArray, dyadic_floor


@dataclass(frozen=True)
class TopRetention:
    """A solution: the value that is kept most, and how often."""

    value: int
    retention: float


def uniform_retention(gammas: Sequence[Fraction | None]) -> Fraction:
    """The one retention that keeps every limit: p = (γ−1)/(m−1+γ) with the smallest γ."""
    finite = [gamma for gamma in gammas if gamma is not None]
    if not finite:
        return Fraction(1)
    return (min(finite) - 1) / (len(gammas) - 1 + min(finite))


def as_floats(gammas: Sequence[Fraction | None]) -> FloatArray:
    return np.array([np.inf if gamma is None else float(gamma) for gamma in gammas])


def retentions(gammas: FloatArray, value: int, tops: FloatArray) -> FloatArray:
    """All p_i for each of several tops of one value: tops by values. O(m) each.

    >>> retentions(np.array([15, 15, 6.6, 4.5, 39 / 11]), 0, np.array([0.5277])).round(2)
    array([[0.53, 0.53, 0.53, 0.28, 0.17]])
    """
    t, rest = tops[:, None], max(len(gammas) - 1, 1)
    with np.errstate(invalid="ignore"):  # a value without a limit is not limited by t = 1 either
        others = (gammas * (1 - t) - 1) / rest
    others[:, np.isinf(gammas)] = np.inf
    own_bound = 1 - (1 + (len(gammas) - 1) * t) / gammas[value]
    p = np.minimum(np.minimum(others, own_bound), t)
    p[:, value] = tops
    return np.asarray(p)


def best_top(gammas: FloatArray, weights: FloatArray, p_min: float) -> TopRetention:
    """The optimum; `gammas` may hold infinities, `p_min` at most the uniform retention.

    O(m log m) for the common family and for each of the few values that may stand alone.
    """
    finite = np.isfinite(gammas)
    if len(gammas) == 1 or not finite.any():
        return TopRetention(int(np.argmax(gammas)), 1.0)
    m = len(gammas)
    crossing = np.ones(m)
    crossing[finite] = (gammas[finite] - 1) / (m - 1 + gammas[finite])
    highest = largest_common_top(gammas, p_min)
    families = [(int(np.argmax(gammas)), np.append(crossing[crossing < highest], highest))]
    families += [
        (k, _alone(gammas, p_min, float(crossing[k]), k)) for k in _may_stand_alone(gammas, weights)
    ]
    best, value = TopRetention(families[0][0], 0.0), -np.inf
    for k, tops in families:
        if not len(tops):
            continue
        candidates = np.unique(tops)

        def kept(place: int, k: int = k, candidates: FloatArray = candidates) -> float:
            return float(weights @ retentions(gammas, k, candidates[place : place + 1])[0])

        place = concave_argmax(kept, len(candidates))
        if (reached := kept(place)) > value:
            best, value = TopRetention(k, float(candidates[place])), reached
    return best


def largest_common_top(gammas: FloatArray, p_min: float) -> float:
    """How far t can go while all others keep at least p_min, nobody standing alone."""
    m = len(gammas)
    smallest, largest = float(gammas.min()), float(gammas.max())
    highest = 1.0 if np.isinf(largest) else (largest - 1) / (m - 1 + largest)
    return min(highest, 1 - (1 + (m - 1) * p_min) / smallest)


def _may_stand_alone(gammas: FloatArray, weights: FloatArray) -> list[int]:
    """Values whose objective rises when they alone leave t_k upwards."""
    m = len(gammas)
    order = np.argsort(gammas, kind="stable")
    ordered, w = gammas[order], weights[order]
    lower_mass = np.concatenate([[0.0], np.cumsum(np.where(np.isfinite(ordered), ordered, 0) * w)])
    mass = np.concatenate([[0.0], np.cumsum(w)])
    first = np.searchsorted(ordered, ordered, side="left")
    last = np.searchsorted(ordered, ordered, side="right")
    with np.errstate(invalid="ignore"):
        own_bound = (m - 1) / ordered
        # smaller γ: u binds; larger: v_k binds; equal ones lose the steeper of the two
        loss = lower_mass[first] / (m - 1) + (mass[-1] - mass[last]) * own_bound
        loss += (mass[last] - mass[first] - w) * np.maximum(own_bound, ordered / (m - 1))
    rising = np.isfinite(ordered) & (w > loss)
    return [int(k) for k in order[rising]]


def _alone(gammas: FloatArray, p_min: float, low: float, k: int) -> FloatArray:
    """The breakpoints of the objective where value k stands alone, from t_k = `low` up, if any."""
    m, others, own_limit = len(gammas), np.delete(gammas, k), float(gammas[k])
    smallest = float(others.min())
    high = min(
        1.0 if np.isinf(smallest) else 1 - (1 + (m - 1) * p_min) / smallest,
        (own_limit * (1 - p_min) - 1) / (m - 1),
    )
    if high <= low:
        return np.zeros(0)
    bounded = others[np.isfinite(others)]
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = (1 - 1 / own_limit - (bounded - 1) / (m - 1)) / (
            (m - 1) / own_limit - bounded / (m - 1)
        )
    return np.concatenate([[low], meet[(meet > low) & (meet < high)], [high]])


def concave_argmax(objective: Callable[[int], float], n: int) -> int:
    """The place of the maximum of a concave sequence of length n, in O(log n) evaluations.

    >>> concave_argmax(lambda i: -(i - 3) ** 2, 10)
    3
    """
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        if objective(middle + 1) > objective(middle):
            low = middle + 1
        else:
            high = middle
    return low


def drawable(
    gammas: Sequence[Fraction | None], top: TopRetention, p_min: Fraction
) -> tuple[int, ...]:
    """The solution as numerators over 2³² that keep every limit in exact arithmetic.

    Given the integer for t, each p_i is the floor of its exact bound, so the limits hold whatever
    t is; t itself steps down where rounding would take a value below p_min.

    >>> halves = drawable([Fraction(2), Fraction(2)], TopRetention(0, 1 / 3), Fraction(0))
    >>> FRACTIONS = [Fraction(kept, DYADIC) for kept in halves]
    >>> all(1 * p + 2 * q <= 1 for p, q in (FRACTIONS, FRACTIONS[::-1]))
    True
    """
    floor = dyadic_floor(p_min) * DYADIC
    t = min(int(top.retention * DYADIC), DYADIC)
    step = 1
    while True:
        kept = _exact(gammas, top.value, t)
        if min(kept) >= floor:
            return tuple(kept)
        t, step = t - step, 2 * step
        if t < floor:
            raise ValueError(f"no drawable retentions reach p_min = {p_min}")


def _exact(gammas: Sequence[Fraction | None], k: int, t: int) -> list[int]:
    m, own_limit = len(gammas), gammas[k]
    cap = t
    if own_limit is not None:  # v_k(t) = 1 − (1+(m−1)t)/γ_k
        room = own_limit.numerator * DYADIC - own_limit.denominator * (DYADIC + (m - 1) * t)
        cap = min(cap, room // own_limit.numerator)
    kept = []
    for i, gamma in enumerate(gammas):
        if i == k:
            kept.append(t)
        elif gamma is None:
            kept.append(cap)
        else:  # u_i(t) = (γ_i(1−t) − 1)/(m−1)
            room = gamma.numerator * (DYADIC - t) - gamma.denominator * DYADIC
            kept.append(min(cap, room // (gamma.denominator * (m - 1))))
    return kept
