"""What a perturbed release would answer well and badly, told before it is made."""

from __future__ import annotations

import numpy as np

from sfumato.columns import value_text
from sfumato.guarantees import Guarantee
from sfumato.mechanisms import Plan
from sfumato.mechanisms.partitioned import PartitionedPlan, SubTables
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.operators.base import FloatArray
from sfumato.pages.tables import Cell, ReportTable
from sfumato.profile import Histogram, Profile

SHOWN = 10  # most and least common values shown of a long histogram


def describe_perturbed(
    profile: Profile, guarantee: Guarantee, plan: Plan
) -> tuple[list[ReportTable], list[str]]:
    """Per value: how often it stays, and the predicted error of its count over the table."""
    tables: list[ReportTable] = []
    if isinstance(plan, PerturbedPlan):
        for column, operator in plan.operators.items():
            if operator.needs_counts:
                continue
            counts = profile.histograms[column].counts.astype(np.float64)
            kept = getattr(operator, "retentions", None)
            stays = np.diag(operator.matrix()) if kept is None else kept + (1 - kept) / len(kept)
            title = (
                f"standard error of the count of each {column} over the whole table (records that "
                f"stay as they were {plan.record_utility(column):.1%}, condition "
                f"{operator.condition():.1f})"
            )
            spread = np.sqrt(operator.variances(counts))
            tables.append(_predicted(profile.histograms[column], stays, spread, title))
    if isinstance(plan, PartitionedPlan):
        for column, cut in plan.columns.items():
            tables += _sub_tables(column, cut)
    return tables, []


def _sub_tables(column: str, cut: SubTables) -> list[ReportTable]:
    operator, by_symbol = cut.operator, cut.symbol_counts.astype(np.float64)
    kept = np.concatenate([part.operator.retentions for part in operator.parts])
    sizes = np.array([len(part.codes) for part in operator.parts])[operator.symbol_parts]
    staying = operator.total(by_symbol * (kept + (1 - kept) / sizes))
    counts = cut.histogram.counts.astype(np.float64)
    stays = np.divide(staying, counts, out=np.zeros_like(counts), where=counts > 0)
    spread = np.sqrt(operator.total(operator.variances(by_symbol)))
    rows: list[tuple[Cell, ...]] = [
        (
            number,
            int(cut.quotas[number].sum()),
            len(part.codes),
            float(part.operator.amplification()),
            float(part.operator.retentions.min()),
            float(part.operator.retentions.max()),
        )
        for number, part in enumerate(operator.parts)
    ]
    return [
        ReportTable(
            "Sub-tables",
            f"{column}: {len(operator.parts)} parts, error bound {cut.bound:.4g}",
            ("part", "records", "values", "amplification", "least retention", "largest"),
            rows,
        ),
        _predicted(
            cut.histogram,
            stays,
            spread,
            f"standard error of the count of each {column} over the whole table (records that stay "
            f"as they were {float(staying.sum() / counts.sum()):.1%}, condition "
            f"{operator.condition():.1f})",
        ),
    ]


def _predicted(
    histogram: Histogram, stays: FloatArray, spread: FloatArray, title: str
) -> ReportTable:
    order = np.argsort(-histogram.counts, kind="stable").tolist()
    shown = order if len(order) <= 2 * SHOWN else order[:SHOWN] + order[-SHOWN:]
    rows: list[tuple[Cell, ...]] = [
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
    return ReportTable(
        "Predicted",
        title,
        (histogram.column, "count", "stays", "stderr", "relative"),
        rows,
        note=f"({left_out:,} values between the {SHOWN} most and the {SHOWN} least common)"
        if left_out
        else "",
    )
