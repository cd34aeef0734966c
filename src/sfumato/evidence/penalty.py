"""NCP and GCP of a generalized release: how wide its ranges and sets are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.columns import Range, Values
from sfumato.engines.counting import take_profile
from sfumato.engines.whole import WholeTable
from sfumato.errors import UsageError
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms.heterogeneous.bound import least_penalty
from sfumato.release import GeneralizedRelease, Release
from sfumato.table import Table


@dataclass(frozen=True)
class Penalty:
    """The mean normalized certainty penalty of every quasi column, 0 (exact) to 1 (nothing)."""

    columns: dict[str, float]
    least: float | None = None  # no release with this promise has less, where that was computed

    @property
    def whole(self) -> float:
        """GCP: Σ NCP / (columns × records) (errata H8)."""
        return sum(self.columns.values()) / len(self.columns) if self.columns else 0.0

    def to_json(self) -> dict[str, Any]:
        return {"gcp": self.whole, "ncp": self.columns, "least": self.least}


def lower_bound(table: Table, guarantee: str) -> float:
    """No release of ranges and sets of this table that keeps the promise has a smaller GCP."""
    profile, promise = take_profile(table), parse_guarantee(guarantee)
    whole = WholeTable(table, profile, True)
    (histogram,) = profile.histograms.values()
    return least_penalty(whole.axes, whole.codes, promise.ceilings(histogram))


def release_penalty(release: Release | str | Path, raw: Table | None = None) -> Penalty:
    """NCP per column over the domains that the manifest states; of a `raw` table the bound, too.

    The bound follows from everybody's values: it is for the steward, not for a report.
    """
    opened = release if isinstance(release, Release) else Release(release)
    if not isinstance(opened, GeneralizedRelease):
        raise UsageError(
            f"Only a generalized release has ranges and sets to measure; {str(opened.path)!r} is "
            f"{opened.kind}."
        )
    penalties: dict[str, float] = {}
    for column in opened.quasi:
        names = list(opened.shown_as(column))
        table = opened.table(names)
        if column.kind == "numeric":
            assert isinstance(column.domain, Range)
            low, high = (
                np.asarray(table.column(name).cast(pa.float64(), safe=False).to_numpy())
                for name in names
            )
            span = float(column.domain.high or 0) - float(column.domain.low or 0)
            penalties[column.name] = float((high - low).mean() / span) if span and len(low) else 0.0
        else:
            sizes = pa.compute.list_value_length(table.column(column.name)).to_numpy()
            steps = len(column.domain) - 1 if isinstance(column.domain, Values) else 0
            penalties[column.name] = (
                float((sizes - 1).mean() / steps) if steps and len(sizes) else 0.0
            )
    least = None if raw is None else lower_bound(raw, opened.manifest.guarantee)
    return Penalty(penalties, least)
