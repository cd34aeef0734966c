"""Several sensitive columns of a person: what they tell together, and promises for that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from sfumato.columns import value_text
from sfumato.engines.counting import count_combinations
from sfumato.guarantees import Guarantee
from sfumato.operators import General, Operator
from sfumato.operators.base import FloatArray
from sfumato.operators.retention import RetentionOperator
from sfumato.operators.together import MOST_ENTRIES, ToldTogether, told_together
from sfumato.profile import Histogram, Profile
from sfumato.release import Release
from sfumato.table import Table


@dataclass(frozen=True, eq=False)
class ColumnTold:
    """What all columns together tell about one: the value that comes furthest, and how often."""

    column: str
    value: str
    chance: float
    ceiling: float
    beyond: float  # of what is shown

    @property
    def exceeds(self) -> bool:
        return self.beyond > 0

    def sentence(self) -> str:
        """For the steward: it follows from exact counts."""
        told = (
            f"All sensitive columns together raise the chance of {self.value} in {self.column!r} "
            f"to {self.chance:.3f} at most; the promise about the column allows {self.ceiling:.3f}"
        )
        often = f", and {self.beyond:.1%} of what is shown goes beyond such a limit"
        return told + (often if self.exceeds else "") + "."


def told_by_columns(
    combined: Callable[[], FloatArray],
    histograms: Mapping[str, Histogram],
    operators: Mapping[str, Operator],
    guarantee: Guarantee,
) -> list[ColumnTold]:
    """For every sensitive column, from the table's own combinations; empty where it cannot be said.

    `combined` counts these (see `count_combinations`). Cost: the product of the numbers of values.
    """
    sizes = [len(histogram.values) for histogram in histograms.values()]
    kinds = (RetentionOperator, General)
    drawn = all(isinstance(operators.get(name), kinds) for name in histograms)
    if len(sizes) < 2 or not drawn or int(np.prod(sizes, dtype=object)) * max(sizes) > MOST_ENTRIES:
        return []
    counts = combined()
    matrices = [operators[name].matrix() for name in histograms]
    raised = []
    for index, (column, histogram) in enumerate(histograms.items()):
        ceilings = np.array([float(ceiling) for ceiling in guarantee.ceilings(histogram)])
        chances = told_together(counts, matrices, index, ceilings)
        assert isinstance(chances, ToldTogether)
        limited = np.where(ceilings < 1, ceilings, np.inf)
        code = chances.worst(limited)
        chance, ceiling = float(chances.largest[code]), float(ceilings[code])
        value = value_text(histogram.values[code])
        raised.append(ColumnTold(column, value, chance, ceiling, chances.beyond))
    return raised


def told_by_release(
    table: Table, release: Release, profile: Profile, guarantee: Guarantee
) -> list[ColumnTold]:
    """What all sensitive columns of a release tell together, from the table behind it."""
    histograms = profile.histograms
    combined = partial(count_combinations, table, histograms)
    return told_by_columns(combined, histograms, release.operators, guarantee)
