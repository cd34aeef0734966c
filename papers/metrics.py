"""How far estimates are from the truth, and how much of the records stays as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray


@dataclass(frozen=True)
class ReconstructionError:
    """Mean relative error over the values that occur; `excluded` have a true count of 0."""

    error: float
    values: int
    excluded: int


def reconstruction_error(
    truth: IntArray | FloatArray, estimates: FloatArray
) -> ReconstructionError:
    """(1/m)·Σ |f − f*|/f (thesis, Definition 2); zero counts have no relative error (T17).

    >>> reconstruction_error(np.array([10, 0, 20]), np.array([11.0, 3.0, 18.0]))
    ReconstructionError(error=0.1, values=2, excluded=1)
    """
    true = np.asarray(truth, np.float64)
    there = true > 0
    relative = np.abs(estimates - true)[there] / true[there]
    mean = float(relative.mean()) if len(relative) else float("nan")
    return ReconstructionError(mean, int(there.sum()), int((~there).sum()))


def record_utility(counts: IntArray | FloatArray, diagonal: FloatArray) -> float:
    """Σ f_x·P[x, x]: the expected share of records that stay as they were (Definition 7).

    >>> record_utility(np.array([3, 1]), np.array([0.5, 0.1]))
    0.4
    """
    weights = np.asarray(counts, np.float64)
    return float(weights @ diagonal / weights.sum())


@dataclass(frozen=True)
class SelectedError:
    """Mean relative error of the answers whose true count is at least a share of the table."""

    selectivity: float
    error: float
    queries: int


def error_by_selectivity(
    truth: IntArray | FloatArray,
    estimates: FloatArray,
    rows: int,
    selectivities: Sequence[float] = (0.001, 0.005, 0.01),
) -> list[SelectedError]:
    """One figure per least selectivity; true counts of 0 never count (thesis, Section 4.4.1).

    >>> error_by_selectivity(np.array([5, 50]), np.array([6.0, 45.0]), 100, [0.01, 0.5])
    [SelectedError(selectivity=0.01, error=0.15, queries=2),
     SelectedError(selectivity=0.5, error=0.1, queries=1)]
    """
    true = np.asarray(truth, np.float64).reshape(-1)
    errors = np.abs(np.asarray(estimates, np.float64).reshape(-1) - true)
    found = []
    for least in selectivities:
        chosen = (true >= least * rows) & (true > 0)
        relative = errors[chosen] / true[chosen]
        mean = float(relative.mean()) if len(relative) else float("nan")
        found.append(SelectedError(least, round(mean, 12), int(chosen.sum())))
    return found
