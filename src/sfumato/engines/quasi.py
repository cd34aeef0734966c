"""Quasi columns of a staged table on their way out, their domains noted on the way.

A value is in the domain once a published record shows it, so a withheld record leaves no trace in
it; in the end codes are those of the domain.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from sfumato.columns import Column, Kind, Range, Values
from sfumato.draws import BoolArray
from sfumato.engines.spelling import Spelled
from sfumato.engines.staging import code_type, is_coded
from sfumato.errors import DataError
from sfumato.table import Table

MOST_LISTED = 10_000  # domains with more values are not listed in the manifest


class QuasiColumn(ABC):
    """One quasi column between the source and the writer."""

    def __init__(self, table: Table, name: str) -> None:
        self.name, self.label = name, table.label
        self._table = table
        self.kind: Kind = table.kinds[name]
        self.type = table.type_of(name)
        self.stated = table.domains.get(name)
        self.missing = False  # whether a null was published: it needs no place in a stated domain

    @abstractmethod
    def add(self, array: pa.Array) -> pa.Array:
        """The compact form of the next published records."""

    def ordered(self, compact: pa.Array) -> pa.Array:
        """The compact form in the order of the domain, once all records have been added."""
        return compact

    def spelled(self) -> Spelled:
        """How a file shows it."""
        return Spelled(self.name)

    @abstractmethod
    def observed(self) -> Values | Range | None:
        """The domain seen so far; None when it is too large to list."""

    def column(self) -> Column:
        """What the manifest says of the column."""
        domain = self.stated if self.stated is not None else self.observed()
        if self.missing and isinstance(self.stated, Range):
            domain = structs.replace(self.stated, missing=True)
        elif self.missing and isinstance(self.stated, Values):
            domain = Values((*self.stated.values, None))
        described = self._table.column(self.name, "quasi", domain)
        # merged values are texts of their own, no bins any more
        bins = described.bins if self.stated is not None else None
        return structs.replace(described, kind=self.kind, type=str(self.type), bins=bins)

    def check_stated(self) -> None:
        """Refuse values outside a stated domain."""
        seen = self.observed()
        inside = True
        if isinstance(self.stated, Range) and isinstance(seen, Range) and seen.low is not None:
            assert self.stated.low is not None
            assert self.stated.high is not None
            assert seen.high is not None
            inside = self.stated.low <= seen.low and seen.high <= self.stated.high
        elif isinstance(self.stated, Values):
            allowed = {*self.stated.values, None}
            inside = isinstance(seen, Values) and allowed.issuperset(seen.values)
        if not inside:
            raise DataError(
                f"Column {self.name!r} of {self.label} has values outside its stated domain. "
                "Widen the domain (--domain), or leave it out."
            )


class PlainColumn(QuasiColumn):
    """Numbers, dates and times: passed on as they are."""

    def __init__(self, table: Table, name: str) -> None:
        super().__init__(table, name)
        self._low: int | float | None = None
        self._high: int | float | None = None
        self._unique: pa.Array | None = pa.array([], self.type)
        self._listed = self.kind == "categorical" or isinstance(self.stated, Values)

    def add(self, array: pa.Array) -> pa.Array:
        self.missing |= array.null_count > 0
        if not self._listed:
            ends = pc.min_max(array)
            low, high = _end(ends["min"].as_py(), -math.inf), _end(ends["max"].as_py(), math.inf)
            if low is not None and high is not None:
                self._widen(low, high)
        elif self._unique is not None:
            self._list(array.unique())
        return array

    def observed(self) -> Values | Range | None:
        if not self._listed:
            return Range(self._low, self._high, self.missing)
        return None if self._unique is None else _sorted_values(self._unique)

    def _widen(self, low: int | float, high: int | float) -> None:
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)

    def _list(self, values: pa.Array | None) -> None:
        if self._unique is not None and values is not None:
            merged = pa.concat_arrays([self._unique, values]).unique()
            self._unique = merged if len(merged) <= MOST_LISTED else None
        else:
            self._unique = None


class CodedColumn(QuasiColumn):
    """Texts and the like, which are codes already: what is noted is which of them are published."""

    def __init__(self, table: Table, name: str) -> None:
        super().__init__(table, name)
        self._all: pa.Array | None = None
        self._used: BoolArray = np.zeros(0, np.bool_)

    def add(self, array: pa.Array) -> pa.Array:
        if self._all is None:
            self._all, self._used = array.dictionary, np.zeros(len(array.dictionary), np.bool_)
        codes = array.indices
        self.missing |= codes.null_count > 0
        self._used[codes.unique().drop_null().to_numpy()] = True
        return codes

    @property
    def _values(self) -> pa.Array:
        """Those that were published: a withheld record leaves no trace."""
        none = pa.array([], self.type)
        return none if self._all is None else self._all.filter(pa.array(self._used))

    def ordered(self, compact: pa.Array) -> pa.Array:
        return pc.take(self._places, compact, boundscheck=False)

    def spelled(self) -> Spelled:
        return Spelled(self.name, self._domain, listed=self.column().domain is not None)

    @cached_property
    def _domain(self) -> pa.Array:
        """The values in the order that the manifest lists them in, else in their own."""
        domain = self.column().domain
        if isinstance(domain, Values):
            return pa.array([value for value in domain.values if value is not None], self.type)
        return self._values.take(pc.sort_indices(self._values))

    @cached_property
    def _places(self) -> pa.Array:
        places = pc.index_in(self._all, value_set=self._domain)
        return places.cast(code_type(len(self._domain)))

    def observed(self) -> Values | Range | None:
        if int(self._used.sum()) > MOST_LISTED:
            return None
        nulls = pa.nulls(1 if self.missing else 0, self.type)
        return _sorted_values(pa.concat_arrays([self._values, nulls]))


def quasi_column(table: Table, name: str) -> QuasiColumn:
    """The way out for a column: numbers and times as they are, everything else coded."""
    return (CodedColumn if is_coded(table.type_of(name)) else PlainColumn)(table, name)


def _sorted_values(values: pa.Array) -> Values:
    ordered = values.take(pc.sort_indices(values)).to_pylist()  # a null comes last
    return Values(tuple(dict.fromkeys(ordered)))  # minus zero is zero


def _end(number: int | float | Decimal | None, outwards: float) -> int | float | None:
    """The end of a range as JSON can say it; a decimal is rounded `outwards`."""
    if number is None or (isinstance(number, float) and math.isnan(number)):
        return None
    if not isinstance(number, Decimal):
        return number
    near = float(number)
    return near if Decimal(near) == number else math.nextafter(near, outwards)
