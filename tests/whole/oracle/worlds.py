"""Draws that come out every way, and worlds: who may have what.

`outcomes` runs something again and again until every way that its draws can come out was seen, with
its chance; all others of a key stay as they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import prod
from typing import Any, TypeVar

import numpy as np

from sfumato.draws import Address, Draws, IntArray

Held = tuple[Any, ...]  # what a person has in every sensitive column
World = tuple[Held, ...]  # by person
T = TypeVar("T")
MOST_APART = 3  # of several draws that all have to succeed: more come out in two ways only


class Script:
    """What draws come out as, as far as `given`; then the first way."""

    def __init__(self, given: tuple[int, ...] = ()) -> None:
        self.given = given
        self.met: list[tuple[int, Sequence[Fraction]]] = []

    def pick(self, chances: Sequence[Fraction]) -> int:
        at = len(self.met)
        chosen = self.given[at] if at < len(self.given) else 0
        self.met.append((chosen, chances))
        return chosen


def outcomes(run: Callable[[Script], T]) -> Iterator[tuple[Fraction, T]]:
    """Everything that a run can come to, with its chance."""
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        given = waiting.pop()
        script = Script(given)
        result = run(script)
        if chance := prod((chances[chosen] for chosen, chances in script.met), start=Fraction(1)):
            yield chance, result
        before = [chosen for chosen, _ in script.met]
        for at in range(len(given), len(before)):
            others = range(1, len(script.met[at][1]))
            waiting += [(*before[:at], other) for other in others]


class Branching(Draws):
    """Draws under a key, but those whose purpose has one of the words `branched`, which a script
    says."""

    def __init__(self, key: bytes, script: Script, branched: tuple[str, ...], path: str = ""):
        super().__init__(key, origin="seeded")
        self.script, self.branched, self.path = script, branched, path

    @classmethod
    def seeded(cls, seed: int, script: Script, *branched: str) -> Branching:
        return cls(Draws.from_seed(seed)._key, script, branched)

    def child(self, purpose: str) -> Branching:
        key = super().child(purpose)._key
        return Branching(key, self.script, self.branched, f"{self.path}/{purpose}")

    def _open(self, purpose: str) -> bool:
        return any(word in f"{self.path}/{purpose}" for word in self.branched)

    def bernoulli(self, purpose: str, address: Address, probability: Fraction) -> Any:
        if not self._open(purpose):
            return super().bernoulli(purpose, address, probability)
        chances, many = (1 - probability, probability), address.count
        if many <= MOST_APART:
            return np.array([self.script.pick(chances) for _ in range(many)], np.bool_)
        every = self.script.pick((1 - probability**many, probability**many))
        return np.arange(many) >= 1 - every  # all succeed, or one does not: which tells nobody

    def below(self, purpose: str, address: Address, bound: int | IntArray) -> IntArray:
        if not self._open(purpose):
            return super().below(purpose, address, bound)
        bounds = np.broadcast_to(bound, address.count).tolist()
        return np.array([self.script.pick([Fraction(1, n)] * n) for n in bounds], np.int64)

    def order(self, purpose: str, n: int) -> IntArray:
        if not self._open(purpose):
            return super().order(purpose, n)
        return np.array(self._permutation(n), np.int64)

    def permutation(self, purpose: str, sizes: Any) -> Any:
        if not self._open(purpose):
            return super().permutation(purpose, sizes)
        return Slots([self._permutation(n) for n in np.asarray(sizes).tolist()])

    def _permutation(self, n: int) -> tuple[int, ...]:
        left, order = list(range(n)), []
        while left:  # place by place, so that no list of n! chances is made
            order.append(left.pop(self.script.pick([Fraction(1, len(left))] * len(left))))
        return tuple(order)


class Slots:
    """Permutations that are given, in the place of a keyed one."""

    def __init__(self, tables: Sequence[Sequence[int]]) -> None:
        self.sizes = np.array([len(table) for table in tables])
        self._edges = np.concatenate([[0], np.cumsum(self.sizes)])
        self._table = np.array([slot for table in tables for slot in table], np.int64)

    def __call__(self, values: Any, ranks: Any) -> IntArray:
        return self._table[self._edges[np.asarray(values)] + np.asarray(ranks)]


def arranged(values: Sequence[T]) -> list[tuple[T, ...]]:
    """All different orders."""
    if not values:
        return [()]
    rest: Callable[[T], list[T]] = lambda first: _without(values, first)  # noqa: E731
    return [(one, *others) for one in sorted(set(values)) for others in arranged(rest(one))]


def _without(values: Sequence[T], one: T) -> list[T]:
    left = list(values)
    left.remove(one)
    return left


def fitting(
    world: World, buckets: Sequence[int], some: Sequence[int] | None = None
) -> Iterator[World]:
    """All worlds that fit what buckets list; of `some` buckets, everybody else as they are."""
    chosen = sorted(set(buckets)) if some is None else some
    members = [[p for p, b in enumerate(buckets) if b == bucket] for bucket in chosen]
    orders = [arranged([world[p] for p in people]) for people in members]
    for arrangement in itertools.product(*orders):
        other = list(world)
        for people, values in zip(members, arrangement, strict=True):
            for person, held in zip(people, values, strict=True):
                other[person] = held
        yield tuple(other)
