"""Quasi columns on their way out: unchanged, in compact form, their domains noted on the way.

Texts travel as codes into one growing dictionary, in as few bytes as it needs so far. A value
enters it when a published record first shows it, so a withheld record leaves no trace in it; in the
end codes are those of the domain.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from decimal import Decimal
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from sfumato.columns import Column, Kind, Range, Values
from sfumato.engines.spelling import Spelled
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


class DictionaryColumn(QuasiColumn):
    """Texts and the like: passed on as codes into one dictionary."""

    def __init__(self, table: Table, name: str) -> None:
        super().__init__(table, name)
        self._values = pa.array([], self.type)
        self._seen: pa.Array | None = None  # the source's dictionary that `_mapping` is for
        self._mapping: pa.Array | None = None

    def add(self, array: pa.Array) -> pa.Array:
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        self.missing |= array.null_count > 0
        if self._seen is None or not self._seen.equals(array.dictionary):
            self._seen = array.dictionary
            self._mapping = self._codes_of(self._seen)
        assert self._mapping is not None
        if self._mapping.null_count and self._admit(array.indices):
            self._mapping = self._codes_of(self._seen)
        return pc.take(self._mapping, array.indices, boundscheck=False)

    def _codes_of(self, texts: pa.Array) -> pa.Array:
        found = pc.index_in(texts, value_set=self._values, skip_nulls=True)
        return found.cast(code_type(len(self._values)))

    def _admit(self, indices: pa.Array) -> bool:
        """Add the values that these records use and the dictionary lacks, in order of first use."""
        assert self._seen is not None
        assert self._mapping is not None
        used = pc.unique(indices.drop_null())  # unique keeps the order of first occurrence
        fresh = used.filter(pc.take(self._mapping, used).is_null())
        values = self._seen.take(fresh).drop_null().unique()  # foreign dictionaries may repeat
        self._values = pa.concat_arrays([self._values, values])
        return len(values) > 0

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
        places = pc.index_in(self._values, value_set=self._domain)
        return places.cast(code_type(len(self._domain)))

    def observed(self) -> Values | Range | None:
        if len(self._values) > MOST_LISTED:
            return None
        return _sorted_values(self._with_null())

    def _with_null(self) -> pa.Array:
        nulls = pa.nulls(1 if self.missing else 0, self.type)
        return pa.concat_arrays([self._values, nulls])


def code_type(values: int) -> pa.DataType:
    """The smallest type for codes of so many values.

    >>> code_type(3), code_type(70_000)
    (DataType(uint8), DataType(int32))
    """
    if values <= 1 << 8:
        return pa.uint8()
    return pa.uint16() if values <= 1 << 16 else pa.int32()


def quasi_column(table: Table, name: str) -> QuasiColumn:
    """The way out for a column: numbers and times as they are, everything else coded."""
    kind, types = table.type_of(name), pa.types
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    plain = number or types.is_temporal(kind)
    return PlainColumn(table, name) if plain else DictionaryColumn(table, name)


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
