"""Perturbed Generalization (thesis, Sections 1.1 and 5.4.1; Tao and others): three steps.

Values are perturbed, people are generalized in groups of k, and one record of each group is
published with its ranges. With k = 1 it is uniform perturbation; every step beyond distorts more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from papers.perturbation.data import Microdata
from sfumato.draws import Draws, IntArray, Positions
from sfumato.operators import Uniform
from sfumato.operators.base import FloatArray

Condition = dict[str, int]  # quasi column → code


@dataclass(frozen=True, eq=False)
class PerturbedGeneralization:
    """What is published: a record a group, its ranges by column, and how many it stands for."""

    low: dict[str, IntArray]
    high: dict[str, IntArray]
    shown: IntArray
    sizes: IntArray
    operator: Uniform

    @classmethod
    def of(
        cls, data: Microdata, operator: Uniform, k: int, draws: Draws
    ) -> PerturbedGeneralization:
        address = Positions(0, len(data.sensitive))
        perturbed = operator.apply(data.sensitive, "perturbed", address, draws)
        people = np.stack(list(data.quasi.values()), axis=1)
        # groups of one are people, also those who are alike in every column
        groups = list(np.arange(len(people))[:, None])
        if k > 1:
            groups = groups_of(people, lambda rows: len(rows) >= k)
        sizes = np.array([len(rows) for rows in groups])
        which = draws.below("sampled", Positions(0, len(groups)), 1 << 40)
        taken = np.array([rows[w % len(rows)] for rows, w in zip(groups, which, strict=True)])
        ends = {
            name: np.array([(codes[rows].min(), codes[rows].max()) for rows in groups])
            for name, codes in data.quasi.items()
        }
        low, high = ({name: pair[:, side] for name, pair in ends.items()} for side in (0, 1))
        return cls(low, high, perturbed[taken], sizes, operator)

    def estimates(self, condition: Condition) -> FloatArray:
        """Counts by value: each record counts for its group, as far as its ranges overlap."""
        weight = self.sizes.astype(np.float64)
        for name, code in condition.items():
            inside = (self.low[name] <= code) & (code <= self.high[name])
            weight = weight * inside / (self.high[name] - self.low[name] + 1)
        shown = np.bincount(self.shown, weight, minlength=self.operator.values)
        return self.operator.estimate(shown.astype(np.float64))


def groups_of(codes: IntArray, fits: Callable[[IntArray], bool]) -> list[IntArray]:
    """Mondrian: cut at the median of the widest column, as long as both sides fit."""
    spans = np.maximum(np.ptp(codes, axis=0), 1)
    waiting, done = [np.arange(len(codes))], []
    while waiting:
        rows = waiting.pop()
        halves = _halves(rows, codes[rows], spans, fits)
        if halves is None:
            done.append(rows)
        else:
            waiting += halves
    return done


def _halves(
    rows: IntArray, codes: IntArray, spans: IntArray, fits: Callable[[IntArray], bool]
) -> list[IntArray] | None:
    """Those below the median and the others, in the widest column where both sides fit."""
    for column in np.argsort(-np.ptp(codes, axis=0) / spans, kind="stable"):
        middle = np.median(codes[:, column])
        for below in (codes[:, column] < middle, codes[:, column] <= middle):
            sides = [rows[below], rows[~below]]
            if all(len(side) and fits(side) for side in sides):
                return sides
    return None


def corrupted_chance(retention: float, k: int) -> float:
    """Section 1.1: that a published value is a given person's own, all others being known.

    >>> round(corrupted_chance(1 / 6, 2), 4)
    0.0833
    """
    return retention / k


def random_conditions(data: Microdata, number: int, seed: int) -> list[Condition]:
    """One or two quasi columns with a value each, which somebody has."""
    rng = np.random.default_rng(seed)  # questions, not protection
    names, found = list(data.quasi), []
    for _ in range(number):
        person = int(rng.integers(0, len(data.sensitive)))
        chosen = rng.choice(names, int(rng.integers(1, 3)), replace=False)
        found.append({str(name): int(data.quasi[name][person]) for name in chosen})
    return found
