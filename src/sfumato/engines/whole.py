"""Writing ranges and sets: all quasi columns in memory, as small integers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.columns import Column, Range, Values
from sfumato.draws import Draws, IntArray
from sfumato.engines.counting import sensitive_codes, whole_column
from sfumato.engines.run import RunOptions, Written
from sfumato.engines.shown import outside, sensitive_columns
from sfumato.engines.spelling import Spelled, sorted_rows, spell
from sfumato.errors import DataError, UsageError
from sfumato.mechanisms.generalized import Generalized, RangeCover, TablePlan
from sfumato.mechanisms.heterogeneous.ncp import Axis, NumericAxis, SetAxis
from sfumato.public import Public, from_quasi
from sfumato.release.marginals import in_cells, places, places_of, to_json
from sfumato.table import Table
from sfumato.table.staging import stage

FINE = 1 << 20  # steps of the scale on which numbers that are not whole are measured


class WholeTable:
    """The records in memory: one axis per quasi column, the sensitive codes, the domains."""

    def __init__(self, table: Table, threads: bool = True) -> None:
        self.table = stage(table, threads=threads)
        (column,) = table.sensitive
        self.codes = sensitive_codes(self.table, column)
        self.domains: dict[str, pa.Array] = {}
        self.axes: list[Axis] = [self._axis(name) for name in table.quasi]

    def _axis(self, name: str) -> Axis:
        domain, codes = whole_column(self.table, name)
        self.domains[name] = domain
        stated = self.table.domains.get(name)
        if self.table.kinds[name] == "numeric":
            return self._numeric(name, codes, domain, stated)
        number = len(domain)
        if isinstance(stated, Values):
            if not set(domain.to_pylist()) <= set(stated.values):
                raise outside(self.table, name)
            number = len(stated.values)
        return SetAxis(name, codes, len(domain), max(number - 1, 0))

    def _numeric(
        self, name: str, codes: IntArray, domain: pa.Array, stated: Values | Range | None
    ) -> NumericAxis:
        numbers = domain.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        if not np.isfinite(numbers.astype(np.float64)).all():
            raise DataError(
                f"Column {name!r} of {self.table.label} has missing or infinite numbers, which no "
                "range can show. Declare it categorical, or drop those rows."
            )
        low, high = float(numbers.min()), float(numbers.max())
        if isinstance(stated, Range) and stated.low is not None and stated.high is not None:
            if stated.low > low or stated.high < high:
                raise outside(self.table, name)
            low, high = float(stated.low), float(stated.high)
        if pa.types.is_integer(domain.type) and high - low < 1 << 31:
            positions = np.asarray(domain.cast(pa.int64()).to_numpy(), np.int64) - int(low)
            return NumericAxis(name, codes, positions, int(high) - int(low))
        span = high - low or 1.0
        positions = np.round((numbers - low) / span * FINE).astype(np.int64)
        return NumericAxis(name, codes, positions, FINE if high > low else 0)

    def columns(self, made: Generalized) -> tuple[Public[Column], ...]:
        """What the manifest says: domains as the rows show them, no trace of the withheld."""
        described = []
        for axis, cover in zip(self.axes, made.covers, strict=True):
            values = self.domains[axis.name]
            domain: Values | Range
            if isinstance(cover, RangeCover):
                low, high = int(cover.low.min()), int(cover.high.max())
                domain = Range(_number(values[low]), _number(values[high]))
            else:
                shown = values.take(pa.array(np.unique(cover.codes)))
                domain = Values(tuple(shown.to_pylist()))
            shown = self.table.domains.get(axis.name, domain)
            described.append(from_quasi(self.table.column(axis.name, "quasi", shown)))
        sensitive = sensitive_columns(self.table)
        return (*described, *(column.column(lists_values=True) for column in sensitive))

    def marginals(self, columns: Sequence[Public[Column]], least: int) -> dict[str, Any]:
        """What the manifest tells of how many people have which quasi values."""
        told = {}
        for axis, public in zip(self.axes, columns, strict=False):
            column = public.value
            if number := places(column):
                positions = places_of(column, self.domains[axis.name])
                counts = np.bincount(positions[axis.codes], minlength=number)
                told[column.name] = to_json(column, in_cells(column, counts, least))
        return told

    def records(self, made: Generalized) -> tuple[list[Spelled], pa.RecordBatch]:
        """The published rows, and how files show them."""
        columns, arrays = list[Spelled](), list[pa.Array]()
        for axis, cover in zip(self.axes, made.covers, strict=True):
            domain = self.domains[axis.name]
            if isinstance(cover, RangeCover):
                columns += [Spelled(f"{axis.name}_{end}") for end in ("low", "high")]
                arrays += [domain.take(pa.array(codes)) for codes in (cover.low, cover.high)]
                continue
            row = np.repeat(np.arange(made.rows), np.diff(cover.starts))
            codes = cover.codes[np.lexsort((cover.codes, row))]
            columns.append(Spelled(axis.name, domain))
            starts = pa.array(cover.starts.astype(np.int32))
            arrays.append(pa.ListArray.from_arrays(starts, pa.array(codes.astype(np.int32))))
        for column in sensitive_columns(self.table):
            columns.append(column.spelled())
            arrays.append(column.ordered(pa.array(self.codes[made.source].astype(np.int32))))
        names = [column.name for column in columns]
        return columns, pa.RecordBatch.from_arrays(arrays, names=names)


def write_generalized(
    folder: Path,
    table: Table,
    plan: TablePlan,
    draws: Draws,
    options: RunOptions,
) -> Written:
    """Write the records of a generalized release."""
    if not table.quasi:
        raise UsageError(
            "There are no quasi-identifiers to show as ranges and sets. Name some with --quasi, "
            "or use "
            "another mechanism."
        )
    _check_names(table)
    progress = options.progress
    whole = WholeTable(table, options.threads)
    generalized = plan.generalize(whole.axes, whole.codes, draws, progress)
    spelled, rows = whole.records(generalized)
    spell(folder, spelled, lambda: [rows])
    progress("publishing", generalized.rows, generalized.rows)
    if options.follow is not None:
        options.follow(generalized, _order(rows))
    columns, described = whole.columns(generalized), generalized.described()
    described["marginals"] = from_quasi(whole.marginals(columns, generalized.spans))
    return Written(columns, generalized.rows, described)


def _check_names(table: Table) -> None:
    names = [
        f"{name}_{end}"
        for name in table.quasi
        if table.kinds[name] == "numeric"
        for end in ("low", "high")
    ]
    taken = sorted(set(names) & {*table.quasi, *table.sensitive})
    if taken:
        raise DataError(
            f"Column {taken[0]!r} of {table.label} has the name of a column that the release adds. "
            "Rename it."
        )


def _order(rows: pa.RecordBatch) -> IntArray:
    """Where the rows of a release stood before they were sorted."""
    numbered = rows.append_column("place", pa.array(np.arange(rows.num_rows)))
    _, ordered = sorted_rows(lambda: [numbered])
    return np.concatenate([batch.columns[-1].to_numpy() for batch in ordered])


def _number(value: pa.Scalar) -> int | float:
    number = value.as_py()
    return number if isinstance(number, int | float) else float(number)
