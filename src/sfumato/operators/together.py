"""What columns that are drawn independently of one another tell together about each of them.

With n(x₁ … x_J) people of each combination, who is shown y₁ … y_J has the value v in column j with
the chance Σ_{x: x_j = v} n(x) Π P_i[x_i, y_i] / Σ_x n(x) Π P_i[x_i, y_i]. The operators of the
other columns are applied first, axis by axis: the cost is that of a table over all combinations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.operators.base import FloatArray

MOST_ENTRIES = 1 << 24  # values of a column times what can be shown of all
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class ToldTogether:
    """Of one column: the largest chance of each value after seeing all columns, and how often what
    is shown takes some value above its ceiling."""

    largest: FloatArray
    beyond: float

    def worst(self, ceilings: FloatArray) -> int:
        """The value that comes furthest above its ceiling, or nearest to it."""
        return int(np.argmax(self.largest / np.maximum(ceilings, 1e-300)))


def told_together(
    counts: FloatArray, matrices: Sequence[FloatArray], column: int, ceilings: FloatArray
) -> ToldTogether | None:
    """For one of the columns, whose axes `counts` has in their order; None where it is too large.

    >>> same = np.array([[30.0, 0.0], [0.0, 70.0]])  # two columns that are always equal
    >>> keep = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> alone = told_together(np.array([30.0, 70.0]), [keep], 0, np.array([0.6, 1.0]))
    >>> both = told_together(same, [keep, keep], 0, np.array([0.6, 1.0]))
    >>> alone.largest.round(4).tolist(), both.largest.round(4).tolist()
    ([0.5625, 0.875], [0.7941, 0.9545])
    >>> alone.beyond, round(both.beyond, 4)  # 0.3 · 9/16 + 0.7 · 1/16
    (0.0, 0.2125)
    """
    if len(ceilings) * counts.size > MOST_ENTRIES:
        return None
    others = counts.astype(np.float64)
    for axis, matrix in enumerate(matrices):
        if axis != column:
            others = np.moveaxis(np.tensordot(others, matrix, axes=(axis, 0)), -1, axis)
    by_value = np.moveaxis(others, column, 0).reshape(len(ceilings), -1)  # value by others shown
    largest = np.zeros(len(ceilings))
    beyond = 0.0
    for shown in range(matrices[column].shape[1]):
        joint = by_value * matrices[column][:, shown][:, None]
        total = joint.sum(axis=0)
        chance = joint / np.maximum(total, 1e-300)
        largest = np.maximum(largest, chance.max(axis=1))
        above = (chance > ceilings[:, None] + _ROUNDING).any(axis=0)
        beyond += float(total[above].sum())
    return ToldTogether(largest, beyond / max(float(counts.sum()), 1.0))
