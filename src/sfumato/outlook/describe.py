"""What a table is, and what a promise about it would cost, before anything is published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sfumato.columns import Range, Values, value_text
from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan, with_cells
from sfumato.engines.counting import count_cells, drop_missing, take_profile
from sfumato.engines.quasi import QuasiColumn, quasi_column
from sfumato.guarantees import Guarantee, RhoPrivacy, parse_guarantee
from sfumato.mechanisms import Mechanism, Plan, parse_mechanism
from sfumato.outlook.describe_generalized import describe_generalized
from sfumato.outlook.describe_perturbed import describe_perturbed
from sfumato.outlook.describe_reconstruction import describe_reconstruction
from sfumato.outlook.describe_small_sum import describe_small_sum
from sfumato.pages.tables import ReportTable
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
    profile = with_cells(profile, promise, way, partial(count_cells, table))
    way, plan = choose_plan(profile, promise, way, Draws.system())
    notes = [plan.statement(promise, histogram) for histogram in profile.histograms.values()]
    notes.append("Does not protect against: " + "; ".join(promise.does_not_protect) + ".")
    notes += plan.caveats()
    for described in DESCRIBERS:
        more_tables, more_notes = described(profile, promise, plan)
        tables += more_tables
        notes += more_notes
    return Description(profile.rows, tables, [f"Mechanism: {way}.", *notes])


DESCRIBERS: list[Describer] = [
    describe_perturbed,
    describe_small_sum,
    describe_reconstruction,
    describe_generalized,
]


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
