"""Resampling (DBR): every value is redrawn from the table's overall distribution (SPLU, §3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sfumato.draws import Draws
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.odds import OddsGuarantee
from sfumato.guarantees.small_sum import SmallSum
from sfumato.mechanisms.protocol import Batch, Mechanism, Published, RecordPlan, Standing
from sfumato.profile import Histogram, Profile


@dataclass(frozen=True, eq=False)
class ResampledPlan(RecordPlan):
    """Values drawn in proportion to the histogram, whatever they were."""

    histograms: Mapping[str, Histogram]

    kind: ClassVar[str] = "synthetic"

    def apply(self, batch: Batch, draws: Draws) -> Published:
        codes = {}
        for column, histogram in self.histograms.items():
            edges = np.cumsum(histogram.counts)
            drawn = draws.below(f"resample {column}", batch.addresses[column], int(edges[-1]))
            codes[column] = np.searchsorted(edges, drawn, side="right")
        return Published(codes)

    def public(self) -> dict[str, Any]:
        return {"resampled": list(self.histograms)}

    def caveats(self) -> list[str]:
        return [
            f"Column {column!r} was redrawn from its overall distribution: its relation to every "
            "other column is gone. This is a baseline to compare with."
            for column in self.histograms
        ]

    def predicted_error(self) -> float:
        return math.inf  # a baseline: never chosen by itself

    def check(self) -> None:
        assert all(histogram.rows > 0 for histogram in self.histograms.values())


@dataclass(frozen=True)
class Resampling(Mechanism):
    """Keep nothing of a record's value but the table's distribution of values.

    What is published about a record does not depend on its value, so every promise that allows
    the table's shares themselves is kept, and counts under a condition are those of independence.

    >>> from sfumato.draws import Positions
    >>> counts = Histogram("s", tuple("ab"), np.array([9, 1]))
    >>> plan = Resampling().plan(Profile(10, {"s": counts}), None, Draws.from_seed(1))
    >>> batch = Batch({"s": np.zeros(5, np.int64)}, {}, {"s": Positions(0, 5)})
    >>> plan.apply(batch, Draws.from_seed(1)).codes["s"].tolist()
    [0, 0, 0, 1, 0]
    """

    name: ClassVar[str] = "resample"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (OddsGuarantee, SmallSum)
    sentence: ClassVar[str] = (
        "Draws values from the table's shares alone: protects most, tells no link."
    )
    standing: ClassVar[Standing] = "baseline"

    def plan(self, profile: Profile, guarantee: Guarantee | None, draws: Draws) -> ResampledPlan:
        if guarantee is not None:
            for histogram in profile.histograms.values():
                guarantee.require_feasible(histogram)
        return ResampledPlan(profile.histograms)
