"""Sets as yes/no columns: whatever is shown, no profile is likelier than the promise allows."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from sfumato.draws import Draws
from sfumato.guarantees import RhoPrivacy
from sfumato.mechanisms import parse_mechanism
from sfumato.profile import Histogram, Profile


@pytest.mark.parametrize("mechanism", ["uniform", "fine-grain(objective=counts)", "general"])
@pytest.mark.parametrize("columns", [2, 3, 4])
def test_no_profile_gains_more_than_the_limit(mechanism: str, columns: int) -> None:
    """All pairs of profiles and all that can be shown, in fractions."""
    promise = RhoPrivacy("0.3", "0.8")
    histograms = {
        f"illness {k}": Histogram(f"illness {k}", ("no", "yes"), np.array([90 - 5 * k, 10 + 5 * k]))
        for k in range(columns)
    }
    profile = Profile(100, histograms)
    plan = parse_mechanism(mechanism).plan(
        profile, promise.together(profile.histograms), Draws.from_seed(1)
    )
    exact = [_exact(operator) for operator in plan.operators.values()]  # type: ignore[attr-defined]
    profiles = list(product((0, 1), repeat=columns))
    for shown in profiles:
        chances = [
            prod(matrix[x][y] for matrix, x, y in zip(exact, truth, shown, strict=True))
            for truth in profiles
        ]
        assert max(chances) <= promise.gamma * min(chances)
    widest = max(
        prod(max(column) / min(column) for column in choice)
        for choice in product(*(list(zip(*matrix, strict=True)) for matrix in exact))
    )
    assert widest > promise.gamma * Fraction(95, 100)  # and the limit is used


def _exact(operator: object) -> list[list[Fraction]]:
    if hasattr(operator, "rows"):
        return [[Fraction(entry, 1 << 32) for entry in row] for row in operator.rows]
    kept = [Fraction(float(retention)) for retention in operator.retentions]  # type: ignore[attr-defined]
    return [
        [(kept[x] if x == y else 0) + (1 - kept[x]) / len(kept) for y in range(len(kept))]
        for x in range(len(kept))
    ]
