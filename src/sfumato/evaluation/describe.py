"""What a table is, and what a promise about it would cost, before anything is published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.columns import Range, Values, value_text
from sfumato.draws import Draws
from sfumato.engines.counting import drop_missing, take_profile
from sfumato.engines.local import choose_plan
from sfumato.engines.quasi import QuasiColumn, quasi_column
from sfumato.evaluation.describe_small_sum import describe_small_sum
from sfumato.evaluation.report_tables import ReportTable
from sfumato.guarantees import Guarantee, RhoPrivacy, parse_guarantee
from sfumato.mechanisms import Mechanism, Plan, parse_mechanism
from sfumato.operators import Operator
from sfumato.profile import Histogram, Profile
from sfumato.table import Table

_SHOWN = 10  # most and least common values shown of a long histogram


@dataclass(frozen=True)
class Description:
    """Tables and sentences about a table of people, for its steward."""

    rows: int
    tables: Sequence[ReportTable]
    notes: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "tables": [table.to_json() for table in self.tables],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return "\n\n".join([*(table.to_text() for table in self.tables), *self.notes])


Describer = Callable[[Profile, Guarantee, Plan], tuple[list[ReportTable], list[str]]]


def describe(
    table: Table, guarantee: Guarantee | str | None = None, mechanism: Mechanism | str | None = None
) -> Description:
    """Columns, histograms and, with a guarantee, what it would mean for this table.

    Raises `InfeasibleGuarantee`, as `publish` would.
    """
    profile = take_profile(table)
    tables = [_columns(table, profile)]
    tables += [_histogram(histogram) for histogram in profile.histograms.values()]
    if guarantee is None:
        tables += [_rho_table(histogram) for histogram in profile.histograms.values()]
        return Description(profile.rows, tables, [])
    promise = parse_guarantee(guarantee) if isinstance(guarantee, str) else guarantee
    way = parse_mechanism(mechanism) if isinstance(mechanism, str) else mechanism
    way, plan = choose_plan(profile, promise, way, Draws.system())
    notes = [plan.statement(promise, histogram) for histogram in profile.histograms.values()]
    notes.append("Does not protect against: " + "; ".join(promise.does_not_protect) + ".")
    notes += plan.caveats()
    for described in DESCRIBERS:
        more_tables, more_notes = described(profile, promise, plan)
        tables += more_tables
        notes += more_notes
    return Description(profile.rows, tables, [f"Mechanism: {way}.", *notes])


def describe_operators(
    profile: Profile, guarantee: Guarantee, plan: Plan
) -> tuple[list[ReportTable], list[str]]:
    """For perturbed releases: the predicted standard error of each value's total count."""
    operators: dict[str, Operator] = getattr(plan, "operators", {})
    tables = []
    for column, operator in operators.items():
        if operator.form != "uniform":
            continue
        histogram = profile.histograms[column]
        spread = predicted_stderr(operator, histogram.counts)
        order = np.argsort(-histogram.counts, kind="stable")
        rows = [
            (
                value_text(histogram.values[code]),
                int(histogram.counts[code]),
                float(spread[code]),
                float(spread[code] / histogram.counts[code]) if histogram.counts[code] else None,
            )
            for code in _ends(order)
        ]
        retention = float(getattr(operator, "retention", 0.0))
        tables.append(
            ReportTable(
                "Predicted",
                f"standard error of the count of each {column} over the whole table "
                f"(retention {retention:.4f}, condition {operator.condition():.1f})",
                (column, "count", "stderr", "relative"),
                rows,
            )
        )
    return tables, []


DESCRIBERS: list[Describer] = [describe_operators, describe_small_sum]


def predicted_stderr(operator: Operator, counts: np.ndarray) -> np.ndarray:
    """Standard error of each value's estimated count, from the operator alone. O(m²).

    Var(n̂_x) = Σ_x' n_x' Σ_y P[x', y] W[y, x]² − n_x (methods, section 1).
    """
    second = counts @ (operator.matrix() @ operator.weights() ** 2)
    return np.asarray(np.sqrt(np.maximum(second - counts, 0.0)))


def _columns(table: Table, profile: Profile) -> ReportTable:
    found: list[QuasiColumn] = []
    missing = dict.fromkeys(table.quasi, 0)
    for batch in table.batches((*table.quasi, *table.sensitive)):
        batch = drop_missing(table, batch)
        if not found:
            found = [quasi_column(table, name, batch.column(name).type) for name in table.quasi]
        for column in found:
            column.add(batch.column(column.name))
            missing[column.name] += batch.column(column.name).null_count
    rows: list[tuple[str, str, str, str, str, int]] = []
    for column in found:
        kind = str(column.type)
        domain = _domain_text(column.observed())
        rows.append((column.name, "quasi", kind, column.kind, domain, missing[column.name]))
    for name, histogram in profile.histograms.items():
        kind = str(table.type_of(name))
        absent = int(histogram.counts[-1]) if histogram.values[-1] is None else 0
        domain = f"{len(histogram.values):,} values"
        rows.append((name, "sensitive", kind, table.kinds[name], domain, absent))
    title = f"{table.label}, {profile.rows:,} rows"
    return ReportTable(
        "Columns", title, ("column", "role", "type", "kind", "domain", "missing"), rows
    )


def _domain_text(domain: Values | Range | None) -> str:
    if domain is None:
        return "more than 10,000 values"
    if isinstance(domain, Values):
        return f"{len(domain):,} values"
    return f"{domain.low} … {domain.high}"


def _ends(order: np.ndarray) -> list[int]:
    codes: list[int] = order.tolist()
    return codes if len(codes) <= 2 * _SHOWN else codes[:_SHOWN] + codes[-_SHOWN:]


def _histogram(histogram: Histogram) -> ReportTable:
    order = np.argsort(-histogram.counts, kind="stable")
    shown = _ends(order)
    rows = [
        (
            value_text(histogram.values[code]),
            int(histogram.counts[code]),
            float(histogram.counts[code] / histogram.rows),
        )
        for code in shown
    ]
    left_out = len(order) - len(shown)
    return ReportTable(
        "Histogram",
        f"{histogram.column}: {len(order):,} values, most common first",
        (histogram.column, "count", "share"),
        rows,
        note=f"({left_out:,} values between the {_SHOWN} most and the {_SHOWN} least common)"
        if left_out
        else "",
    )


def _rho_table(histogram: Histogram) -> ReportTable:
    """What uniform perturbation would retain, were every value to be covered."""
    largest = max(histogram.shares)
    rows = []
    for times in (2, 3, 5, 10):
        ceiling = largest * times
        if ceiling >= 1 or len(histogram.values) < 2:
            continue
        promise = RhoPrivacy(largest, ceiling)
        retention = (promise.gamma - 1) / (len(histogram.values) - 1 + promise.gamma)
        rows.append((str(promise), float(largest), float(ceiling), float(retention)))
    return ReportTable(
        "Possible",
        f"rho-privacy that covers every value of {histogram.column}",
        ("guarantee", "chance before", "chance after", "uniform retention"),
        rows,
        note="" if rows else "The commonest value is so common that no multiple of it is below 1.",
    )
