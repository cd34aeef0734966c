"""What is estimated of personal groups: a column, or some columns of several as one.

Perturbing whole combinations perturbs every column, and every set of columns, uniformly with the
same retention p: a record keeps all its values with chance p, or else shows any. So the unbiased
estimate of a share is the same from one column as from all of them, and what a group's sample lets
anybody estimate of a column follows from that column's counts alone (methods, section 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.reconstruction.groups import PersonalGroups
from sfumato.mechanisms.reconstruction.levels import Bound, Level, exact_levels
from sfumato.mechanisms.reconstruction.prediction import published_moments
from sfumato.mechanisms.reconstruction.simple import (
    MOST_SAMPLED,
    reach_simply,
    simple_moments,
    simply_private,
)
from sfumato.mechanisms.reconstruction.tails import FloatArray, Reach, Setting
from sfumato.mechanisms.reconstruction.testing import private_cells, violations, worst_tail

_FEW = 64  # up to so many records other numbers than the levels' are tried


@dataclass(frozen=True, eq=False)
class Look:
    """Groups by the values of some columns. `promised` says whether the promise is about them;
    `simply`, whether samples are simple random ones, and not rounded for this column."""

    names: tuple[str, ...]
    groups: PersonalGroups
    setting: Setting
    levels: tuple[Level, ...]
    simply: bool = False
    promised: bool = True

    @property
    def title(self) -> str:
        return " and ".join(self.names)

    @property
    def reach(self) -> Reach | None:
        return reach_simply if self.simply else None

    def worst(self, samples: IntArray) -> tuple[FloatArray, BoolArray]:
        """Per published group: the smaller exact tail of its commonest value, and what is kept."""
        return worst_tail(self.groups, samples, self.setting, self.reach)

    def moments(self, samples: IntArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of every value's published count."""
        of = simple_moments if self.simply else published_moments
        return of(self.groups, samples, self.setting)

    def exposed(self, bound: Bound, setting: Setting | None = None) -> tuple[float, float]:
        """v_g and v_r: the shares of groups and of people that perturbation alone exposes."""
        found = violations(self.groups, setting or self.setting, bound)
        people = self.groups.sizes
        return float(found.mean()), float(people[found].sum() / people.sum())


def column_sets(columns: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Every column by itself, then all sets of several, by place.

    >>> list(column_sets("abc"))
    [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    """
    for many in range(1, len(columns) + 1):
        yield from combinations(range(len(columns)), many)


def seen_codes(sizes: Sequence[int], chosen: Sequence[int]) -> tuple[IntArray, int]:
    """By combination of all columns the combination of some, and how many of these there are."""
    codes = np.unravel_index(np.arange(int(np.prod(sizes))), tuple(sizes))
    some = tuple(sizes[place] for place in chosen)
    return np.ravel_multi_index(tuple(codes[place] for place in chosen), some), int(np.prod(some))


def simple_levels(setting: Setting) -> tuple[Level, ...]:
    """The levels of simple random samples: from the promise and the operator alone."""
    return exact_levels(setting, simply_private, MOST_SAMPLED)


def choose_together(looks: Sequence[Look]) -> IntArray:
    """How many records of each group to perturb, so that all promised looks keep the promise.

    The largest of the levels' numbers, of whichever look, that the exact tails of all these allow;
    all records of a group that has no more. So a number tells as little as levels do. Where none
    will do, the largest other one that they allow, 0 if there is none. (It need not be the least
    of the looks' own numbers: a rare value may need more records to be misjudged both ways.)
    """
    groups, promised = looks[0].groups, [look for look in looks if look.promised]
    most = np.min([_most_private(look) for look in promised], axis=0)
    numbers = {level.sample for look in looks for level in look.levels} - {0}
    usual = sorted((n for n in numbers if n <= most.max(initial=0)), reverse=True)
    others = [n for n in range(min(_FEW, int(most.max(initial=0))), 0, -1) if n not in numbers]
    samples = np.zeros(len(groups), np.int64)
    for run in groups.blocks():
        chosen, sizes, limit = (
            np.zeros(run.stop - run.start, np.int64),
            groups.sizes[run],
            most[run],
        )
        for number in (*usual, *others):
            tried = np.minimum(sizes, number)
            tried = np.where((chosen == 0) & (tried <= limit), tried, 0)
            if tried.any():
                chosen += np.where(_allowed(promised, run, tried), tried, 0)
        samples[run] = chosen
    return samples


def _most_private(look: Look) -> IntArray:
    """By group: more records than that tell its commonest value too well. Were three of a sample
    expected to show it, shares would be too well known for any promise (as levels have it)."""
    setting, share = look.setting, look.groups.largest / look.groups.sizes
    shown = float(setting.retention) * share + float(setting.background)
    return np.asarray(np.minimum(np.ceil(3 / shown), MOST_SAMPLED), np.int64)


def _allowed(looks: Sequence[Look], run: slice, samples: IntArray) -> BoolArray:
    """Which groups of a run may be sampled to so many records, of those with any."""
    found = samples > 0
    for look in looks:
        owner, _, counts = look.groups.block(run)
        cells = found[owner]
        which = owner[cells]
        passed = private_cells(
            look.setting,
            "exact",
            look.groups.sizes[run][which],
            samples[which],
            counts[cells],
            look.groups.largest[run][which],
            look.reach,
        )
        found[which[~passed]] = False
    return found
