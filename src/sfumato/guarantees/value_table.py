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

from sfumato.columns import Value, label, list_some, usual_text, value_text
from sfumato.errors import DataError, UsageError
from sfumato.profile import Histogram
from sfumato.textform import Parameter, decimal_text, unquoted

EVERY_OTHER = "*"  # the row that stands for all values without a row of their own
_MARKS = str.maketrans({mark: f"%{ord(mark):02X}" for mark in "%;:@'\"\n\r"})


@dataclass(frozen=True)
class ValueTable:
    """Rows of a value's name and the `numbers` behind it, None where nothing stands; the first
    `needed` have a column in every file. A kind of table may `check` a row."""

    rows: tuple[tuple[Any, ...], ...]

    numbers: ClassVar[tuple[Parameter, ...]] = ()
    needed: ClassVar[int] = 0
    usage: ClassVar[str] = ""
    nothing: ClassVar[str] = ""  # how a row is written that promises nothing

    @classmethod
    def of(cls, given: Any) -> Self | None:
        """From a text, `@` and a file, a mapping, one value or several; None for None."""
        if given is None or isinstance(given, cls):
            return given
        text, where = unquoted(given) if isinstance(given, str) else "", "the limits"
        rows: Sequence[Sequence[Any]]
        if in_file := text.startswith("@"):
            where = f"the limits file {text[1:]!r}"
            rows = cls._file_rows(Path(text[1:]), where)
        elif isinstance(given, str):
            rows = [cls._split(part.strip()) for part in text.split(";")]
        elif isinstance(given, Mapping):
            rows = [(label(value), number) for value, number in given.items()]
        else:
            rows = [(label(one),) for one in (given if isinstance(given, Iterable) else [given])]
        rows = [(usual_text(row[0]), *row[1:]) for row in rows]
        named = [row[0] for row in rows]
        if cls.usage and (not named or "" in named or len(set(named)) < len(named)):
            raise UsageError(f"{cls.usage}. Got {given!r} instead.")
        if twice := {name for name in named if named.count(name) > 1}:
            raise DataError(f"Value {min(twice)!r} stands twice in {where}. Keep one row.")
        try:
            return cls(tuple(map(cls._row, rows)))
        except UsageError as error:
            kind = DataError if in_file else UsageError
            raise kind(f"Cannot use {where}: {error}") from None

    @classmethod
    def _split(cls, part: str) -> Sequence[str]:
        """A row of the text form. The value's own colons are written `%3A`, or are before the one
        number that there is."""
        value, *numbers = part.rsplit(":", len(cls.numbers))
        if len(numbers) > 1 and ":" in value:
            form = ":".join(["value", *(number.name for number in cls.numbers)])
            raise UsageError(f"Cannot read {part!r}. Write {form}.")
        return unquote(value), *numbers

    @classmethod
    def _row(cls, row: Sequence[Any]) -> tuple[Any, ...]:
        value, *given = row
        given += [""] * (len(cls.numbers) - len(given))
        return cls.check(value, *(
            None if number in ("", None) else parameter.read(number, repr(value))
            for number, parameter in zip(given, cls.numbers, strict=True)
        ))  # fmt: skip

    @classmethod
    def check(cls, value: str, *numbers: Fraction | None) -> tuple[Any, ...]:
        """The row, or a `UsageError`."""
        return (value, *numbers)

    @classmethod
    def _file_rows(cls, path: Path, where: str) -> list[list[str]]:
        """The columns of a CSV file, stripped; '' where nothing stands."""
        names = ["value", *(number.name for number in cls.numbers)]
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                reader = csv.DictReader(file, skipinitialspace=True)
                reader.fieldnames = [name.strip() for name in reader.fieldnames or []]
                missing = [n for n in names[: cls.needed + 1] if n not in reader.fieldnames]
                rows = [[(row.get(name) or "").strip() for name in names] for row in reader]
        except (OSError, ValueError, csv.Error) as error:
            raise DataError(f"Cannot read {where}: {error}.") from None
        if missing or not rows:
            needed = ", ".join(names[: cls.needed + 1])
            raise DataError(f"Cannot use {where}: it needs the columns {needed}, and rows.")
        return rows

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(row[0] for row in self.rows)

    def for_values(self, values: Iterable[Value]) -> list[Any]:
        """The row of each value, that of `*` where it has none of its own, else None."""
        rows = {row[0]: row for row in self.rows}
        return [rows.get(label(value), rows.get(EVERY_OTHER)) for value in values]

    def for_domain(self, histogram: Histogram, *, every: bool = True) -> list[Any]:
        """The same, where every value has a row (if `every` one needs it) and every row a value;
        `DataError` elsewhere."""
        rows, names = {*self.labels}, {label(value): value for value in histogram.values}
        missing = [value_text(value) for name, value in names.items() if name not in rows]
        foreign = [repr(row) for row in sorted(rows - {*names, EVERY_OTHER})]
        if every and EVERY_OTHER not in rows and missing:
            problem = f"have no row for {list_some(missing)}"
        elif foreign:
            problem = f"name {list_some(foreign)}, which the column does not have"
        else:
            return self.for_values(histogram.values)
        raise DataError(
            f"The limits for column {histogram.column!r} {problem}. Give every value a row "
            f"({self.nothing} promises nothing), or add a row for '*'."
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

    numbers: ClassVar[tuple[Parameter, ...]] = (Parameter("limit", above=0, most=1),)
    needed: ClassVar[int] = 1
    nothing: ClassVar[str] = "a limit of 1"

    @classmethod
    def check(cls, value: str, *numbers: Fraction | None) -> tuple[Any, ...]:
        if None in numbers:
            raise UsageError(
                f"cannot read the limit of {value!r}. Write value:limit with ';' between values."
            )
        return value, *numbers


class Limit(NamedTuple):
    """What is promised about one value; `rho1` and `rho2` None: nothing, by the steward's word."""

    value: str
    rho1: Fraction | None
    rho2: Fraction | None

    @property
    def gamma(self) -> Fraction | None:
        """Equation 66."""
        if self.rho1 is None or self.rho2 is None:
            return None
        return self.rho2 * (1 - self.rho1) / (self.rho1 * (1 - self.rho2))


@dataclass(frozen=True)
class ChanceLimits(ValueTable):
    """Chances before and after by value.

    >>> limits = ChanceLimits.of("HIV:0.01:0.05;flu:1/3:0.5;*")
    >>> str(limits), limits.rows[1].gamma
    ("'HIV:0.01:0.05;flu:1/3:0.5;*'", Fraction(2, 1))
    """

    numbers: ClassVar[tuple[Parameter, ...]] = (
        Parameter("rho1", above=0, below=1),
        Parameter("rho2", above=0, below=1),
    )
    needed: ClassVar[int] = 2
    nothing: ClassVar[str] = "empty rho1 and rho2"

    @classmethod
    def check(cls, value: str, *numbers: Fraction | None) -> Limit:
        row = Limit(value, *numbers)
        if (row.rho1 is None) != (row.rho2 is None) or not (row.rho1 or 0) < (row.rho2 or 1):
            raise UsageError(
                f"Value {value!r} needs rho1 < rho2 (chance before, chance after), or neither if "
                "nothing is promised about it."
            )
        return row

    def for_values(self, values: Iterable[Value]) -> list[Limit]:
        """None is promised anything about that has no row."""
        return [row or Limit(EVERY_OTHER, None, None) for row in super().for_values(values)]


def _written(value: str) -> str:
    """A value in the text form: marks, and spaces at its ends, as in a web address."""
    inner = value.strip()
    start = value.index(inner) if inner else len(value)
    ends = value[:start], value[start + len(inner) :]
    before, after = (quote(end, safe="") for end in ends)
    return before + inner.translate(_MARKS) + after
