"""People followed from the table to the release: how often they are shown truly, and its law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.audits.chances import ALARM, FloatArray, Tests
from sfumato.audits.classes import EquivalenceClasses, ValueCells
from sfumato.draws import IntArray

Chances = Callable[[IntArray, IntArray], FloatArray]  # P[x, y]

SURE = 1.645  # standard errors below which a draw falls one time in twenty
MOST_VALUES = 1000  # people among so many different values cannot be followed
MOST_PAIRS = 8_000_000


@dataclass(frozen=True, eq=False)
class ValuePairs:
    """Within every class, each true value with each value that would agree with somebody's.

    The people of cell i are those of class `owner[i]` with `true[i]`. Pair k belongs to cell
    `cell[k]`, neighbours to the same one: each of its people is shown `shown[k]` with `chance[k]`,
    which agrees by `weight[k]`.
    """

    owner: IntArray
    true: IntArray
    count: FloatArray
    agreed: FloatArray  # per cell: how often its value is shown in its class, times its weight
    cell: IntArray
    shown: IntArray
    weight: FloatArray
    chance: FloatArray

    @classmethod
    def of(
        cls,
        classes: EquivalenceClasses,
        true: ValueCells,
        shown: ValueCells,
        chances: Chances,
        *,
        alone: bool,
    ) -> ValuePairs | None:
        """With `alone`, only people whom nobody looks like. None where nobody can be followed."""
        support = np.bincount(true.owner, minlength=len(classes.sizes))
        chosen = (support > 0) & (support <= MOST_VALUES)
        if alone:
            chosen &= classes.sizes == 1
        # classes come in the order of a hash, so that those within the bound are a fair choice
        chosen &= np.cumsum(np.where(chosen, support.astype(np.int64) ** 2, 0)) <= MOST_PAIRS
        kept = chosen[true.owner]
        owner, code, count = (array[kept] for array in (true.owner, true.code, true.count))
        if not len(owner):
            return None
        share = count / classes.sizes[owner]
        number = support[owner]
        cell = np.repeat(np.arange(len(owner)), number)
        mate = np.searchsorted(owner, owner)[cell] + np.arange(len(cell))
        mate -= (np.cumsum(number) - number)[cell]
        agreed = shown.look_up(owner, code) * share
        chance = chances(code[cell], code[mate])
        return cls(
            owner, code, count.astype(np.float64), agreed, cell, code[mate], share[mate], chance
        )

    def moments(self, slope: float) -> tuple[FloatArray, FloatArray]:
        """log E exp(s·agreement) of every cell, and of every pair as if it alone could agree."""
        with np.errstate(over="ignore", invalid="ignore"):
            raised = self.chance * np.expm1(slope * self.weight)
        raised[self.chance <= 0] = 0.0
        by_pair = self.count[self.cell] * np.log1p(raised)
        return self.count * np.log1p(np.add.reduceat(raised, self.starts)), by_pair

    @property
    def starts(self) -> IntArray:
        return np.searchsorted(self.cell, np.arange(len(self.owner)))


class AgreementGroups:
    """Groups of people: `key` numbers that of every cell or, where a group is about one value
    that is shown, of every pair; −1 for none.

    A group so small that it could not alarm, whatever it shows, is left out: it would cost the
    others their power and never tell anything (Tarone 1990).
    """

    def __init__(self, pairs: ValuePairs, key: IntArray, by_pair: bool, name: Callable[[int], str]):
        self.by_pair, self._name = by_pair, name
        count, truthful = pairs.count[pairs.cell], pairs.true[pairs.cell] == pairs.shown
        surprise = np.where(pairs.chance > 0, -np.log(np.maximum(pairs.chance, 1e-300)), 0.0)
        mean, square = (count * pairs.chance * pairs.weight**power for power in (1, 2))
        if by_pair:
            truth, spread = (
                np.where(truthful, count * pairs.weight, mean),
                np.where(truthful, 0.0, square),
            )
            people, agreed = np.where(truthful, count, 0.0), np.zeros(len(truthful))
            agreed[truthful] = pairs.agreed
            most = count * surprise
        else:
            truth = np.bincount(
                pairs.cell[truthful], (count * pairs.weight)[truthful], len(pairs.owner)
            )
            people, agreed, spread = pairs.count, pairs.agreed, np.zeros(len(pairs.owner))
            mean = np.asarray(np.bincount(pairs.cell, mean), np.float64)
            most = pairs.count * np.maximum.reduceat(surprise, pairs.starts)
        keys, inverse = np.unique(key, return_inverse=True)
        inverse = inverse.reshape(-1)
        kept = (keys >= 0) & (np.bincount(inverse, people) > 0)
        kept &= np.bincount(inverse, most) >= -np.log(ALARM)
        self.keys, self._place = keys[kept], np.where(kept, np.cumsum(kept) - 1, -1)[inverse]
        self.people, self.agreed, self.mean = map(self._sum, (people, agreed, mean))
        self._level = self._sum(truth) - SURE * np.sqrt(self._sum(spread))
        self.exponents, self.truth = np.zeros(len(self.keys)), np.zeros(len(self.keys))

    def _sum(self, by_element: FloatArray) -> FloatArray:
        inside = self._place >= 0
        totals = np.bincount(self._place[inside], by_element[inside], len(self.keys))
        return np.asarray(totals, np.float64)

    def add(self, slope: float, by_cell: FloatArray, by_pair: FloatArray, missing: int = 0) -> None:
        """One slope more; those below 0 bound the chance of so little agreement, though the
        `missing` records had all agreed."""
        moments = self._sum(by_pair if self.by_pair else by_cell)
        level = self.agreed + (missing if slope < 0 else 0)
        self.exponents = np.maximum(self.exponents, slope * level - moments)
        if slope > 0:
            self.truth = np.maximum(self.truth, slope * self._level - moments)

    def name(self, group: int) -> str:
        figures = f"{self.agreed[group]:.0f} shown truly of {self.people[group]:.0f}"
        return f"{self._name(int(self.keys[group]))} ({figures}, {self.mean[group]:.1f} expected)"

    def tests(self, sides: int = 1) -> Tests:
        exponents, people = self.exponents - np.log(sides), self.people.astype(np.int64)
        return Tests(exponents, self.name, people, self.truth - np.log(sides))
