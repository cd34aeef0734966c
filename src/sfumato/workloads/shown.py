"""The quasi columns of a release, as it shows them: values, merged values, ranges or sets.

A record *fits* a condition by a share: 0 or 1 where the release shows the value, between them where
it shows merged values that are taken as equally likely. Ranges and sets are read as people.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Column
from sfumato.draws import BoolArray, IntArray
from sfumato.errors import UsageError
from sfumato.operators.base import FloatArray
from sfumato.operators.ranges import ConditionShares
from sfumato.queries.ranges import Spanned, stored
from sfumato.release import GeneralizedRelease, Release
from sfumato.workloads.bitmaps import Bitmaps, Bits
from sfumato.workloads.conditions import Condition, OneOf
from sfumato.workloads.questions import CountQuestion


@dataclass(frozen=True, eq=False)
class ShownColumn:
    """`codes` number what the records show; `fits` says how much of each satisfies a condition."""

    codes: IntArray
    fits: Callable[[Condition], FloatArray]


class ShownQuasi:
    """The quasi columns of a release, each read on first use."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._columns: dict[str, ShownColumn] = {}
        self._spans: dict[str, Spanned] = {}
        self.bitmaps = Bitmaps(release.rows)

    def _column(self, name: str) -> ShownColumn:
        if name not in self._columns:
            self._columns[name] = _read(self._release, _quasi(self._release, name))
        return self._columns[name]

    def readings(self, question: CountQuestion) -> list[ConditionShares]:
        """What ranges and sets show of each condition."""
        release, shares = cast("GeneralizedRelease", self._release), []
        for name, condition in question.conditions.items():
            if name not in self._spans:
                self._spans[name] = Spanned.of(release, _quasi(release, name))
            shares.append(self._reading(name, condition))
        return shares

    def _reading(self, name: str, condition: Condition) -> ConditionShares:
        numeric = self._release.column(name).kind == "numeric"

        def holds(values: pa.Array) -> BoolArray:
            return condition.holds(values.cast(pa.float64()) if numeric else values)

        return self._spans[name].reading(holds, lambda: _ends(name, condition))

    def matching(self, question: CountQuestion) -> tuple[IntArray, FloatArray | None]:
        """The records that can satisfy the conditions, and how far; None where all do wholly."""
        partial: list[tuple[ShownColumn, FloatArray]] = []
        bitmaps: list[Bits] = []
        for name, condition in question.conditions.items():
            column = self._column(name)
            fits = column.fits(condition)
            if bool(((fits > 0) & (fits < 1)).any()):
                partial.append((column, fits))
            bitmaps.append(self._bits(name, condition, column, fits))
        rows = self.bitmaps.rows_of(bitmaps)
        if not partial:
            return rows, None
        weights = np.ones(len(rows))
        for column, fits in partial:
            weights *= fits[column.codes[rows]]
        return rows, weights

    def _bits(self, name: str, condition: Condition, column: ShownColumn, fits: FloatArray) -> Bits:
        return self.bitmaps.get((name, condition), lambda: (fits > 0)[column.codes])


def coded(column: pa.Array) -> tuple[IntArray, pa.Array]:
    """Codes and the different values, a missing one among them."""
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(), np.int64), encoded.dictionary


def _quasi(release: Release, name: str) -> Column:
    column = release.column(name)
    if column.role != "quasi":
        raise UsageError(f"The workload asks about {name!r}, which is no quasi-identifier.")
    return column


def _read(release: Release, column: Column) -> ShownColumn:
    codes, values = coded(stored(release, column.name))
    merged = release.merges.get(column.name)
    if merged is None:
        return ShownColumn(codes, lambda condition: condition.holds(values).astype(np.float64))
    members = {merged_value.label: merged_value.values for merged_value in merged}
    listed = [members[label] for label in values.to_pylist()]

    def fits(condition: Condition) -> FloatArray:
        return np.array([np.mean([condition.holds_json(v) for v in inside]) for inside in listed])

    return ShownColumn(codes, fits)


def _ends(name: str, condition: Condition) -> tuple[float, float]:
    if isinstance(condition, OneOf) and len(condition.values) > 1:
        raise UsageError(
            f"The list of values asked for in column {name!r} cannot be weighed against ranges of "
            "numbers that are not whole. Ask for ranges."
        )
    if isinstance(condition, OneOf):
        return float(condition.values[0]), float(condition.values[0])
    return float(condition.low), float(condition.high)
