"""Does the order of rows tell their values? Tests whose chances hold for tables of every size.

The codes of the rows come piece by piece, in their order, and are kept as counts: memory does not
grow with the rows. If every order is equally likely, then

- the mean place of a value is that of as many ranks drawn without replacement,
- a stretch of rows holds a value as often as a sample without replacement, whatever its scale,
- given the rows at even places, those at odd places are dealt at random: who follows whom is a
  sample without replacement too, and how often equal values are neighbours a random matching.

So sorted tables, tables put together from sorted or unlike parts, runs and regular patterns show.
What does not is an order that only few people's places depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.chances import (
    FloatArray,
    binomial_exponents,
    chance_of,
    matching_exponents,
    rank_exponents,
)

IntArray = npt.NDArray[np.int64]
Look = tuple[FloatArray, Callable[[int], str]]  # −log chances, and what each is about

FOLDED = 256  # values that neighbours and stretches are told apart by; more share these
_STRETCHES = 128
_LEAST_STRETCH = 4  # rows


class OrderTest:
    """The rows of one column, in their order: add their codes, then look.

    >>> test = OrderTest()
    >>> test.add(np.repeat([0, 1], 200))
    >>> Told.of(test.looks("ill", ["no", "yes"]), alarm=1e-3).patterns[0]
    "yes in 'ill' among the 256 rows from row 257 on"
    """

    def __init__(self) -> None:
        self.rows = 0
        self._counts: IntArray = np.zeros(0, np.int64)
        self._places: IntArray = np.zeros(0, np.int64)  # sums of places, by code
        self._pairs: IntArray = np.zeros((2, FOLDED, FOLDED), np.int64)  # from even, odd places
        self._stretches: IntArray = np.zeros((_STRETCHES, FOLDED), np.int64)
        self._stretch = _LEAST_STRETCH
        self._last: IntArray = np.zeros(0, np.int64)

    def add(self, codes: IntArray) -> None:
        """The codes of the next rows, from 0 up."""
        if not len(codes):
            return
        places, folded = np.arange(len(codes)), codes % FOLDED
        counts = np.bincount(codes, minlength=len(self._counts))
        sums = np.bincount(codes, places, minlength=len(counts)).astype(np.int64)  # exact: < 2⁵³
        self._counts = _longer(self._counts, len(counts)) + counts
        self._places = _longer(self._places, len(counts)) + sums + self.rows * counts
        self._add_pairs(np.concatenate([self._last, folded]))
        self._last = folded[-1:]
        while (self.rows + len(codes) - 1) // self._stretch >= _STRETCHES:
            merged = self._stretches.reshape(-1, 2, FOLDED).sum(axis=1)
            self._stretches = np.concatenate([merged, np.zeros_like(merged)])
            self._stretch *= 2
        stretch = (self.rows + places) // self._stretch
        found = np.bincount(stretch * FOLDED + folded, minlength=_STRETCHES * FOLDED)
        self._stretches += found.reshape(_STRETCHES, FOLDED)
        self.rows += len(codes)

    def _add_pairs(self, sequence: IntArray) -> None:
        first, second = sequence[:-1], sequence[1:]
        begin = self.rows - len(self._last)
        parity = (begin + np.arange(len(first))) % 2
        flat = (parity * FOLDED + first) * FOLDED + second
        self._pairs += np.bincount(flat, minlength=2 * FOLDED**2).reshape(self._pairs.shape)

    def looks(self, column: str, names: list[str]) -> Iterator[Look]:
        """Every test, for the column whose codes have these names."""
        if self.rows < 2:
            return
        there = np.flatnonzero(self._counts)
        counts = self._counts[there]
        means = (self._places[there] / counts + 0.5) / self.rows
        yield (
            rank_exponents(counts, means),
            lambda k: f"the places of {names[there[k]]} in {column!r}",
        )
        yield self._equal_neighbours(), lambda _: f"equal neighbours in {column!r}"
        held = np.flatnonzero(self._stretches.any(axis=0))  # folded values

        def named(folded: int) -> str:
            return names[folded] if len(names) <= FOLDED else f"a {FOLDED}th of the values"

        def after(k: int) -> str:
            first, second = divmod(k, len(held))
            return f"{named(held[second])} after {named(held[first])} in {column!r}"

        for pairs in self._pairs[:, held][:, :, held].astype(np.float64):
            total = max(pairs.sum(), 1.0)
            trials, chance = pairs.sum(axis=1)[:, None], pairs.sum(axis=0)[None, :] / total
            exponents = binomial_exponents(pairs, trials, np.broadcast_to(chance, pairs.shape))
            yield exponents.reshape(-1), after
        for rows, stretches in self._scales(held):
            sizes = stretches.sum(axis=1, keepdims=True)
            chance = np.broadcast_to(stretches.sum(axis=0) / self.rows, stretches.shape)
            yield (
                binomial_exponents(stretches, sizes, chance).reshape(-1),
                lambda k, rows=rows: (  # type: ignore[misc]
                    f"{named(held[k % len(held)])} in {column!r} among the {rows:,} rows from row "
                    f"{k // len(held) * rows + 1:,} on"
                ),
            )

    def _equal_neighbours(self) -> FloatArray:
        """Given the rows at even places, each at an odd place counts half for either neighbour."""
        even, odd = self._pairs.astype(np.float64)
        beside = even.sum(axis=1) + odd.sum(axis=0)  # of odd places, by the even neighbour's value
        dealt = even.sum(axis=0)  # the rows at odd places
        found = (np.trace(even) + np.trace(odd)) / 2
        expected = float(dealt @ beside) / (2 * dealt.sum())
        return matching_exponents(np.array([found]), np.array([expected]))

    def _scales(self, held: IntArray) -> Iterator[tuple[int, FloatArray]]:
        """Stretches of rows, from short ones to halves of the table."""
        rows, counted = self._stretch, self._stretches[:, held].astype(np.float64)
        while rows < self.rows:
            yield rows, counted[: -(-self.rows // rows)]
            rows, counted = 2 * rows, counted.reshape(-1, 2, len(held)).sum(axis=1)


@dataclass(frozen=True)
class Told:
    """What many tests together say: the chance of the worst, and all that is less likely than told.

    `patterns` are those that tell something, the clearest first.
    """

    tests: int
    chance: float
    patterns: tuple[str, ...]

    @classmethod
    def of(cls, looks: Iterable[Look], alarm: float) -> Told:
        """Together they find something in a random order with a chance of at most `alarm`."""
        made = list(looks)
        tests = max(sum(len(exponents) for exponents, _ in made), 1)
        least = float(np.log(tests / alarm))
        found = [
            (float(exponents[place]), told(int(place)))
            for exponents, told in made
            for place in np.flatnonzero(exponents > least)
        ]
        worst = max((float(exponents.max(initial=0.0)) for exponents, _ in made), default=0.0)
        found.sort(key=lambda each: -each[0])
        return cls(tests, chance_of(worst, tests), tuple(text for _, text in found))


def _longer(array: IntArray, length: int) -> IntArray:
    return np.concatenate([array, np.zeros(length - len(array), np.int64)])
