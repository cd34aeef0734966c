"""People followed from the table to the release: how often they are shown truly, and its law.

A record that shows y, in a class of which n of N people have y, agrees by n/N: by 1 or 0 where its
person is alone. Draws are independent, so the moments of a sum of agreements are known,
log E exp(sA) = Σ log Σ_y P[x, y] exp(s·n(y)/N), and exp(log E exp(sA) − s·a) bounds the chance of
an agreement of a or more, for every s (Chernoff). The smallest over some s is taken, so the bound
holds for every size; for people who are alone and all shown truly it is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.audits.classes import Cells, Classes
from sfumato.chances import FloatArray
from sfumato.draws import BoolArray, IntArray

MOST_VALUES = 1000  # people among so many different values cannot be followed
MOST_PAIRS = 8_000_000
SLOPES = np.geomspace(2.0**-8, 2.0**12, 41)  # s; neighbours differ by a factor of √2
SURE = 1.645  # standard errors below which a draw falls one time in twenty

Chances = Callable[[IntArray, IntArray], FloatArray]  # P[x, y]


@dataclass(frozen=True, eq=False)
class Pairs:
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

    @property
    def own(self) -> BoolArray:
        """The pairs of people with their own value."""
        return np.asarray(self.true[self.cell] == self.shown)

    @property
    def people(self) -> int:
        return int(self.count.sum())


def follow(
    classes: Classes, true: Cells, shown: Cells, chances: Chances, *, alone: bool
) -> Pairs | None:
    """The pairs of one column. With `alone`, only people whom nobody looks like: for operators
    that state the chance of one's own value alone. None where nobody can be followed."""
    support = np.bincount(true.owner, minlength=len(classes.sizes))
    chosen = (support > 0) & (support <= MOST_VALUES)
    if alone:
        chosen &= classes.sizes == 1
    # classes come in the order of a hash, so that those within the bound are a fair choice
    chosen &= np.cumsum(np.where(chosen, support.astype(np.int64) ** 2, 0)) <= MOST_PAIRS
    kept = chosen[true.owner]
    owner, value, count = true.owner[kept], true.value[kept], true.count[kept].astype(np.float64)
    if not len(owner):
        return None
    share = count / classes.sizes[owner]
    times = shown.look_up(owner, value)
    number = support[owner]
    cell = np.repeat(np.arange(len(owner)), number)
    mate = np.searchsorted(owner, owner)[cell] + np.arange(len(cell))
    mate -= (np.cumsum(number) - number)[cell]
    chance = chances(value[cell], value[mate])
    return Pairs(owner, value, count, times * share, cell, value[mate], share[mate], chance)


@dataclass(frozen=True, eq=False)
class Grouping:
    """Groups of people: `key` numbers the group of every cell, or of every pair where a group is
    about one value that is shown; −1 for none.

    A group that could not fall below the chance exp(−least), whatever is shown of it, is left out:
    it would cost the others their power and never tell anything (Tarone 1990).
    """

    key: IntArray
    name: Callable[[int], str]
    by_value: bool = False
    least: float = 0.0


@dataclass(frozen=True, eq=False)
class GroupAgreement:
    """The agreement within groups, beside its law and what it were without protection."""

    names: Callable[[int], str]
    keys: IntArray
    people: FloatArray
    agreed: FloatArray
    mean: FloatArray
    variance: FloatArray
    truth: FloatArray  # at least this, 19 times in 20, were the group shown truly
    moments: FloatArray  # log E exp(sA) by group and slope

    def exponents(self, level: FloatArray) -> FloatArray:
        """−log of a bound on the chance of an agreement of at least `level`."""
        found = (SLOPES * level[:, None] - self.moments).max(axis=1, initial=0.0)
        return np.where(level > self.mean, found, 0.0)

    def name(self, place: int) -> str:
        return self.names(int(self.keys[place]))


