"""Dummies: how many records the paper's buckets invent, by beta; ours invent none (H9)."""

from __future__ import annotations

import numpy as np

from papers.heterogeneous.data import People, Setting
from papers.steps import Outcome
from sfumato.draws import IntArray
from sfumato.engines.counting import take_profile
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms.heterogeneous.likeness import equation_7, likeness_layers
from sfumato.results import Cell, ResultTable


def bucket_size(counts: IntArray, beta: int) -> int:
    """The largest bucket that Algorithm 3 allows: Equation 7, values by rising support (H12).

    >>> bucket_size(np.array([6, 7, 12]), 1)
    7
    """
    ordered = np.sort(counts[counts > 0])
    sizes = range(1, int(counts.sum()) // 2 + 1)
    return max(size for size in sizes if equation_7(ordered, size) <= beta)


def dummies(tables: dict[str, People], setting: Setting) -> Outcome:
    """The paper fills the last bucket with dummies; sfumato gives the rest a layer of its own."""
    rows: list[tuple[Cell, ...]] = []
    for name, people in tables.items():
        profile = take_profile(people.table())
        histogram = next(iter(profile.histograms.values()))
        for beta in setting.likenesses:
            size = bucket_size(histogram.counts, beta)
            missing = -histogram.rows % size
            ceilings = parse_guarantee(f"beta-likeness({beta})").ceilings(histogram)
            layers = likeness_layers(histogram.counts, tuple(ceilings))
            rows.append((name, beta, size, missing, 100 * missing / histogram.rows, len(layers), 0))
    columns = ("data", "beta", "bucket", "dummies", "of the records, %", "layers, ours")
    note = (
        "A dummy can be recognised and then no longer hides anybody (errata H9); each also adds to "
        "every count that its ranges touch."
    )
    title = "Dummies that Algorithm 3 adds, and layers that sfumato makes instead"
    return [ResultTable("Dummies", title, (*columns, "dummies, ours"), rows, note=note)], []
