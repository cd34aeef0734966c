"""The paper's own estimate from decoys: an iteration over states (SPLU, Sections 5.1 and 5.2).

A record is in one of K = 2^(w+1) states: whether it satisfies the condition P, and whether it has
the value s_i of each of w sensitive columns. State numbers are bits (P, s_1 … s_w), so that with
one column 3 is "P and s" and 0 is "neither" (errata S12). Here for comparison: the printed matrix
is biased (errata S2), the stopping rule acts as shrinkage (S4), and a state that nobody shows
stays empty for ever (S9). The closed form of `Decoy.weights` is the default.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.draws import IntArray

FloatArray = npt.NDArray[np.float64]
Matrix = Literal["paper", "exact"]

TOLERANCE, MOST_ITERATIONS = 0.01, 10_000  # the paper's 1 %, and a cap that it does not state


def transition(shares: FloatArray, groups: int, matrix: Matrix) -> FloatArray:
    """Pr(published state | true state) of one value against the rest, shape (…, 2, 2).

    `shares` are f_s/N. The paper prints f_s/N for a record without s (Equations 6 to 9); exact is
    r = f_s(c−1)/(c(N−f_s)) (errata S2).

    >>> transition(np.array([0.1]), 5, "paper")[0].tolist()
    [[0.9, 0.1], [0.8, 0.2]]
    """
    rate = shares if matrix == "paper" else shares * (groups - 1) / (groups * (1 - shares))
    own = np.full_like(rate, 1 / groups)
    return np.stack([np.stack([1 - rate, rate], -1), np.stack([1 - own, own], -1)], -2)


def reconstruct(
    observed: npt.ArrayLike,
    groups: int,
    *,
    matrix: Matrix = "paper",
    tolerance: float = TOLERANCE,
    most: int = MOST_ITERATIONS,
    accelerated: bool = False,
) -> FloatArray:
    """Estimated counts by state from the published ones, many questions at once.

    `observed` has shape (questions, K). Starts at the published counts, takes the matrix from the
    current estimate in every round (Equations 13 and 14), and stops a question when no state
    changed by more than `tolerance` of itself (0/0 counting as no change) or after `most` rounds.
    `accelerated` extrapolates every two rounds (SQUAREM), for those who want the fixed point:
    plain rounds take tens of thousands to get there.

    >>> reconstruct([[700.0, 100.0, 150.0, 50.0]], 5).round(1).tolist()
    [[742.9, 57.1, 92.8, 107.2]]
    """
    return reconstruct_counting(
        observed, groups, matrix=matrix, tolerance=tolerance, most=most, accelerated=accelerated
    )[0]


def reconstruct_counting(
    observed: npt.ArrayLike,
    groups: int,
    *,
    matrix: Matrix = "paper",
    tolerance: float = TOLERANCE,
    most: int = MOST_ITERATIONS,
    accelerated: bool = False,
) -> tuple[FloatArray, IntArray]:
    """`reconstruct`, and the rounds that each question took."""
    published = np.asarray(observed, np.float64)
    estimate = published.copy()
    rounds = np.zeros(len(published), np.int64)
    active = np.arange(len(published))
    for _ in range(most):
        if not active.size:
            break
        now, shown = estimate[active], published[active]
        following = _round(now, shown, groups, matrix)
        change = np.divide(np.abs(following - now), now, out=np.zeros_like(now), where=now > 0).max(
            axis=1
        )
        if accelerated:
            following = _extrapolated(now, following, _round(following, shown, groups, matrix))
        estimate[active] = following
        rounds[active] += 1
        active = active[change > tolerance]
    return estimate, rounds


def _round(now: FloatArray, shown: FloatArray, groups: int, matrix: Matrix) -> FloatArray:
    """One round of Equation 14: every published record is shared among its possible states."""
    whole = _whole_matrix(now, groups, matrix)
    expected = np.einsum("qi,qij->qj", now, whole)
    ratio = np.divide(shown, expected, out=np.zeros_like(shown), where=expected > 0)
    return np.asarray(now * np.einsum("qij,qj->qi", whole, ratio))


def _extrapolated(first: FloatArray, second: FloatArray, third: FloatArray) -> FloatArray:
    """SQUAREM's step through three rounds; the last one where it would leave the simplex."""
    move, bend = second - first, third - 2 * second + first
    length = np.linalg.norm(bend, axis=1, keepdims=True)
    step = np.linalg.norm(move, axis=1, keepdims=True) / np.where(length > 0, length, 1.0)
    step = np.where(length > 0, np.maximum(step, 1.0), 1.0)
    far = first + 2 * step * move + step**2 * bend
    return np.where((far > 0).all(axis=1, keepdims=True), far, third)


def _whole_matrix(estimate: FloatArray, groups: int, matrix: Matrix) -> FloatArray:
    """M = M0 ⊗ M1 ⊗ … ⊗ Mw, M0 being the identity: quasi columns are published as they are."""
    columns = estimate.shape[1].bit_length() - 2
    rows = estimate.sum(axis=1)
    whole = np.broadcast_to(np.eye(2), (len(estimate), 2, 2))
    for column in range(columns):
        bit = 1 << (columns - 1 - column)
        holding = [state for state in range(estimate.shape[1]) if state & bit]
        share = np.clip(estimate[:, holding].sum(axis=1) / rows, 0.0, 1 - 1e-12)
        single = transition(share, groups, matrix)
        size = whole.shape[1]
        whole = np.einsum("qij,qkl->qikjl", whole, single).reshape(-1, 2 * size, 2 * size)
    return whole
