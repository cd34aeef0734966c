"""The operators of sub-tables: as much retention as their promise leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.fine_grain import best_for_counts
from sfumato.mechanisms.partitioning.coupling import padded, posterior_odds_of_parts
from sfumato.mechanisms.partitioning.merge import part_gamma
from sfumato.operators import FineGrain, Uniform
from sfumato.operators.base import FloatArray

Limits = list[Fraction | None]
ROUNDING = 1 + 1e-9  # far above what floats lose in `posterior_odds`
# limits between what holds always and what a record's own draw allows; fine-grain takes time
UNIFORM_STEPS, FINE_STEPS = 256, 32
_AT_ONCE = 3  # steps of every sub-table that are tried together: a fourth is left in each round
_CELLS = 1 << 16  # operators by values in one array: it stays in the cache


@dataclass(frozen=True, eq=False)
class CutCounts:
    """The records of every sub-table by value, which values are covered, and their ceiling.

    `symbols` is the number of (part, value) of the column where the ceiling is for readers of the
    whole sub-table, None where it is for who reads one record of it.
    """

    counts: Sequence[IntArray]
    protected: Sequence[BoolArray]
    rho2: Fraction
    symbols: int | None

    def best_operators(self, inside: str) -> list[tuple[Uniform | FineGrain, Limits]]:
        """The operator of each part, and by how much the odds of each value may rise."""
        gammas, owns = self._gammas, self._owns
        operators: list[tuple[Uniform | FineGrain, Limits]] = []
        for number, uniform in enumerate(self._uniform):
            same: Limits = [
                gammas[number] if is_protected else None for is_protected in self.protected[number]
            ]
            operators.append((uniform, same if self.symbols is None else owns[number]))
        if inside == "uniform":
            return operators
        floats = [counts.astype(np.float64) for counts in self.counts]
        tried = [
            number
            for number, gamma in enumerate(gammas)
            if _worth_trying(gamma, owns[number], floats[number])
        ]
        for number, fine in self._most_fine(tried, owns, floats).items():
            own = floats[number]
            if fine.variances(own).sum() < operators[number][0].variances(own).sum():
                operators[number] = fine, owns[number]
        return operators

    @cached_property
    def _gammas(self) -> list[Fraction]:
        """By part: how much the odds of its commonest covered value may rise."""
        every = zip(self.counts, self.protected, strict=True)
        return [
            part_gamma(int(share[is_protected].max()), int(share.sum()), self.rho2)
            for share, is_protected in every
        ]

    @cached_property
    def _owns(self) -> list[Limits]:
        """By part: how much those of every value may, None where it is not covered."""
        owns: list[Limits] = []
        for count, protected in zip(self.counts, self.protected, strict=True):
            size, pairs = int(count.sum()), zip(count.tolist(), protected.tolist(), strict=True)
            owns.append(
                [
                    part_gamma(c, size, self.rho2) if is_protected else None
                    for c, is_protected in pairs
                ]
            )
        return owns

    @cached_property
    def _uniform(self) -> list[Uniform]:
        return self._most_uniform(self._gammas)

    def _most_uniform(self, gammas: Sequence[Fraction]) -> list[Uniform]:
        """The largest steps that keep the ceiling, found in floats and held to it exactly."""
        values = [len(counts) for counts in self.counts]
        if self.symbols is None:
            return [Uniform.for_amplification(*both) for both in zip(values, gammas, strict=True)]
        roots = [_always(gamma) for gamma in gammas]
        low, high = np.array(roots, np.float64), np.array(gammas, np.float64)

        def keep(which: IntArray, steps: IntArray) -> BoolArray:
            limit = low[which, None] + (high - low)[which, None] * (steps / UNIFORM_STEPS)
            kept = (limit - 1) / (np.array(values)[which, None] - 1 + limit)
            number = np.repeat(which, steps.shape[1])
            rows = [np.full(values[part], p) for part, p in zip(number, kept.flat, strict=True)]
            return self._keep(number, rows).reshape(steps.shape)

        steps = last_steps(len(values), UNIFORM_STEPS, _AT_ONCE, keep)
        operators, going = dict[int, Uniform](), np.arange(len(values))
        while len(going):
            assert (steps[going] >= 0).all(), "what the others show raises odds by γ at most"
            for part in going.tolist():
                at = Fraction(int(steps[part]), UNIFORM_STEPS)
                limit = roots[part] + (gammas[part] - roots[part]) * at
                operators[part] = Uniform.for_amplification(values[part], limit)
            keeps = self._keep(going, [operators[part].retentions for part in going.tolist()])
            going = going[~keeps]
            steps[going] -= 1
        return [operators[part] for part in range(len(values))]

    def _most_fine(
        self, tried: Sequence[int], owns: Sequence[Limits], floats: Sequence[FloatArray]
    ) -> dict[int, FineGrain]:
        """So for some parts, with limits by value; none for a part where no step keeps it."""
        if self.symbols is None:
            return {part: best_for_counts(owns[part], floats[part]) for part in tried}
        roots = {part: [gamma and _always(gamma) for gamma in owns[part]] for part in tried}
        operators = dict[tuple[int, int], FineGrain]()

        def keep(which: IntArray, steps: IntArray) -> BoolArray:
            number, rows = np.array(tried)[which], []
            for part, step in zip(number.tolist(), steps[:, 0].tolist(), strict=True):
                at = Fraction(step, FINE_STEPS)
                limits = [
                    gamma and root and root + (gamma - root) * at
                    for gamma, root in zip(owns[part], roots[part], strict=True)
                ]
                operators[part, step] = best_for_counts(limits, floats[part])
                rows.append(operators[part, step].retentions)
            return self._keep(number, rows)[:, None]

        steps = last_steps(len(tried), FINE_STEPS, 1, keep).tolist()
        return {
            part: operators[part, step]
            for part, step in zip(tried, steps, strict=True)
            if step >= 0
        }

    def _keep(self, number: IntArray, retentions: Sequence[FloatArray]) -> BoolArray:
        """Which of these operators keep the ceiling, each in the part of that number."""
        assert self.symbols is not None
        allowed, keeps = float(self.rho2 / (1 - self.rho2)), []
        widest = max((len(retention) for retention in retentions), default=1)
        step = max(_CELLS // widest, 1)
        for first in range(0, len(retentions), step):
            parts = number[first : first + step].tolist()
            counts = padded([self.counts[part] for part in parts])
            odds = posterior_odds_of_parts(
                counts, padded(retentions[first : first + step]), self.symbols
            )
            covered = padded([self.protected[part] for part in parts]) > 0
            keeps.append(((odds * ROUNDING <= allowed) | ~covered).all(axis=1))
        return np.concatenate(keeps) if keeps else np.zeros(0, np.bool_)


def _worth_trying(gamma: Fraction, own: Limits, floats: FloatArray) -> bool:
    """Whether own limits gain anything before the others' records are thought of."""
    uniform = Uniform.for_amplification(len(own), gamma).variances(floats).sum()
    return bool(best_for_counts(own, floats).variances(floats).sum() < uniform)


