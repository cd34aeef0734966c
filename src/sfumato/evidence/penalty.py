"""NCP and GCP of a generalized release: how wide its ranges and sets are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
        shown = [opened.table(names).column(name) for name in names]
        if isinstance(column.domain, Range):
            low, high = (end.cast(pa.float64(), safe=False).to_numpy() for end in shown)
            widths, whole = high - low, float(column.domain.high or 0) - (column.domain.low or 0)
        else:
            widths = pa.compute.list_value_length(shown[0]).to_numpy() - 1
            whole = len(column.domain) - 1 if isinstance(column.domain, Values) else 0
        penalties[column.name] = float(widths.mean() / whole) if whole and len(widths) else 0.0
    return Penalty(penalties)
