"""NCP and GCP of a generalized release: how wide its ranges and sets are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato.columns import Range, Values
from sfumato.errors import UsageError
from sfumato.release import GeneralizedRelease, Release


@dataclass(frozen=True)
class Penalty:
    """The mean normalized certainty penalty of every quasi column, 0 (exact) to 1 (nothing)."""

    columns: dict[str, float]

    @property
    def whole(self) -> float:
        """GCP: Σ NCP / (columns × records) (errata H8)."""
        return sum(self.columns.values()) / len(self.columns) if self.columns else 0.0


def release_penalty(release: Release | str | Path) -> Penalty:
    """NCP per column over the domains that the manifest states."""
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
    return Penalty(penalties)
