"""OptRR, the thesis's other alternative (Section 5.5): operators by evolutionary search.

Huang and Du, "OptRR: Optimizing Randomized Response Schemes for Privacy-Preserving Data Mining",
ICDE 2008: matrices that no other beats both in privacy (how rarely the best guess from a published
value is right) and in utility (the mean squared error of estimated shares), under a bound on the
largest posterior. Strength Pareto selection; rows are crossed over, entries mutate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray

POPULATION = 60
MUTATION = 0.3  # the most that one entry changes, before its row is scaled to 1


def posteriors(matrices: FloatArray, shares: FloatArray) -> FloatArray:
    """Chance of the true value (row) given the published one (column), for each matrix."""
    joint = shares[:, None] * matrices
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def right_guesses(matrices: FloatArray, shares: FloatArray) -> FloatArray:
    """How often the likeliest true value behind a published one is the right one."""
    return np.asarray((shares[:, None] * matrices).max(axis=1).sum(axis=1))


def mean_squares(matrices: FloatArray, shares: FloatArray, rows: int) -> FloatArray:
    """The mean over values of the variance of a share that is estimated through the inverse."""
    weights = np.linalg.inv(matrices)
    seen = shares @ matrices
    second = np.einsum("ny,nyx->nx", seen, weights**2)
    return np.asarray((second - shares**2).mean(axis=1) / rows)


def bounded(matrices: FloatArray, shares: FloatArray, most: float) -> FloatArray:
    """Mixed with the uniform matrix as far as the bound on posteriors needs, in closed form."""
    values = len(shares)
    seen = shares @ matrices
    over = shares[:, None] * matrices - most * seen[:, None, :]
    room = ((most - shares) / values)[None, :, None]
    share = np.maximum(over, 0) / (np.maximum(over, 0) + room)
    mixed = share.max(axis=(1, 2))[:, None, None]
    return np.asarray((1 - mixed) * matrices + mixed / values)


@dataclass(frozen=True, eq=False)
class Front:
    """The matrices that the search kept, with both objectives."""

    matrices: FloatArray
    guessed: FloatArray
    squares: FloatArray

    def best_at(self, guessed: float) -> int:
        """The most useful of those that are at least as private."""
        private = self.guessed <= guessed * (1 + 1e-9)
        return int(np.argmin(np.where(private, self.squares, np.inf)))


def search(counts: IntArray, most: float, generations: int, seed: int) -> Front:
    """Evolve matrices whose largest posterior is at most `most`."""
    rng = np.random.default_rng(seed)  # a search, not protection
    rows, values = int(counts.sum()), len(counts)
    shares = counts / rows
    kept = np.linspace(0.02, 0.98, POPULATION)[:, None, None]
    alive = bounded(kept * np.eye(values) + (1 - kept) / values, shares, most)
    for _ in range(generations):
        mothers, fathers = (alive[rng.integers(0, len(alive), POPULATION)] for _ in range(2))
        from_father = rng.random((POPULATION, values, 1)) < 0.5
        children = _mutated(np.where(from_father, fathers, mothers), rng)
        every = np.concatenate([alive, bounded(children, shares, most)])
        alive = every[_fittest(right_guesses(every, shares), mean_squares(every, shares, rows))]
    return Front(alive, right_guesses(alive, shares), mean_squares(alive, shares, rows))


def _mutated(matrices: FloatArray, rng: np.random.Generator) -> FloatArray:
    """One entry of every matrix moves, and its row is scaled to 1 again."""
    made = matrices.copy()
    number, values = len(made), made.shape[1]
    which, x, y = np.arange(number), *(rng.integers(0, values, number) for _ in range(2))
    moved = made[which, x, y] + MUTATION * rng.uniform(-1, 1, number) ** 3
    made[which, x, y] = np.clip(moved, 1e-6, 1)
    made[which, x] /= made[which, x].sum(axis=1, keepdims=True)
    return made


def _fittest(guessed: FloatArray, squares: FloatArray) -> IntArray:
    """Strength Pareto: those that few strong ones dominate, sparse places first."""
    goals = np.stack([guessed, np.log(squares)], axis=1)
    no_worse = (goals[:, None] <= goals[None]).all(axis=2)
    dominates = no_worse & (goals[:, None] < goals[None]).any(axis=2)
    raw = dominates.sum(axis=1) @ dominates
    scaled = (goals - goals.min(axis=0)) / np.maximum(np.ptp(goals, axis=0), 1e-12)
    apart = np.sort(np.linalg.norm(scaled[:, None] - scaled[None], axis=2), axis=1)
    near = apart[:, min(int(np.sqrt(len(goals))), len(goals) - 1)]
    return np.argsort(raw + 1 / (2 + near), kind="stable")[:POPULATION]
