"""Sample sizes by level: few of them, so that a size tells little about the group (errata R2).

Scaling leaves copies behind, and whoever counts copies learns how many records were sampled. Were
that number s_g itself, it would give away f, the largest share. So f is rounded up to one of a few
levels first; the number tells the level and nothing else. The levels follow from the promise and
the operator alone and are published.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.reconstruction.tails import FloatArray, Setting, tails

_GRID = 1.02  # between the shares that are tried
_FAR = 12.0  # a level reaches down to at most this fraction of its top
_LARGE = 1 << 16  # records of a large group, per record of its sample


@dataclass(frozen=True)
class Level:
    """Groups whose largest share is in (`above`, `to`] are sampled to at most `sample` records."""

    above: float
    to: float
    sample: int  # 0: no sample keeps the promise

    def to_json(self) -> dict[str, Any]:
        return {"above": self.above, "to": self.to, "sample": self.sample}


@lru_cache(maxsize=64)
def levels(setting: Setting) -> tuple[Level, ...]:
    """The levels from f = 1 down to 1/m, below which no largest share can be: from each top, the
    sample size that stays private over the longest run of shares below.

    >>> from fractions import Fraction
    >>> half = Setting(Fraction("0.3"), Fraction("0.3"), Fraction(1, 2), 50)
    >>> [level.sample for level in levels(half)]
    [1, 2, 5, 12, 61]
    """
    least = 1 / setting.values
    steps = np.arange(math.ceil(math.log(_FAR) / math.log(_GRID)))
    ladder: list[Level] = []
    top = 1.0
    while True:
        run: FloatArray = top * _GRID ** -steps.astype(np.float64)
        if run[-1] <= least:
            run = np.append(run[run > least], least)
        spread = top * float(setting.retention) + float(setting.background)
        samples = np.arange(1, math.ceil(3 / spread) + 1)
        private = _private(setting, samples, run)
        lengths = np.where(private.all(axis=1), len(run), np.argmin(private, axis=1))
        sample = 0
        if lengths.max() > 0:
            best = int(np.flatnonzero(lengths == lengths.max())[-1])  # a tie: the larger sample
            sample, last = int(samples[best]), int(lengths[best]) - 1
        elif private.any():  # wait for a share that some sample keeps private
            last = int(np.argmax(private.any(axis=0)))
        else:
            last = len(run) - 1
        if last == len(run) - 1 and run[-1] == least:
            return (*ladder, Level(0.0, top, sample))
        # the next level begins where this one ends, so that no share falls through
        below = float(run[last])
        if sample and last < len(run) - 1:
            below = _edge(setting, sample, below, float(run[last + 1]))
        below = min(below, float(run[1]))
        ladder.append(Level(below, top, sample))
        top = below


def level_of(shares: FloatArray, chosen: tuple[Level, ...]) -> IntArray:
    """The level of each largest share."""
    tops = np.array([level.to for level in reversed(chosen)])
    return np.asarray(len(chosen) - 1 - np.searchsorted(tops, shares, side="left"))


def _edge(setting: Setting, sample: int, inside: float, outside: float) -> float:
    """The least share from `inside` downwards that the sample keeps private."""
    for _ in range(12):
        middle = (inside + outside) / 2
        if _private(setting, np.array([sample]), np.array([middle]))[0, 0]:
            inside = middle
        else:
            outside = middle
    return inside


def _private(setting: Setting, samples: IntArray, shares: FloatArray) -> BoolArray:
    """Whether both tails of the commonest value reach δ in a large group; (sample, share)."""
    sample = np.repeat(samples, len(shares))
    size = sample * _LARGE
    count = np.minimum(np.rint(np.tile(shares, len(samples)) * size).astype(np.int64), size)
    chances = tails(setting, size, sample, count).both_ways(float(setting.chance))
    return chances.reshape(len(samples), len(shares))
