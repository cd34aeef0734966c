"""What a steward states value by value: `value:number:…` with `;` between values, or a CSV file.

One text form for all of them: in quotation marks, special characters as in a web address. It holds
the table itself, never a file's path.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import quote, unquote

from sfumato.columns import Value, list_some, value_text, value_to_json
from sfumato.errors import DataError, UsageError
from sfumato.profile import Histogram
from sfumato.textform import Parameter, decimal_text, rational, unquoted

EVERY_OTHER = "*"  # the row that stands for all values without a row of their own
STATED = "the limits"  # where a table comes from that is no file
_MARKS = str.maketrans({mark: f"%{ord(mark):02X}" for mark in "%;:@'\"\n\r"})


def label(value: Value) -> str:
    """How a table writes a value.

    >>> label(None), label("flu"), label(3)
    ('(missing)', 'flu', '3')
    """
    return "(missing)" if value is None else str(value_to_json(value))


@dataclass(frozen=True)
class ValueTable:
    """Rows of a value's name and the numbers behind it, None where nothing stands.

    A kind of table says which `columns` it has, how many of them a file `needed`s, and `check`s a
    row.
    """

    rows: tuple[tuple[Any, ...], ...]

    columns: ClassVar[tuple[str, ...]] = ("value",)
    needed: ClassVar[int] = 1
    usage: ClassVar[str] = ""

    @classmethod
    def of(cls, given: Any) -> Self | None:
        """From a text, `@` and a file, a mapping, one value or several; None for None."""
        if given is None or isinstance(given, cls):
            return given
        text = unquoted(given) if isinstance(given, str) else ""
        if text.startswith("@"):
            return cls._read(_file_rows(text[1:], cls.columns, cls.needed), _file_name(text[1:]))
        if isinstance(given, str):
            rows: list[Sequence[Any]] = [cls._split(part.strip()) for part in text.split(";")]
        elif isinstance(given, Mapping):
            rows = [(label(value), number) for value, number in given.items()]
        else:
            values = given if isinstance(given, Iterable) else [given]
            rows = [(label(value),) for value in values]
        named = [row[0] for row in rows]
        if cls.usage and (not named or "" in named or len(set(named)) < len(named)):
            raise UsageError(f"{cls.usage}. Got {given!r} instead.")
        return cls._read(rows, STATED)

    @classmethod
    def _split(cls, part: str) -> Sequence[str]:
        """A row of the text form. The value's own colons are written `%3A`, or are before the one
        number that there is."""
        value, *numbers = part.rsplit(":", len(cls.columns) - 1)
        if len(numbers) > 1 and ":" in value:
            raise UsageError(f"Cannot read {part!r}. Write {':'.join(cls.columns)}.")
        return unquote(value), *numbers

    @classmethod
    def _read(cls, rows: Iterable[Sequence[Any]], where: str) -> Self:
        found: dict[str, tuple[Any, ...]] = {}
        for row in rows:
            value, *cells = row
            if value in found:
                raise DataError(f"Value {value!r} stands twice in {where}. Keep one row.")
            cells += [""] * (len(cls.columns) - 1 - len(cells))
            try:
                numbers = [
                    None if number in ("", None) else rational(number, column)
                    for number, column in zip(cells, cls.columns[1:], strict=True)
                ]
                found[value] = cls.check(value, *numbers)
            except UsageError as error:
                kind = UsageError if where == STATED else DataError
                raise kind(f"Cannot use {where}: {error}") from None
        return cls(tuple(found.values()))

    @classmethod
    def check(cls, value: str, *numbers: Fraction | None) -> tuple[Any, ...]:
        """The row, or a `UsageError`."""
        return (value, *numbers)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(row[0] for row in self.rows)

    def by_value(self) -> dict[str, tuple[Any, ...]]:
        return {row[0]: row for row in self.rows}

    def require_fit(self, histogram: Histogram, nothing: str, *, every: bool = True) -> None:
        """Every value has a row, its own or that of `*` (if `every` one needs it), and every row a
        value; `nothing` tells how a row is written that promises nothing."""
        rows, names = set(self.labels), [label(value) for value in histogram.values]
        missing = [
            value_text(value)
            for value, name in zip(histogram.values, names, strict=True)
            if every and name not in rows and EVERY_OTHER not in rows
        ]
        foreign = [repr(row) for row in sorted(rows - {*names, EVERY_OTHER})]
        if not missing and not foreign:
            return
        problem = (
            f"have no row for {list_some(missing)}"
            if missing
            else f"name {list_some(foreign)}, which the column does not have"
        )
        raise DataError(
            f"The limits for column {histogram.column!r} {problem}. Give every value a row "
            f"({nothing} promises nothing), or add a row for '*'."
        )

    def __str__(self) -> str:
        rows = []
        for value, *numbers in self.rows:
            texts = ["" if number is None else decimal_text(number) for number in numbers]
            rows.append(":".join([_written(value), *texts]).rstrip(":"))
        return f"'{';'.join(rows)}'"


@dataclass(frozen=True)
class OpenValues(ValueTable):
    """Values that need no protection: no ceiling is set for them.

    >>> str(OpenValues.of("Not in universe; 0")), str(OpenValues.of(("a;b", None)))
    ("'Not in universe;0'", "'a%3Bb;(missing)'")
    >>> OpenValues.of(str(OpenValues.of("it's"))).labels
    ("it's",)
    """

    usage: ClassVar[str] = (
        "'open' names the values that need no protection, each once: open='none' or "
        "open='none;unknown'"
    )
    named: ClassVar[str] = "which the promise names as open"

    def codes(self, histogram: Histogram) -> list[int]:
        """Where they stand in a column's domain."""
        places = {label(value): code for code, value in enumerate(histogram.values)}
        strange = [repr(name) for name in self.labels if name not in places]
        if strange:
            there = list_some([value_text(value) for value in histogram.values])
            raise DataError(
                f"Column {histogram.column!r} has no value {list_some(strange)}, {self.named}. "
                f"Its values: {there}."
            )
        return [places[name] for name in self.labels]


