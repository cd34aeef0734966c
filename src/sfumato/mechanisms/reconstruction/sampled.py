"""The plan that perturbs a sample of every personal group and publishes copies of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sfumato.draws import BoolArray, Draws, IntArray
from sfumato.mechanisms.perturbed import relative_error
from sfumato.mechanisms.protocol import CellPlan, Emitted, PublishedQuasi
from sfumato.mechanisms.reconstruction.drawing import draw_block
from sfumato.mechanisms.reconstruction.groups import PersonalGroups
from sfumato.mechanisms.reconstruction.levels import Level, levels
from sfumato.mechanisms.reconstruction.tails import FloatArray, Setting
from sfumato.mechanisms.reconstruction.testing import choose_samples, worst_tail
from sfumato.operators import Uniform
from sfumato.profile import Histogram
from sfumato.public import Public, PublicPlan, fitted, from_stated

_STEP = 1.1  # between the scales of parts


@dataclass(frozen=True, eq=False)
class SampledPlan(CellPlan):
    """`samples[g]` records of group g are perturbed: its size where it stays whole, 0 where it is
    not published. The group's copies make up the rest."""

    histogram: Histogram
    operator: Uniform
    setting: Setting
    groups: PersonalGroups
    samples: IntArray

    kind: ClassVar[str] = "perturbed"

    @property
    def levels(self) -> tuple[Level, ...]:
        """The ladder that samples follow: it follows from the promise and the operator."""
        return levels(self.setting)

    @property
    def operators(self) -> Mapping[str, Uniform]:
        return {self.histogram.column: self.operator}

    @property
    def withheld(self) -> int:  # type: ignore[override]
        return int(self.groups.sizes[self.samples == 0].sum())

    @property
    def suppressed(self) -> int:
        """Groups that are not published."""
        return int((self.samples == 0).sum())

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """For each part: at most so many published records stand for one that was perturbed."""
        return part_scales(self.groups.sizes, self.samples)

    @property
    def inflation(self) -> float:
        """By how much the perturbation's variance grows: Σ|g|·(|g|/n)/Σ|g| (errata R12)."""
        kept = self.samples > 0
        sizes = self.groups.sizes[kept].astype(np.float64)
        return float((sizes**2 / self.samples[kept]).sum() / max(sizes.sum(), 1.0))

    def quasi(self) -> list[PublishedQuasi]:
        return [
            PublishedQuasi(m.column, m.labels() if m.changes else m.domain, m.changes)
            for m in self.groups.merges
        ]

    def parts(self, groups: IntArray) -> IntArray:
        """The part of these groups."""
        return parts_of(self.groups.sizes[groups], self.samples[groups], self.scales)

    def emit(self, draws: Draws) -> Iterator[Emitted]:
        for run in self.groups.blocks():
            drawn = draw_block(self.groups, self.samples, run, self.operator, draws)
            yield Emitted(
                self.groups.codes(drawn.groups),
                {self.histogram.column: drawn.values},
                {"part": self.parts(drawn.groups)},
                drawn.counts,
            )

    def public(self) -> PublicPlan:
        sampling = {
            "levels": [level.to_json() for level in self.levels],
            "scales": list(self.scales),
            "groups_suppressed": self.suppressed,
        }
        described: dict[str, Public[Any]] = {
            "operators": from_stated({self.histogram.column: self.operator.to_json()}),
            "sampling": fitted(sampling),
        }
        merged = {m.column: m.to_json() for m in self.groups.merges if m.changes}
        return described | ({"merges": fitted(merged)} if merged else {})

    def predicted_error(self) -> float:
        plain = relative_error(self.operator, self.histogram.counts.astype(np.float64))
        return float(plain * np.sqrt(self.inflation))

    def allows(self, chance: Fraction) -> bool:
        """Whether some group could be published under another chance δ."""
        setting = replace(self.setting, chance=chance)
        return bool(choose_samples(self.groups, setting, levels(setting)).any())

    def worst(self) -> tuple[FloatArray, BoolArray]:
        """Per published group: the smaller exact tail of its commonest value, and what is kept."""
        return worst_tail(self.groups, self.samples, self.setting)

    def moments(self, samples: IntArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of each value's published count, were these samples perturbed.

        T is (N/n)·O but for rounding; O is the sum of two binomials on a sample whose number of
        hits is n·f rounded down, or up with chance φ, so Var O = n f a(1−a) + n (1−f) q(1−q)
        + p² φ(1−φ) with a = p + q. Rounding T up or down adds at most 1/4. Groups that are left
        out add nothing.
        """
        groups, m = self.groups, self.setting.values
        p, q = float(self.setting.retention), float(self.setting.background)
        owner = np.repeat(np.arange(len(groups)), np.diff(groups.starts))
        kept = samples > 0
        cells = kept[owner]
        which, values, counts = owner[cells], groups.values[cells], groups.counts[cells]
        size, n = groups.sizes[which].astype(np.float64), samples[which].astype(np.float64)
        nobody = q * (1 - q) * float((groups.sizes[kept] ** 2 / samples[kept]).sum())
        sampling = (
            published_variance(size, n, counts.astype(np.float64), p, q) - q * (1 - q) * size**2 / n
        )
        mean = np.bincount(values, counts, minlength=m) * p + float(groups.sizes[kept].sum()) * q
        variance = np.bincount(values, sampling, minlength=m) + nobody
        return np.asarray(mean, np.float64), np.asarray(variance, np.float64)

    def check(self) -> None:
        sizes, kept = self.groups.sizes, self.samples > 0
        assert int(sizes.sum()) == self.histogram.rows, (int(sizes.sum()), self.histogram.rows)
        assert bool((self.samples <= sizes).all())
        scale = np.asarray(self.scales)[self.parts(np.flatnonzero(kept))]
        assert bool((scale * self.samples[kept] >= sizes[kept]).all())
        _, private = self.worst()
        assert bool(private.all()), np.argmin(private)


def published_variance(
    size: FloatArray, sample: FloatArray, count: FloatArray, p: float, q: float
) -> FloatArray:
    """Of the published count of a value that `count` records of each group have."""
    hits = sample * count / size
    phase = hits - np.floor(hits + 1e-9)
    noise = hits * (p + q) * (1 - p - q) + (sample - hits) * q * (1 - q)
    noise += p**2 * np.maximum(phase * (1 - phase), 0.0)
    return np.asarray((size / sample) ** 2 * noise + np.where(sample < size, 0.25, 0.0))


def part_scales(sizes: IntArray, samples: IntArray) -> tuple[float, ...]:
    """The scale of each part: 1 for whole groups, then 1.1, 1.21 … up to what is needed.

    Parts are groups in which about as many published records stand for one perturbed record. The
    analyst needs that number for honest standard errors, and counting copies would tell it to
    anybody (errata R2), so the release says it: at least |g|/n of the group, on a ladder, so that
    variances come out a little too large.

    >>> part_scales(np.array([3, 10, 4]), np.array([3, 8, 0]))
    (1.0, 1.1, 1.21, 1.331)
    """
    kept = samples > 0
    largest = float((sizes[kept] / samples[kept]).max(initial=1.0))
    steps = math.ceil(math.log(largest) / math.log(_STEP)) if largest > 1 else 0
    scales = [1.0] + [round(_STEP**step * (1 + 1e-12), 6) for step in range(1, steps + 1)]
    while scales[-1] < largest:  # rounding must not make a variance too small
        scales.append(round(_STEP ** len(scales), 6))
    return tuple(scales)


def parts_of(sizes: IntArray, samples: IntArray, scales: Sequence[float]) -> IntArray:
    """The part of each published group: 0 for whole groups, else the least sufficient scale.

    >>> parts_of(np.array([3, 10]), np.array([3, 8]), (1.0, 1.1, 1.21, 1.331))
    array([0, 3])
    """
    return np.asarray(np.searchsorted(scales, sizes / samples, side="left"))
