"""Quasi columns of a staged table on their way out, their domains noted on the way.

A value is in the domain once a published record shows it, so a withheld record leaves no trace in
it; in the end codes are those of the domain.
"""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from sfumato.columns import Column, Kind, Range, Values
from sfumato.engines.spelling import Spelled
from sfumato.errors import DataError
from sfumato.table import Table
from sfumato.table.staging import code_type

MOST_LISTED = 10_000  # domains with more values are not listed in the manifest


class QuasiColumn:
    """One quasi column between the source and the writer.

    Texts and the like are codes into `values`; numbers, dates and times, without values, are passed
    on as they are. `merged` values are texts that name classes.
    """

    def __init__(
        self, table: Table, name: str, values: pa.Array | None = None, *, merged: bool = False
    ) -> None:
        self.name, self._table, self._all = name, table, values
        self.kind: Kind = "categorical" if merged else table.kinds[name]
        self.type = pa.string() if merged else table.type_of(name)
        self.stated = None if merged else table.domains.get(name)
        self.missing = False  # whether a null was published: it needs no place in a stated domain
        listed = self.kind == "categorical" or isinstance(self.stated, Values)
        self._spans = values is None and not listed
        self._seen: pa.Array | None = None  # codes or values, each once; of a span its ends
        self._many = False

    def add(self, array: pa.Array) -> None:
        """Note the next published records."""
        self.missing |= array.null_count > 0
        if self._many:
            return
        fresh = array if self._spans else array.unique().drop_null()
        if self._seen is not None:
            fresh = pa.concat_arrays([self._seen, fresh])
        if self._spans:
            ends = pc.min_max(fresh)
            fresh = pa.array([ends["min"].as_py(), ends["max"].as_py()], self.type)
        self._seen = fresh.unique()
        self._many = self._all is None and len(self._seen) > MOST_LISTED

    @property
    def noted(self) -> pa.Array | None:
        """What was noted, for another to `add`."""
        if self._seen is None or not self.missing:
            return self._seen
        return pa.concat_arrays([self._seen, pa.nulls(1, self._seen.type)])

    def ordered(self, compact: pa.Array) -> pa.Array:
        """The compact form in the order of the domain, once all records have been added."""
        return compact if self._all is None else pc.take(self._places, compact, boundscheck=False)

    def spelled(self) -> Spelled:
        """How a file shows it."""
        if self._all is None:
            return Spelled(self.name)
        return Spelled(self.name, self._domain, listed=self.column().domain is not None)

    @property
    def _values(self) -> pa.Array:
        """Those that were published."""
        if self._seen is None:
            return pa.array([], self.type)
        return self._seen if self._all is None else self._all.take(self._seen)

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
        """The domain seen so far; None when it is too large to list."""
        values = self._values
        if self._spans:
            ends = pc.min_max(values)
            low, high = _end(ends["min"].as_py(), -math.inf), _end(ends["max"].as_py(), math.inf)
            return Range(low, high, self.missing)
        if self._many or len(values) > MOST_LISTED:
            return None
        ordered = values.take(pc.sort_indices(values)).to_pylist()  # a null comes last
        return Values(tuple(dict.fromkeys([*ordered, *[None] * self.missing])))  # −0 is 0

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
            raise outside(self._table, self.name)


def outside(table: Table, name: str) -> DataError:
    return DataError(
        f"Column {name!r} of {table.label} has values outside its stated domain. Widen the domain "
        "(--domain), or leave it out."
    )


def _end(number: int | float | Decimal | None, outwards: float) -> int | float | None:
    """The end of a range as JSON can say it; a decimal is rounded `outwards`."""
    if number is None or (isinstance(number, float) and math.isnan(number)):
        return None
    if not isinstance(number, Decimal):
        return number
    near = float(number)
    return near if Decimal(near) == number else math.nextafter(near, outwards)
