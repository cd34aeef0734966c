"""Columns of a release between the table and the writer, and what was published of them.

A value of a quasi-identifier is in the domain once a published record shows it, so a suppressed
record leaves no trace in it: codes keep their order and close up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from sfumato.columns import Column, Kind, Range, Role, Values
from sfumato.engines.spelling import Spelled
from sfumato.errors import DataError
from sfumato.public import Public, fitted, from_quasi, from_shown, from_stated
from sfumato.release import KINDS
from sfumato.table import Table
from sfumato.table.staging import code_type, is_coded, ordered_domain, staged, stated_values

T = TypeVar("T")
MOST_LISTED = 10_000  # domains with more values are not listed in the manifest


class ShownColumn:
    """A column of a release, to which its published records are added: numbers, dates and times,
    which are shown as they are."""

    def __init__(self, table: Table, name: str, role: Role = "quasi") -> None:
        self.name, self.role, self._table = name, role, table
        self.kind: Kind = table.kinds[name]
        self.type = table.type_of(name)
        self.stated = table.domains.get(name)
        self._merged = False
        self._spans = self.kind != "categorical" and not isinstance(self.stated, Values)
        self._seen = pa.array([], self.type)  # each value once; of a span its ends
        self._missing = self._many = False

    def add(self, array: pa.Array) -> None:
        """Note the next published records."""
        self._missing |= array.null_count > 0
        if not self._many:
            fresh = _ends(array) if self._spans else array.unique().drop_null()
            seen = pa.concat_arrays([self._seen, fresh])
            self._seen = _ends(seen) if self._spans else seen.unique()
            self._many = len(self._seen) > MOST_LISTED

    @property
    def noted(self) -> pa.Array:
        """What was noted, for another to `add`."""
        return pa.concat_arrays([self._seen, pa.nulls(int(self._missing), self.type)])

    def _observed(self) -> Values | Range | None:
        if self._spans:
            low, high = (
                (self._seen[0].as_py(), self._seen[-1].as_py()) if len(self._seen) else (None, None)
            )
            return Range(_end(low, -math.inf), _end(high, math.inf), self._missing)
        if self._many:
            return None
        ordered = self._seen.take(pc.sort_indices(self._seen)).to_pylist()
        return Values(tuple(dict.fromkeys([*ordered, *[None] * self._missing])))  # −0 is 0

    @property
    def domain(self) -> Values | Range | None:
        """The published domain, once all records have been added; None when it is too large to
        list."""
        if isinstance(self.stated, Values):
            return Values((*self.stated.values, *[None] * self._missing))
        if self.stated is not None and self._missing:
            return structs.replace(self.stated, missing=True)
        return self.stated or self._observed()

    def check(self) -> None:
        """Refuse values outside a stated domain."""
        seen, inside = self._observed(), True
        if isinstance(self.stated, Range) and isinstance(seen, Range) and seen.low is not None:
            assert self.stated.low is not None
            assert self.stated.high is not None
            assert seen.high is not None
            inside = self.stated.low <= seen.low and seen.high <= self.stated.high
        elif isinstance(self.stated, Values):
            allowed = {*self.stated.values, None}
            inside = isinstance(seen, Values) and allowed.issuperset(seen.values)
        if not inside:
            raise outside(self._table, self.name)

    def ordered(self, array: pa.Array) -> pa.Array:
        """What a file shows of these records, once all have been added."""
        return array

    def spelled(self) -> Spelled:
        """How a file shows it."""
        return Spelled(self.name)

    def column(self, lists_values: bool = False) -> Public[Column]:
        """What the manifest says of it, `lists_values` where the release shows all that occur."""
        described = self._table.column(self.name, self.role, self.domain)
        # merged values are texts of their own, no bins any more
        bins = described.bins if self.stated is not None else None
        column = structs.replace(described, kind=self.kind, type=str(self.type), bins=bins)
        if self.role == "sensitive":
            return from_domain(self._table, self.name, column, lists_values)
        return fitted(column) if self._merged else from_quasi(column)


class CodedColumn(ShownColumn):
    """Codes into `values`, in the order of `staging.ordered_domain`.

    All values of a sensitive column are published with it. `merged` values are texts that name
    classes.
    """

    def __init__(
        self,
        table: Table,
        name: str,
        values: pa.Array,
        role: Role = "quasi",
        *,
        merged: bool = False,
    ) -> None:
        super().__init__(table, name, role)
        if merged:
            self.kind, self.type, self.stated = "categorical", pa.string(), None
            self._merged = True
        self.values, self._shown = values, np.full(len(values), role == "sensitive")

    def add(self, array: pa.Array) -> None:
        self._shown[array.to_numpy()] = True

    @property
    def noted(self) -> pa.Array:
        return pa.array(np.flatnonzero(self._shown))

    @cached_property
    def _codes(self) -> pa.Array:
        """Those of the domain, but for a missing value."""
        present = self._shown[: len(self.values) - self.values.null_count]
        return pa.array(np.arange(self._stated_codes) if self.stated else np.flatnonzero(present))

    @property
    def _stated_codes(self) -> int:
        return sum(value is not None for value in stated_values(self.name, self.stated))

    @property
    def domain(self) -> Values | None:
        listed = stated_values(self.name, self.stated)
        if not listed:
            if self.role == "quasi" and len(self._codes) > MOST_LISTED:
                return None
            listed = tuple(self.values.take(self._codes).to_pylist())
        missing = self.values.null_count > 0 and bool(self._shown[-1]) and None not in listed
        return Values((*listed, *[None] * missing))

    def check(self) -> None:
        strangers = self._shown[self._stated_codes : len(self.values) - self.values.null_count]
        if self.stated and strangers.any():
            raise outside(self._table, self.name)

    def ordered(self, array: pa.Array) -> pa.Array:
        """Places in the domain, none for a missing value."""
        if len(self._codes) == len(self.values):
            return array
        return pc.take(self._places, array, boundscheck=False)

    @cached_property
    def _places(self) -> pa.Array:
        places = pc.index_in(pa.array(np.arange(len(self.values))), value_set=self._codes)
        return places.cast(code_type(len(self._codes)))

    def spelled(self) -> Spelled:
        return Spelled(self.name, self.values.take(self._codes), listed=self.domain is not None)


class ShownRows:
    """The columns of a release, and how many published rows were added to them."""

    def __init__(self, columns: Sequence[ShownColumn]) -> None:
        self.columns, self.number = columns, 0

    @staticmethod
    def of(table: Table) -> ShownRows:
        """Those of a staged table, with nothing published."""
        domains, columns = staged(table).domains, list[ShownColumn]()
        for name in table.quasi:
            coded = name in domains
            columns.append(
                CodedColumn(table, name, domains[name]) if coded else ShownColumn(table, name)
            )
        return ShownRows([*columns, *sensitive_columns(table)])

    def add(self, rows: pa.RecordBatch) -> None:
        self.number += rows.num_rows
        for column in self.columns:
            if column.role == "quasi":
                column.add(rows.column(column.name))

    def ordered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """What files show of rows, once all have been added."""
        by_name = {column.name: column for column in self.columns}
        arrays = [
            by_name[name].ordered(array) if name in by_name else array
            for name, array in zip(rows.schema.names, rows.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)


def sensitive_columns(table: Table) -> list[CodedColumn]:
    """The sensitive columns of a staged table."""
    domains = staged(table).domains
    return [CodedColumn(table, name, domains[name], "sensitive") for name in table.sensitive]


def from_domain(table: Table, name: str, what: T, lists_values: bool) -> Public[T]:
    """What follows from the domain of a sensitive column, in a release that shows all values that
    occur or does not.

    Which values occur only a stated domain does not tell; which are common enough to stay shows in
    the draws of all who have them. Of people with several rows it lists those of rows that are not
    published, too.
    """
    stated = stated_values(name, table.domains.get(name))
    recodes = table.recodes.get(name)
    counted = recodes is not None and any(step.kind.name == "rare" for step in recodes.steps)
    if stated and len(stated) == len(staged(table).domains[name]) and not counted:
        return from_stated(what)
    return from_shown(what) if lists_values and table.person is None else fitted(what)


def domains_of(table: Table, kind: str) -> dict[str, Public[None]]:
    """What the domains of the sensitive columns follow from, in a release of this kind."""
    lists = KINDS[kind].shows_values
    return {name: from_domain(table, name, None, lists) for name in table.sensitive}


def domain_of(table: Table, name: str, values: pa.Array) -> Values | Range | None:
    """The domain of a quasi-identifier of which these values are published."""
    if not is_coded(values.type):
        plain = ShownColumn(table, name)
        plain.add(values)
        return plain.domain
    domain = ordered_domain(values, stated_values(name, table.domains.get(name)))
    coded = CodedColumn(table, name, domain)
    coded.add(pc.index_in(values, value_set=domain))
    return coded.domain


def outside(table: Table, name: str) -> DataError:
    return DataError(
        f"Column {name!r} of {table.label} has values outside its stated domain. Widen the domain "
        "(--domain), or leave it out."
    )


def _ends(array: pa.Array) -> pa.Array:
    """The least and the largest of some numbers."""
    ends = pc.min_max(array)
    return pa.array([ends["min"].as_py(), ends["max"].as_py()], array.type).drop_null()


def _end(number: int | float | Decimal | None, outwards: float) -> int | float | None:
    """The end of a range as JSON can say it; a decimal is rounded `outwards`."""
    if number is None or (isinstance(number, float) and math.isnan(number)):
        return None
    if not isinstance(number, Decimal):
        return number
    near = float(number)
    return near if Decimal(near) == number else math.nextafter(near, outwards)
