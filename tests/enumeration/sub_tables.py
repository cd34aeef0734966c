"""What a sub-table really tells: posteriors by enumeration, and by sampling where it is large."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

Shown = tuple[int, ...]


class SubTable:
    """Records of known counts, each drawn by the rows of `matrix`; all that they can show."""

    def __init__(self, counts: list[int], matrix: np.ndarray) -> None:
        self.counts, self.matrix = tuple(counts), matrix
        self._likelihood = cache(self._likelihoods)

    def _likelihoods(self, counts: Shown) -> dict[Shown, float]:
        """The law of the shown histogram, where the true one is `counts`."""
        first = next((x for x, count in enumerate(counts) if count), None)
        if first is None:
            return {(0,) * len(counts): 1.0}
        likelihoods: dict[Shown, float] = {}
        for shown, chance in self._likelihood(_without(counts, first)).items():
            for y, share in enumerate(self.matrix[first]):
                more = tuple(count + (y == index) for index, count in enumerate(shown))
                likelihoods[more] = likelihoods.get(more, 0.0) + chance * float(share)
        return likelihoods

    def posteriors(self) -> Iterator[tuple[Shown, float, int, np.ndarray]]:
        """Every shown histogram, its chance, a value shown in it, and what that record is."""
        for shown, chance in self._likelihood(self.counts).items():
            if chance <= 0:
                continue
            for y in np.flatnonzero(shown).tolist():
                rest = _without(shown, y)
                weight = [
                    count
                    * self.matrix[x, y]
                    * (self._likelihood(_without(self.counts, x)).get(rest, 0.0) if count else 0)
                    for x, count in enumerate(self.counts)
                ]
                yield shown, chance, y, np.array(weight) / sum(weight)


def _without(counts: Shown, value: int) -> Shown:
    return tuple(count - (index == value) for index, count in enumerate(counts))


def sampled_posteriors(
    counts: np.ndarray, matrix: np.ndarray, shown: np.ndarray, sweeps: int, generator
) -> np.ndarray:
    """Pr(x | whole sub-table) for a record shown as y, by [x, y]: swaps of true values.

    `shown` has one place for each record. A sweep pairs all records at random and swaps the true
    values of a pair with the chance that keeps the posterior (Metropolis).
    """
    m, n = len(counts), len(shown)
    true = np.repeat(np.arange(m), counts)
    met = np.zeros((m, m))
    logs = np.log(matrix)
    for sweep in range(-sweeps // 10, sweeps):
        order = generator.permutation(n)
        a, b = order[: n // 2], order[n // 2 : 2 * (n // 2)]
        gain = logs[true[b], shown[a]] + logs[true[a], shown[b]]
        gain -= logs[true[a], shown[a]] + logs[true[b], shown[b]]
        swap = np.log(generator.random(n // 2)) < gain
        true[a[swap]], true[b[swap]] = true[b[swap]], true[a[swap]]
        if sweep >= 0:
            met += np.bincount(true * m + shown, minlength=m * m).reshape(m, m)
    with np.errstate(invalid="ignore"):
        return met / met.sum(axis=0)