OPEN = Parameter("open", form=OpenValues.of)


@dataclass(frozen=True)
class ValueCeilings(ValueTable):
    """The largest chance of each value; a row for `*` stands for every other value.

    >>> str(ValueCeilings.of("HIV:0.01;*:1/3")), str(ValueCeilings.of({"flu": 0.2}))
    ("'HIV:0.01;*:1/3'", "'flu:0.2'")
    """

    columns: ClassVar[tuple[str, ...]] = ("value", "limit")
    needed: ClassVar[int] = 2

    @classmethod
    def check(cls, value: str, *numbers: Fraction | None) -> tuple[Any, ...]:
        (limit,) = numbers
        if limit is None:
            raise UsageError(
                f"cannot read the limit of {value!r}. Write value:limit with ';' between values."
            )
        if not 0 < limit <= 1:
            raise UsageError(
                f"the limit of {value!r} must lie above 0 and be at most 1. Got "
                f"{decimal_text(limit)} instead."
            )
        return value, limit


class Limit(NamedTuple):
    """What is promised about one value; `rho1` and `rho2` None: nothing, by the steward's word."""

    value: str
    rho1: Fraction | None
    rho2: Fraction | None
    weight: Fraction | None = None

    @property
    def gamma(self) -> Fraction | None:
        """Equation 66."""
        if self.rho1 is None or self.rho2 is None:
            return None
        return self.rho2 * (1 - self.rho1) / (self.rho1 * (1 - self.rho2))


@dataclass(frozen=True)
class ChanceLimits(ValueTable):
    """Chances before and after by value, and what keeping a record of it is worth.

    >>> limits = ChanceLimits.of("HIV:0.01:0.05;flu:1/3:0.5:2;*")
    >>> str(limits), limits.rows[1].gamma
    ("'HIV:0.01:0.05;flu:1/3:0.5:2;*'", Fraction(2, 1))
    """

    columns: ClassVar[tuple[str, ...]] = ("value", "rho1", "rho2", "weight")
    needed: ClassVar[int] = 3

    @classmethod
    def check(cls, value: str, *numbers: Fraction | None) -> Limit:
        row = Limit(value, *numbers)
        if (row.rho1 is None) != (row.rho2 is None):
            raise UsageError(
                f"Value {value!r} has only one of rho1 and rho2. Give both, or neither for a value "
                "about which nothing is promised."
            )
        if row.weight is not None and row.weight < 0:
            raise UsageError(
                f"Value {value!r} has the weight {decimal_text(row.weight)}; weights are not "
                "negative."
            )
        if row.rho1 is not None and row.rho2 is not None and not 0 < row.rho1 < row.rho2 < 1:
            raise UsageError(
                f"Value {value!r} needs 0 < rho1 < rho2 < 1 (chance before, chance after). "
                f"Got rho1 = {decimal_text(row.rho1)}, rho2 = {decimal_text(row.rho2)}."
            )
        return row

    def for_values(self, values: Iterable[Value]) -> list[Limit]:
        """One limit per value; none is promised anything about that has no row."""
        listed = {row[0]: Limit(*row) for row in self.rows}
        rest = listed.get(EVERY_OTHER, Limit(EVERY_OTHER, None, None))
        return [listed.get(label(value), rest) for value in values]

    def for_domain(self, histogram: Histogram) -> list[Limit]:
        """The same, where every value has a row and every row a value; `DataError` elsewhere."""
        self.require_fit(histogram, "empty rho1 and rho2")
        return self.for_values(histogram.values)


def file_as_limits(
    name: str, positional: list[str], keywords: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Arguments of a text form, with `name(@limits.csv)` read as `name(limits=@limits.csv)`.

    >>> file_as_limits("f-privacy", ["@limits.csv"], {})
    ([], {'limits': '@limits.csv'})
    """
    if not positional or not unquoted(positional[0]).startswith("@"):
        return positional, keywords
    if len(positional) > 1 or "limits" in keywords:
        raise UsageError(f"{name} takes one file. Write {name}(@limits.csv).")
    return [], {**keywords, "limits": positional[0]}


def _written(value: str) -> str:
    """A value in the text form: marks, and spaces at its ends, as in a web address."""
    inner = value.strip()
    start = value.index(inner) if inner else len(value)
    ends = value[:start], value[start + len(inner) :]
    before, after = (quote(end, safe="") for end in ends)
    return before + inner.translate(_MARKS) + after


def _file_name(path: str) -> str:
    return f"the limits file {path!r}"


def _file_rows(path: str, columns: Sequence[str], needed: int) -> list[tuple[str, ...]]:
    """These columns of a CSV file, stripped; '' where nothing stands."""
    where, wanted = _file_name(path), set(columns[:needed])
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            reader.fieldnames = [name.strip() for name in reader.fieldnames or []]
            if not wanted <= set(reader.fieldnames):
                more = f"; it may have {', '.join(columns[needed:])}" if columns[needed:] else ""
                raise DataError(
                    f"Cannot use {where}: it needs the columns {', '.join(columns[:needed])}{more}"
                    f"; found {list_some(list(reader.fieldnames)) or 'none'}."
                )
            rows = [tuple((row.get(name) or "").strip() for name in columns) for row in reader]
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"Cannot read {where}: {error}.") from None
    if not rows:
        raise DataError(f"Cannot use {where}: it has no rows.")
    return rows
