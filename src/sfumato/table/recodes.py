"""The recodes there are, besides bins."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import DataError, UsageError
from sfumato.table.bins import Bins, is_number
from sfumato.table.recode import Recode, Recodes, as_texts, by_value, count_values
from sfumato.table.sources import Source
from sfumato.textform import decimal_text, rational

REST = "*"  # stands for every value that a group file does not list


def _whole(value: object, parameter: str, least: int = 1) -> int:
    number = rational(value, parameter)
    if number.denominator != 1 or number < least:
        raise UsageError(
            f"The {parameter!r} parameter must be a whole number, at least {least}. Got "
            f"{decimal_text(number)} instead."
        )
    return int(number)


@dataclass(frozen=True)
class Round(Recode):
    """To the nearest multiple of a step; halves go up.

    >>> Round("5").apply(pa.array([12, 13, None, -3])).to_pylist()
    [10, 15, None, -5]
    """

    step: Fraction

    name: ClassVar[str] = "round"
    takes: ClassVar[str] = "numbers"
    example: ClassVar[str] = "round(5)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", rational(self.step, "step"))
        if self.step <= 0:
            raise UsageError(f"round needs a step above 0. Got {decimal_text(self.step)}.")

    def fits(self, kind: pa.DataType) -> bool:
        return is_number(kind)

    def type(self, kind: pa.DataType) -> pa.DataType:
        exact = pa.types.is_integer(kind) and self.step.denominator == 1
        return pa.int64() if exact else pa.float64()

    def apply(self, array: pa.Array) -> pa.Array:
        if self.type(array.type) == pa.float64():
            numbers, step = array.cast(pa.float64(), safe=False), float(self.step)
            return pc.multiply(pc.floor(pc.add(pc.divide(numbers, step), 0.5)), step)
        numbers, whole = array.cast(pa.int64()), int(self.step)
        # the place above the multiple below it, without leaving 64 bits
        towards_zero = pc.subtract(numbers, pc.multiply(pc.divide(numbers, whole), whole))
        above = pc.if_else(pc.less(towards_zero, 0), pc.add(towards_zero, whole), towards_zero)
        up = pc.if_else(pc.greater_equal(pc.multiply(above, 2), whole), whole, 0)
        return pc.add(pc.subtract(numbers, above), up)


@dataclass(frozen=True)
class _Limit(Recode):
    limit: Fraction

    takes: ClassVar[str] = "numbers"

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", rational(self.limit, "limit"))

    def fits(self, kind: pa.DataType) -> bool:
        return is_number(kind)

    def type(self, kind: pa.DataType) -> pa.DataType:
        exact = pa.types.is_integer(kind) and self.limit.denominator == 1
        return pa.int64() if exact else pa.float64()

    def _cut(self, array: pa.Array, beyond: str) -> pa.Array:
        kind = self.type(array.type)
        numbers = array.cast(kind, safe=False)
        limit = pa.scalar(int(self.limit) if kind == pa.int64() else float(self.limit), kind)
        return pc.if_else(pc.call_function(beyond, [numbers, limit]), limit, numbers)


@dataclass(frozen=True)
class Top(_Limit):
    """Numbers above a limit are the limit: "90 and more" is 90.

    >>> Top(90).apply(pa.array([12, 95, None])).to_pylist()
    [12, 90, None]
    """

    name: ClassVar[str] = "top"
    example: ClassVar[str] = "top(90)"

    def apply(self, array: pa.Array) -> pa.Array:
        return self._cut(array, "greater")


@dataclass(frozen=True)
class Bottom(_Limit):
    """Numbers below a limit are the limit.

    >>> Bottom(18).apply(pa.array([12, 95])).to_pylist()
    [18, 95]
    """

    name: ClassVar[str] = "bottom"
    example: ClassVar[str] = "bottom(18)"

    def apply(self, array: pa.Array) -> pa.Array:
        return self._cut(array, "less")


class _OfDates(Recode):
    takes: ClassVar[str] = "dates"

    def fits(self, kind: pa.DataType) -> bool:
        return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


@dataclass(frozen=True)
class Year(_OfDates):
    """The year of a date, as a number.

    >>> import datetime
    >>> Year().apply(pa.array([datetime.date(2026, 11, 15)])).to_pylist()
    [2026]
    """

    name: ClassVar[str] = "year"
    example: ClassVar[str] = "year"

    def type(self, kind: pa.DataType) -> pa.DataType:
        return pa.int64()

    def apply(self, array: pa.Array) -> pa.Array:
        return pc.year(array)


@dataclass(frozen=True)
class Month(_OfDates):
    """The month of a date, as a text in the order of time.

    >>> import datetime
    >>> Month().apply(pa.array([datetime.date(2026, 1, 15), None])).to_pylist()
    ['2026-01', None]
    """

    name: ClassVar[str] = "month"
    example: ClassVar[str] = "month"

    def type(self, kind: pa.DataType) -> pa.DataType:
        return pa.string()

    def apply(self, array: pa.Array) -> pa.Array:
        parts = [
            pc.utf8_lpad(part.cast(pa.string()), width, "0")
            for part, width in ((pc.year(array), 4), (pc.month(array), 2))
        ]
        return pc.binary_join_element_wise(*parts, "-")


class _OfTexts(Recode):
    takes: ClassVar[str] = "texts or whole numbers"

    def fits(self, kind: pa.DataType) -> bool:
        return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))

    def type(self, kind: pa.DataType) -> pa.DataType:
        return pa.string()


@dataclass(frozen=True)
class Prefix(_OfTexts):
    """The first characters: ICD codes, post codes.

    >>> Prefix(3).apply(pa.array(["428.0", "V27", None])).to_pylist()
    ['428', 'V27', None]
    """

    length: int

    name: ClassVar[str] = "prefix"
    example: ClassVar[str] = "prefix(3)"
    needs_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", _whole(self.length, "length"))

    def apply(self, array: pa.Array) -> pa.Array:
        return by_value(array, lambda a: pc.utf8_slice_codeunits(as_texts(a), 0, self.length))


@dataclass(frozen=True)
class Groups(_OfTexts):
    """Values by the group that a CSV file or a text puts them in; `*` is every other value.

    A line of the file is a value and its groups, finest first, as in a hierarchy; `level` 1 takes
    the cell after the value. The manifest holds the groups themselves.

    >>> recode = Groups("flu:airways;asthma:airways;*:other")
    >>> recode.apply(pa.array(["flu", "HIV", None])).to_pylist()
    ['airways', 'other', None]
    """

    groups: str
    level: int = 1
    _map: Mapping[str, str] = field(default_factory=dict, init=False, compare=False, repr=False)

    name: ClassVar[str] = "groups"
    example: ClassVar[str] = "groups(@file.csv, level=1)"
    needs_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        level = _whole(self.level, "level")
        if self.groups.startswith("@"):
            groups = _read_groups(self.groups[1:], level)
        else:
            parts = [part.split(":") for part in self.groups.split(";") if part.strip()]
            if not parts or any(len(part) != 2 for part in parts):
                raise UsageError(
                    "groups takes value:group;value:group, or @ and a CSV file. Got "
                    f"{self.groups[:50]!r}."
                )
            groups = {unquote(value.strip()): unquote(group.strip()) for value, group in parts}
        written = ";".join(f"{_quoted(value)}:{_quoted(group)}" for value, group in groups.items())
        object.__setattr__(self, "groups", written)
        object.__setattr__(self, "level", 1)
        object.__setattr__(self, "_map", groups)

    def apply(self, array: pa.Array) -> pa.Array:
        listed = [value for value in self._map if value != REST]
        names = pa.array([self._map[value] for value in listed], pa.string())
        rest = pa.scalar(self._map.get(REST), pa.string())

        def grouped(values: pa.Array) -> pa.Array:
            texts = as_texts(values)
            index = pc.index_in(texts, value_set=pa.array(listed, pa.string()))
            grouped_texts = names.take(index)
            return pc.if_else(pc.and_(index.is_null(), texts.is_valid()), rest, grouped_texts)

        recoded = by_value(array, grouped)
        strangers = recoded.null_count - array.null_count
        if strangers:
            raise DataError(
                f"has values without a group, in {strangers:,} of {len(array):,} rows. Add them, "
                "or a line '*,other' for every other value."
            )
        return recoded


def _quoted(text: str) -> str:
    return quote(text, safe=" */+-_.[]<>|éèàüöäß")


def _read_groups(path: str, level: int) -> dict[str, str]:
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            lines = [[cell.strip() for cell in line] for line in csv.reader(file) if line]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise DataError(f"Cannot read the groups file {path!r}.") from None
    groups: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if len(line) <= level:
            raise DataError(
                f"Line {number} of the groups file {path!r} has no cell {level + 1}: write the "
                "value and its groups, finest first."
            )
        if groups.setdefault(line[0], line[level]) != line[level]:
            raise DataError(f"Line {number} of the groups file {path!r} repeats a value.")
    if not groups:
        raise DataError(f"The groups file {path!r} is empty.")
    return groups


@dataclass(frozen=True)
class Rare(_OfTexts):
    """Values that fewer than `people` rows have become one, which then has as many itself.

    Where the rare ones together are fewer, the next rarest join them: else the release would show
    how few they are.

    >>> people = pa.table({"ill": ["flu"] * 5 + ["HIV", "cold", "cold", "ulcer"]})
    >>> from sfumato.table.sources import find_source
    >>> kept = Rare(3).fitted(find_source(people), "ill")
    >>> kept.apply(pa.array(["flu", "HIV", "cold", None])).to_pylist()
    ['flu', 'other', 'other', None]
    """

    people: int
    other: str = "other"
    _kept: tuple[str, ...] = field(default=(), init=False, compare=False, repr=False)

    name: ClassVar[str] = "rare"
    example: ClassVar[str] = "rare(20)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "people", _whole(self.people, "people", 2))

    def fitted(self, source: Source, column: str) -> Rare:
        counts = count_values(source, column)
        kept = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
        together = counts.get(self.other, 0)
        kept.pop(self.other, None)
        while kept:
            value, count = next(reversed(kept.items()))
            if count >= self.people and (together == 0 or together >= self.people):
                break
            together += count
            kept.pop(value)
        made = replace(self)
        object.__setattr__(made, "_kept", tuple(kept))
        return made

    def apply(self, array: pa.Array) -> pa.Array:
        kept = pa.array(self._kept, pa.string())

        def merged(values: pa.Array) -> pa.Array:
            texts = as_texts(values)
            rare = pc.and_(texts.is_valid(), pc.invert(pc.is_in(texts, value_set=kept)))
            return pc.if_else(rare, pa.scalar(self.other, pa.string()), texts)

        return by_value(array, merged)


RECODES: dict[str, type[Recode]] = {
    cls.name: cls for cls in (Bins, Round, Top, Bottom, Year, Month, Prefix, Groups, Rare)
}


def parse_recode(text: str) -> Recodes:
    """
    >>> str(parse_recode("top(90) then bins(0, 18, 90)"))
    'top(90) then bins(0, 18, 90)'
    """
    return Recodes.parse(text, RECODES)
