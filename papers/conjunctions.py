"""Many count queries at once, answered in numpy: conjunctions on quasi columns, by value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sfumato.draws import Draws, IntArray, Positions
from sfumato.operators import Parts
from sfumato.operators.base import FloatArray, Operator


@dataclass(frozen=True, eq=False)
class Conjunctions:
    """Conditions A₁ = a₁ AND … AND A_d = a_d; `rows[k]` are the records that satisfy number k.

    Each condition stands for m queries, one per sensitive value (thesis, Equation 59).
    """

    rows: tuple[IntArray, ...]

    def counts(self, codes: IntArray, values: int) -> IntArray:
        """Counts by (condition, code)."""
        return np.array(
            [np.bincount(codes[rows], minlength=values) for rows in self.rows], np.int64
        ).reshape(len(self.rows), values)

    def estimates(self, shown: IntArray, operator: Operator) -> FloatArray:
        """Unbiased answers by (condition, value) from published codes, or symbols of parts."""
        observed = self.counts(shown, operator.values).astype(np.float64)
        answers = np.array([operator.estimate(row) for row in observed])
        if isinstance(operator, Parts):
            answers = np.array([operator.total(row) for row in answers])
        return answers.reshape(len(self.rows), -1)


def random_conjunctions(
    columns: Mapping[str, IntArray],
    count: int,
    draws: Draws,
    *,
    most_columns: int = 3,
) -> Conjunctions:
    """The thesis's pool (Section 4.4.1): d in 1 … 3 columns, one value each, all uniform.

    `columns` hold codes; a column's domain is its codes up to the largest.

    >>> table = {"sex": np.array([0, 1, 1]), "city": np.array([0, 0, 1])}
    >>> len(random_conjunctions(table, 5, Draws.from_seed(1)).rows)
    5
    """
    names = sorted(columns)
    most = min(most_columns, len(names))
    sizes = {name: int(columns[name].max()) + 1 for name in names}
    found = []
    for number in range(count):
        purpose = f"conjunction {number}"
        width = 1 + int(draws.below(f"{purpose} width", Positions(0, 1), most)[0])
        chosen = draws.order(f"{purpose} columns", len(names))[:width]
        matches = np.ones(len(columns[names[0]]), np.bool_)
        for place in chosen:
            name = names[int(place)]
            value = draws.below(f"{purpose} {name}", Positions(0, 1), sizes[name])[0]
            matches &= columns[name] == value
        found.append(np.flatnonzero(matches))
    return Conjunctions(tuple(found))
