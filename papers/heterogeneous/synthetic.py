"""PrivBayes beside releases, at epsilon = ln(1 + beta): its lines of Figures 8 to 10 (H20)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from papers.heterogeneous.data import People
from papers.privbayes import available, epsilon_for, privbayes
from papers.range_counts import synthetic_errors


def privbayes_errors(
    people: People,
    beta: int,
    shapes: Sequence[tuple[int, float]],
    count: int,
    kind: str = "ranges",
) -> dict[str, list[float]]:
    """Its median relative errors by shape; nothing where PrivBayes is not installed."""
    if not available():
        return {}
    columns = [*people.quasi, people.sensitive]
    records = people.records.slice(0, people.rows).select(columns)
    made = privbayes(records, epsilon_for(beta), seed=beta)
    both = pa.concat_tables([records, made])
    together = People(both, people.quasi, people.sensitive, both.num_rows)
    return {
        "PrivBayes": synthetic_errors(
            people.table(), together.table(), shapes, count=count, kind=kind
        )
    }
