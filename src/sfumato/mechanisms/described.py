"""What a perturbed release would answer well and badly, told from its plan."""

from __future__ import annotations

import numpy as np

from sfumato.columns import value_text
from sfumato.mechanisms.protocol import PlanTable
from sfumato.operators.base import FloatArray, Operator
from sfumato.profile import Histogram

SHOWN = 10  # most and least common values shown of a long histogram


def staying(operator: Operator) -> FloatArray:
    """By value: how often it stays as it was."""
    kept = getattr(operator, "retentions", None)
    return np.diag(operator.matrix()) if kept is None else kept + (1 - kept) / len(kept)


def predicted_table(
    histogram: Histogram,
    stays: FloatArray,
    spread: FloatArray,
    all_staying: float,
    condition: float,
) -> PlanTable:
    """Per value: how often it stays, and the predicted error of its count over the table."""
    order = np.argsort(-histogram.counts, kind="stable").tolist()
    shown = order if len(order) <= 2 * SHOWN else order[:SHOWN] + order[-SHOWN:]
    rows: list[tuple[str | int | float | None, ...]] = [
        (
            value_text(histogram.values[code]),
            int(histogram.counts[code]),
            float(stays[code]),
            float(spread[code]),
            float(spread[code] / histogram.counts[code]) if histogram.counts[code] else None,
        )
        for code in shown
    ]
    left_out = len(order) - len(shown)
    return PlanTable(
        "Predicted",
        f"standard error of the count of each {histogram.column} over the whole table (records "
        f"that stay as they were {all_staying:.1%}, undoing the draws multiplies errors by up to "
        f"{condition:.1f})",
        (histogram.column, "count", "stays", "stderr", "relative"),
        rows,
        note=f"({left_out:,} values between the {SHOWN} most and the {SHOWN} least common)"
        if left_out
        else "",
    )
