"""Figures 15 and 16: how common the sensitive values are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from papers.perturbation.data import Microdata, zipf
from papers.steps import Outcome
from papers.tables import Series
from sfumato.results import Cell, ResultTable

RARE = 1 / 30  # the thesis's ρ1 for EDU
SKEWS = (1, 2, 3, 4)
ZIPF_VALUES = 50
NON_ZERO = 0.001  # a share that the thesis's picture still shows (errata T17)


def census(tables: Mapping[str, Microdata]) -> Outcome:
    """Figure 15: OCC is balanced, EDU skewed."""
    rows: list[tuple[Cell, ...]] = []
    lines = {}
    for name, data in tables.items():
        shares = 100 * np.sort(data.first(300_000).histogram.counts)[::-1] / 300_000
        rare = int((shares < 100 * RARE).sum())
        rows.append((name, len(shares), float(shares[0]), float(shares[-1]), rare))
        lines[name] = [(rank + 1.0, float(share)) for rank, share in enumerate(shares)]
    columns = ("data", "values", "most, %", "least, %", "values below 1/30")
    title = "Shares of the sensitive values, 300,000 records"
    return (
        [ResultTable("Figure 15", title, columns, rows)],
        [Series("Figure 15", title, "value", "share, %", lines)],
    )


def zipfian() -> Outcome:
    """Figure 16: f_i ~ i^−λ."""
    rows: list[tuple[Cell, ...]] = []
    lines = {}
    for skew in SKEWS:
        shares = zipf(ZIPF_VALUES, skew) / 300_000
        seen = int((shares >= NON_ZERO).sum())
        rows.append((skew, 100 * float(shares[0]), seen))
        lines[f"λ = {skew}"] = [(rank + 1.0, 100 * float(s)) for rank, s in enumerate(shares)]
    columns = ("lambda", "most, %", "values of 0.1 % and more")
    title = f"ZIP, m = {ZIPF_VALUES}"
    return (
        [ResultTable("Figure 16", title, columns, rows)],
        [Series("Figure 16", title, "value", "share, %", lines)],
    )