def sum_up(pairs: Pairs, groupings: Sequence[Grouping]) -> list[GroupAgreement]:
    """The agreement and its law for several groupings at once."""
    found = [_Sums(pairs, grouping) for grouping in groupings]
    starts = np.searchsorted(pairs.cell, np.arange(len(pairs.owner)))
    count = pairs.count[pairs.cell]
    possible = pairs.chance > 0
    for place, slope in enumerate(SLOPES):
        with np.errstate(over="ignore", invalid="ignore"):
            raised = pairs.chance * np.expm1(slope * pairs.weight)
        raised[~possible] = 0.0
        by_cell = pairs.count * np.log1p(np.add.reduceat(raised, starts))
        by_pair = count * np.log1p(raised)
        for sums in found:
            sums.add(place, by_pair if sums.grouping.by_value else by_cell)
    return [sums.groups() for sums in found]


class _Sums:
    def __init__(self, pairs: Pairs, grouping: Grouping) -> None:
        self.pairs, self.grouping = pairs, grouping
        count = pairs.count[pairs.cell]
        with np.errstate(divide="ignore"):
            surprise = np.where(pairs.chance > 0, -np.log(np.maximum(pairs.chance, 1e-300)), 0.0)
        mean = count * pairs.chance * pairs.weight
        square = count * pairs.chance * pairs.weight**2
        own = pairs.own
        if grouping.by_value:
            parts = np.where(own, 0.0, 1.0)
            self._own = np.where(own, count * pairs.weight, mean)
            self._spread = parts * square
            self._people = np.where(own, count, 0.0)
            self._agreed = np.zeros(len(own))
            self._agreed[own] = pairs.agreed
            self._mean, self._square, most = mean, square, count * surprise
        else:
            sums = [_by_cell(pairs, each) for each in (mean, square)]
            self._mean, self._square = sums
            self._own = _by_cell(pairs, np.where(own, count * pairs.weight, 0.0))
            self._spread = np.zeros(len(pairs.owner))
            self._people, self._agreed = pairs.count, pairs.agreed
            most = pairs.count * np.maximum.reduceat(
                surprise, np.searchsorted(pairs.cell, np.arange(len(pairs.owner)))
            )
        keys, place = np.unique(grouping.key, return_inverse=True)
        place = place.reshape(-1)
        people = np.bincount(place, self._people)
        kept = (keys >= 0) & (people > 0) & (np.bincount(place, most) >= grouping.least)
        self.keys = keys[kept]
        self._place = np.where(kept, np.cumsum(kept) - 1, -1)[place]
        self._kept = self._place >= 0
        self.moments = np.zeros((len(self.keys), len(SLOPES)))

    def _sum(self, values: FloatArray) -> FloatArray:
        held = self._place[self._kept]
        return np.asarray(np.bincount(held, values[self._kept], len(self.keys)), np.float64)

    def add(self, place: int, values: FloatArray) -> None:
        self.moments[:, place] = self._sum(values)

    def groups(self) -> GroupAgreement:
        return GroupAgreement(
            self.grouping.name,
            self.keys,
            self._sum(self._people),
            self._sum(self._agreed),
            self._sum(self._mean),
            self._sum(self._square),
            self._sum(self._own) - SURE * np.sqrt(self._sum(self._spread)),
            self.moments,
        )


def shortfall_exponent(pairs: Pairs, level: float) -> float:
    """−log of a bound on the chance that everybody together agrees by at most `level`."""
    starts = np.searchsorted(pairs.cell, np.arange(len(pairs.owner)))
    best = 0.0
    for slope in SLOPES[SLOPES <= 30]:  # beyond, a chance of 1 is no longer told from its rounding
        lowered = np.add.reduceat(pairs.chance * np.expm1(-slope * pairs.weight), starts)
        best = max(best, -slope * level - float((pairs.count * np.log1p(lowered)).sum()))
    return best


def _by_cell(pairs: Pairs, values: FloatArray) -> FloatArray:
    return np.asarray(np.bincount(pairs.cell, values, len(pairs.owner)), np.float64)
