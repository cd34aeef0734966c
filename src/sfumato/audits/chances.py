"""Bounds on chances that hold for every size: no approximation by a normal law."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.draws import IntArray

FloatArray = npt.NDArray[np.float64]

ALARM = 1e-3  # the chance, at most, that an honest release fails any test of an audit
UP = np.geomspace(2.0**-8, 2.0**12, 41)  # s; neighbours differ by a factor of √2
DOWN = -np.geomspace(2.0**-8, 2.0**4, 25)  # beyond, a chance of 1 is not told from its rounding


@dataclass(frozen=True, eq=False)
class Tests:
    """Tests of one kind: −log of a bound on the chance of each, and what each is about.

    `truth` is the exponent, 19 times in 20, were the `people` of a test shown truly.
    """

    exponents: FloatArray
    name: Callable[[int], str]
    people: IntArray | None = None
    truth: FloatArray | None = None

    @classmethod
    def joined(cls, tests: Sequence[Tests]) -> Tests:
        """All of these as one kind; where one has people, all have."""
        ends = np.cumsum([len(one.exponents) for one in tests])

        def name(test: int) -> str:
            which = int(np.searchsorted(ends, test, side="right"))
            return tests[which].name(test - int(ends[which]) + len(tests[which].exponents))

        def all_of(field: str) -> Any:
            arrays = [getattr(one, field) for one in tests]
            return None if arrays[0] is None else np.concatenate(arrays)

        return cls(all_of("exponents"), name, all_of("people"), all_of("truth"))


def count_exponents(
    high: FloatArray, low: FloatArray, moments: Callable[[float], FloatArray]
) -> FloatArray:
    """−log of Chernoff's bound on the chance of so many, or so few, where `moments` are
    log E exp(s·count)."""
    best = np.zeros(high.shape)
    for slope in (*UP[UP <= 64], *DOWN):  # counts are whole: more would add nothing
        best = np.maximum(best, slope * (high if slope > 0 else low) - moments(slope))
    return np.asarray(best - np.log(2))


def sum_exponents(gap: Any, variance: Any, most: float) -> FloatArray:
    """−log of Bernstein's bound on the chance that sums of independent terms, of at most `most`
    each, are so far from their means, on either side."""
    return np.asarray(gap**2 / np.maximum(2 * (variance + most * gap / 3), 1e-300) - np.log(2))
