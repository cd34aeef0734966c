"""The operator of one sub-table: as much retention as its promise leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TypeVar

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.fine_grain import best_for_counts
from sfumato.mechanisms.partitioning.coupling import posterior_odds
from sfumato.mechanisms.partitioning.merge import part_gamma
from sfumato.operators import FineGrain, Uniform
from sfumato.operators.base import FloatArray

Limits = list[Fraction | None]
Made = TypeVar("Made", Uniform, FineGrain)
ROUNDING = 1 + 1e-9  # far above what floats lose in `posterior_odds`
# limits between what holds always and what a record's own draw allows; fine-grain takes time
UNIFORM_STEPS, FINE_STEPS = 256, 32


@dataclass(frozen=True, eq=False)
class PartCounts:
    """The records of a sub-table by value, which values are covered, and their ceiling.

    `symbols` is the number of (part, value) of the column where the ceiling is for readers of the
    whole sub-table, None where it is for who reads one record of it.
    """

    counts: IntArray
    protected: BoolArray
    rho2: Fraction
    symbols: int | None

    def best_operator(self, inside: str) -> tuple[Uniform | FineGrain, Limits]:
        """The operator, and by how much the odds of each value may rise."""
        size = int(self.counts.sum())
        gamma = part_gamma(int(self.counts[self.protected].max()), size, self.rho2)
        own = [
            part_gamma(int(count), size, self.rho2) if covered else None
            for count, covered in zip(self.counts, self.protected, strict=True)
        ]
        same: Limits = [gamma if covered else None for covered in self.protected]
        limits = same if self.symbols is None else own
        uniform = self._most(
            UNIFORM_STEPS, lambda at: Uniform.for_amplification(len(own), _below(gamma, at))
        )
        assert uniform is not None, "what the others show raises odds by γ at most"
        floats = self.counts.astype(np.float64)
        if inside == "uniform" or not self._worth_trying(gamma, own, floats):
            return uniform, limits
        fine = self._most(
            FINE_STEPS, lambda at: best_for_counts([g and _below(g, at) for g in own], floats)
        )
        if fine and fine.variances(floats).sum() < uniform.variances(floats).sum():
            return fine, own
        return uniform, limits

    def _worth_trying(self, gamma: Fraction, own: Limits, floats: FloatArray) -> bool:
        """Whether own limits gain anything before the others' records are thought of."""
        uniform = Uniform.for_amplification(len(own), gamma).variances(floats).sum()
        return bool(best_for_counts(own, floats).variances(floats).sum() < uniform)

    def _most(self, steps: int, make: Callable[[Fraction], Made]) -> Made | None:
        """The operator of the largest step that keeps the ceiling; none where no step does."""
        if self.symbols is None:
            return make(Fraction(1))
        low, high, best = -1, steps + 1, None
        while high - low > 1:
            middle = (low + high) // 2
            operator = make(Fraction(middle, steps))
            if self._keeps(operator, self.symbols):
                low, best = middle, operator
            else:
                high = middle
        return best

    def _keeps(self, operator: Uniform | FineGrain, symbols: int) -> bool:
        odds = posterior_odds(self.counts, operator.retentions, symbols)[self.protected]
        return bool((odds * ROUNDING <= float(self.rho2 / (1 - self.rho2))).all())


def _below(gamma: Fraction, at: Fraction) -> Fraction:
    """From a hair below √γ, which keeps the ceiling whatever is shown, up to γ.

    >>> float(_below(Fraction(4), Fraction(0))), _below(Fraction(4), Fraction(1))
    (1.99999..., Fraction(4, 1))
    """
    root = Fraction(isqrt((gamma.numerator << 64) // gamma.denominator), 1 << 32)
    root -= (root - 1) / (1 << 24)
    return root + (gamma - root) * at