def last_steps(
    parts: int, steps: int, at_once: int, keep: Callable[[IntArray, IntArray], BoolArray]
) -> IntArray:
    """For each part the last of the steps 0 … `steps` that holds, as all before it; −1 for none.

    `keep` gets the numbers of some parts, and `at_once` steps for each, in rising order. Steps are
    taken to hold up to some point.

    >>> ends = np.array([77, -1, 256])
    >>> last_steps(3, 256, 16, lambda part, tried: tried <= ends[part, None]).tolist()
    [77, -1, 256]
    """
    low, high = np.full(parts, -1), np.full(parts, steps + 1)
    while len(open_ := np.flatnonzero(high - low > 1)):
        from_, to = low[open_, None], high[open_, None]
        part = np.arange(1, at_once + 1) / (at_once + 1)
        tried = np.clip((from_ + (to - from_) * part).astype(np.int64), from_ + 1, to - 1)
        edges = np.concatenate([from_, tried, to], axis=1)
        keeps = keep(open_, tried)
        first = np.where(keeps.all(axis=1), at_once, np.argmin(keeps, axis=1))[:, None]
        low[open_] = np.take_along_axis(edges, first, axis=1)[:, 0]
        high[open_] = np.take_along_axis(edges, first + 1, axis=1)[:, 0]
    return low


def _always(gamma: Fraction) -> Fraction:
    """A hair below √γ, which keeps the ceiling whatever is shown.

    >>> float(_always(Fraction(4)))
    1.99999...
    """
    root = Fraction(isqrt((gamma.numerator << 64) // gamma.denominator), 1 << 32)
    return root - (root - 1) / (1 << 24)
