"""What all plans have in common that publish copied samples of personal groups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sfumato.columns import list_some
from sfumato.draws import IntArray
from sfumato.mechanisms.protocol import CellPlan, PlanTable, PublishedQuasi
from sfumato.mechanisms.reconstruction.described import describe_sampling
from sfumato.mechanisms.reconstruction.groups import PersonalGroups
from sfumato.mechanisms.reconstruction.levels import Bound
from sfumato.mechanisms.reconstruction.looks import Look
from sfumato.mechanisms.reconstruction.scales import part_scales, parts_of
from sfumato.operators import Uniform
from sfumato.profile import Histogram


class SampledGroups(CellPlan):
    """`samples[g]` records of group g are perturbed: its size where it stays whole, 0 where it is
    not published. The group's copies make up the rest."""

    groups: PersonalGroups
    samples: IntArray
    bound: Bound

    kind: ClassVar[str] = "perturbed"

    @property
    @abstractmethod
    def histograms(self) -> tuple[Histogram, ...]:
        """Of every sensitive column."""

    @property
    @abstractmethod
    def operators(self) -> Mapping[str, Uniform]:
        """Of every sensitive column by itself."""

    @property
    @abstractmethod
    def looks(self) -> tuple[Look, ...]:
        """What is estimated of the groups: every column first."""

    @property
    def withheld(self) -> int:  # type: ignore[override]
        return int(self.groups.sizes[self.samples == 0].sum())

    @property
    def suppressed(self) -> int:
        """Groups that are not published."""
        return int((self.samples == 0).sum())

    @property
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
        return parts_of(self.groups.sizes[groups], self.samples[groups], len(self.scales))

    def _described(self, levels: Any, **more: Any) -> dict[str, Any]:
        """The public plan, with these levels."""
        described: dict[str, Any] = {
            "operators": {column: op.to_json() for column, op in self.operators.items()},
            "sampling": {
                "bound": self.bound,
                "levels": levels,
                "scales": list(self.scales),
                "groups_suppressed": self.suppressed,
                **more,
            },
        }
        merged = {m.column: m.to_json() for m in self.groups.merges if m.changes}
        return described | ({"merges": merged} if merged else {})

    def caveats(self) -> list[str]:
        sentences = [
            "Groups of people with the same quasi values were sampled, perturbed and copied back "
            "to their size: records are not independent, and copies carry no information of their "
            "own. Standard errors take the copies into account.",
            *self._own_caveats(),
        ]
        merged = [m for m in self.groups.merges if m.changes]
        if merged:
            names = [f"{m.column} ({len(m.domain)} values to {m.count})" for m in merged]
            what = "the sensitive column" if len(self.histograms) == 1 else "a sensitive column"
            sentences.append(
                f"Quasi values that say the same about {what} were merged: {list_some(names)}."
            )
        sentences += [
            f"Column {m.column!r}: of the {m.pairs:,} pairs of values inside its merged classes, "
            f"{len(m.rejected):,} differ by the same test (merging by connected components does "
            "not see that; merge=complete does)."
            for m in merged
            if len(m.rejected)
        ]
        if self.suppressed:
            sentences.append(
                f"{self.suppressed:,} groups, {self.withheld:,} people, are left out: not even one "
                "of their records could be perturbed and published within the promise."
            )
        return sentences

    @abstractmethod
    def _own_caveats(self) -> list[str]:
        """What is to be said of this way to sample."""

    def description(self) -> tuple[list[PlanTable], list[str]]:
        return describe_sampling(self)

    def check(self) -> None:
        sizes, kept = self.groups.sizes, self.samples > 0
        for histogram in self.histograms:
            assert int(sizes.sum()) == histogram.rows, (int(sizes.sum()), histogram.rows)
        assert bool((self.samples <= sizes).all())
        scale = np.asarray(self.scales)[self.parts(np.flatnonzero(kept))]
        assert bool((scale * self.samples[kept] >= sizes[kept]).all())
        if self.bound == "exact":
            for look in self.looks:
                _, private = look.worst(self.samples)
                assert not look.promised or bool(private.all()), (look.names, np.argmin(private))
