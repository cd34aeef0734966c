"""Several sensitive columns of a person: what they tell together, and promises for that.

With n(x₁ … x_J) people of each combination, who is shown y₁ … y_J has the value v in column j with
the chance Σ_{x: x_j = v} n(x) Π P_i[x_i, y_i] / Σ_x n(x) Π P_i[x_i, y_i], columns being drawn
independently. The operators of the other columns are applied first, axis by axis: the cost is that
of a table over all combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.columns import value_text
from sfumato.guarantees import Guarantee
from sfumato.operators import Operator
from sfumato.operators.base import FloatArray
from sfumato.operators.retention import RetentionOperator
from sfumato.profile import Histogram

_MOST_CELLS = 1 << 24  # values of a column times what can be shown of all
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class ColumnTold:
    """What all columns together tell about one: the value that comes furthest, and how often."""

    column: str
    value: str
    chance: float
    ceiling: float
    beyond: float  # of what is shown

    def sentence(self) -> str:
        """For the steward: it follows from exact counts."""
        told = (
            f"All sensitive columns together raise the chance of {self.value} in {self.column!r} "
            f"to {self.chance:.3f} at most; the promise about the column allows {self.ceiling:.3f}"
        )
        often = f", and {self.beyond:.1%} of what is shown goes beyond such a limit"
        return told + (often if self.beyond > 0 else "") + "."


def told_by_columns(
    combined: Callable[[], FloatArray],
    histograms: Mapping[str, Histogram],
    operators: Mapping[str, Operator],
    guarantee: Guarantee,
) -> list[ColumnTold]:
    """For every sensitive column, from the table's own combinations; empty where it cannot be said.

    `combined` counts these. Cost: the product of the numbers of values.
    """
    sizes = [len(histogram.values) for histogram in histograms.values()]
    drawn = all(isinstance(operators.get(name), RetentionOperator) for name in histograms)
    cells = int(np.prod(sizes, dtype=object)) * max(sizes, default=0)
    if len(sizes) < 2 or not drawn or cells > _MOST_CELLS:
        return []
    counts = combined()
    matrices = [operators[name].matrix() for name in histograms]
    raised = []
    for index, (column, histogram) in enumerate(histograms.items()):
        ceilings = np.array([float(ceiling) for ceiling in guarantee.ceilings(histogram)])
        largest, beyond = told_together(counts, matrices, index, ceilings)
        # the value that comes furthest above its ceiling, or nearest to it
        limited = np.where(ceilings < 1, ceilings, np.inf)
        code = int(np.argmax(largest / np.maximum(limited, 1e-300)))
        chance, ceiling = float(largest[code]), float(ceilings[code])
        value = value_text(histogram.values[code])
        raised.append(ColumnTold(column, value, chance, ceiling, beyond))
    return raised


def told_together(
    counts: FloatArray, matrices: Sequence[FloatArray], column: int, ceilings: FloatArray
) -> tuple[FloatArray, float]:
    """Of one of the columns, whose axes `counts` has in their order: the largest chance of each
    value after seeing all columns, and how often what is shown takes one above its ceiling.

    >>> same = np.array([[30.0, 0.0], [0.0, 70.0]])  # two columns that are always equal
    >>> keep = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> largest, beyond = told_together(same, [keep, keep], 0, np.array([0.6, 1.0]))
    >>> largest.round(4).tolist(), round(beyond, 4)  # 0.3 · 9/16 + 0.7 · 1/16
    ([0.7941, 0.9545], 0.2125)
    """
    others = counts.astype(np.float64)
    for axis, matrix in enumerate(matrices):
        if axis != column:
            others = np.moveaxis(np.tensordot(others, matrix, axes=(axis, 0)), -1, axis)
    by_value = np.moveaxis(others, column, 0).reshape(len(ceilings), -1)  # value by others shown
    largest, beyond = np.zeros(len(ceilings)), 0.0
    for likelihood in matrices[column].T:
        joint = by_value * likelihood[:, None]
        total = joint.sum(axis=0)
        chance = joint / np.maximum(total, 1e-300)
        largest = np.maximum(largest, chance.max(axis=1))
        above = (chance > ceilings[:, None] + _ROUNDING).any(axis=0)
        beyond += float(total[above].sum())
    return largest, beyond / max(float(counts.sum()), 1.0)
