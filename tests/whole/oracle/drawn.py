"""Readers of what is drawn record by record: operators and sub-tables, in fractions.

*Operators*: whatever a reader believes of everybody, seeing one record more raises the odds of no
value of its person by more than the limit. Believed are random priors and, of operators that follow
from counts, all worlds of the histogram and everybody else's record.
*Sub-tables*: the reader knows the shares and sees all records of the sub-table.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from math import prod
from random import Random

import numpy as np

from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan
from sfumato.engines.words import Facts
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.partitioned import SubTables
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.operators import FineGrain, Operator, Uniform
from sfumato.profile import Histogram, Profile
from tests.whole.oracle.worlds import arranged

Matrix = list[list[Fraction]]
Counts = tuple[int, ...]


def _odds(chance: Fraction) -> Fraction:
    return chance / (1 - chance)


def _gamma(before: Fraction, after: Fraction) -> Fraction:
    return _odds(after) / _odds(before)


# the limit on odds by share, once more: None where nothing is promised
LIMITS: dict[str, Callable[[int, Fraction], Fraction | None]] = {
    "rho-privacy(0.3, 0.6)": lambda code, share: (
        None if share > Fraction(3, 10) else _gamma(Fraction(3, 10), Fraction(6, 10))
    ),
    "rho-privacy(0.4, 0.7)": lambda code, share: (
        None if share > Fraction(4, 10) else _gamma(Fraction(4, 10), Fraction(7, 10))
    ),
    "fine-rho-privacy(theta=1.5)": lambda code, share: (
        None if 3 * share >= 2 or not share else _gamma(share, 3 * share / 2)
    ),
    "fine-rho-privacy(theta=2)": lambda code, share: (
        None if 2 * share >= 1 or not share else _gamma(share, 2 * share)
    ),
    "fine-rho-privacy(limits=0:0.4:0.7;*:0.3:0.5)": lambda code, share: (
        _gamma(Fraction(4, 10), Fraction(7, 10))
        if code == 0
        else _gamma(Fraction(3, 10), Fraction(5, 10))
    ),
}
OPERATORS = ("uniform", "fine-grain(objective=counts)", "fine-grain", None)
SHARES = ((Fraction(3, 10), Fraction(6, 10)), (Fraction(26, 100), Fraction(1, 2)))


def tables(least: int = 4, most: int = 8) -> Iterator[Counts]:
    """Counts of two to four values, up to the names of the values."""
    for people in range(least, most + 1):
        for values in (2, 3, 4):
            for cut in itertools.combinations_with_replacement(range(1, people), values):
                if sum(cut) == people:
                    yield tuple(reversed(cut))


def histogram(counts: Sequence[int]) -> Histogram:
    return Histogram("s", tuple(str(code) for code in range(len(counts))), np.array(counts))


def exact(operator: Operator) -> Matrix:
    """P as fractions, from the numbers that draws are compared with."""
    m = operator.values
    assert isinstance(operator, Uniform | FineGrain)
    kept = [Fraction(int(n), 1 << 32) for n in operator.numerators()]
    kept = kept * m if len(kept) == 1 else kept
    return [[(x == y) * kept[x] + (1 - kept[x]) / m for y in range(m)] for x in range(m)]


def planned(counts: Counts, text: str, way: str | None) -> tuple[PerturbedPlan, tuple[str, ...]]:
    """The plan, and what the release says of it."""
    whole, guarantee = histogram(counts), parse_guarantee(text)
    profile = Profile(whole.rows, {"s": whole})
    chosen, plan = choose_plan(profile, guarantee, way and parse_mechanism(way), Draws.from_seed(1))
    assert isinstance(plan, PerturbedPlan), plan
    facts = Facts.of_plan(chosen, guarantee, plan, profile.histograms)
    said = str(chosen), str(facts.plan), *facts.statement(), *facts.caveats()
    return plan, said


def gains(
    matrix: Matrix, counts: Counts, fitted: bool, rng: Random
) -> Iterator[tuple[int, Fraction, Fraction]]:
    """By how much a record raises the odds of a value (over what), for readers of many beliefs."""
    m = len(counts)
    for x, y in itertools.product(range(m), repeat=2):
        others = [matrix[other][y] for other in range(m) if other != x]
        yield x, matrix[x][y], min(others)  # all of the rest on what explains it least
        weights = [Fraction(rng.randint(1, 9)) for _ in others]
        mean = sum(w * p for w, p in zip(weights, others, strict=True)) / sum(weights)
        yield x, matrix[x][y], mean
    if fitted and sum(counts) <= 6:  # the histogram is known, and all other records are seen
        worlds = arranged([x for x, count in enumerate(counts) for _ in range(count)])
        shown = [rng.randrange(m) for _ in range(sum(counts))]
        before, after = Counter[int](), Counter[int]()
        for world in worlds:
            pairs = list(zip(world, shown, strict=True))
            others = prod((matrix[x][y] for x, y in pairs[1:]), start=Fraction(1))
            before[world[0]] += others
            after[world[0]] += others * matrix[world[0]][shown[0]]
        for x in before:
            rest = sum(before.values()) - before[x], sum(after.values()) - after[x]
            yield x, after[x] * rest[0], rest[1] * before[x]


def worst_gain(counts: Counts, text: str, way: str | None) -> Fraction:
    """The largest rise of odds over its limit."""
    plan, _ = planned(counts, text, way)
    worst, people = Fraction(0), sum(counts)
    limits = [LIMITS[text](code, Fraction(count, people)) for code, count in enumerate(counts)]
    matrix, rng = exact(plan.operators["s"]), Random(str((counts, text, way)))
    for x, gain, over in gains(matrix, counts, plan.fitted, rng):
        limit = limits[x]
        if gain and limit is not None:
            worst = max(worst, gain / over / limit)
    return worst


def neighbours(counts: Counts) -> Iterator[Counts]:
    """One person has another value."""
    for one, other in itertools.permutations(range(len(counts)), 2):
        if counts[one]:
            yield tuple(c - (x == one) + (x == other) for x, c in enumerate(counts))


# -- sub-tables ----------------------------------------------------------------------------------


class SubTable:
    """Records of known counts, each drawn by the rows of `matrix`; all that they can show."""

    def __init__(self, counts: Sequence[int], matrix: Matrix) -> None:
        self.counts, self.matrix = tuple(counts), matrix
        self._likelihood = cache(self._likelihoods)

    def _likelihoods(self, counts: Counts) -> dict[Counts, Fraction]:
        """The law of the shown histogram, where the true one is `counts`."""
        first = next((x for x, count in enumerate(counts) if count), None)
        if first is None:
            return {(0,) * len(counts): Fraction(1)}
        found = Counter[Counts]()
        for shown, chance in self._likelihood(_without(counts, first)).items():
            for y, share in enumerate(self.matrix[first]):
                found[tuple(n + (y == at) for at, n in enumerate(shown))] += chance * share
        return found

    def posteriors(self) -> Iterator[tuple[Fraction, list[Fraction]]]:
        """Of every shown histogram and value shown in it: its chance, and what that record is."""
        for shown, chance in self._likelihood(self.counts).items():
            for y in (y for y, count in enumerate(shown) if count and chance):
                rest = _without(shown, y)
                weight = [
                    count * self.matrix[x][y] * self._likelihood(_without(self.counts, x))[rest]
                    if count
                    else Fraction(0)
                    for x, count in enumerate(self.counts)
                ]
                yield chance, [w / sum(weight) for w in weight]


def _without(counts: Counts, value: int) -> Counts:
    return tuple(count - (at == value) for at, count in enumerate(counts))


def worst_posterior(cut: SubTables, ceilings: Sequence[Fraction], most: int = 12) -> Fraction:
    """The largest posterior over its ceiling (1: none) over all that small sub-tables can show."""
    worst = Fraction(0)
    for quota, part in zip(cut.quotas, cut.operator.parts, strict=True):
        if quota.sum() <= most:
            table = SubTable(quota[list(part.codes)].tolist(), exact(part.operator))
            limits = [ceilings[code] for code in part.codes]
            for _, posterior in table.posteriors():
                pairs = zip(posterior, limits, strict=True)
                worst = max([worst, *(p / limit for p, limit in pairs if limit < 1)])
    return worst
