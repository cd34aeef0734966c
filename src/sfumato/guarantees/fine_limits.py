"""The limits of fine-grain rho-privacy, one row for each value, and their text form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from urllib.parse import quote, unquote

from sfumato.columns import Value
from sfumato.errors import DataError, UsageError
from sfumato.guarantees.limit_rows import (
    EVERY_OTHER,
    check_rows_fit,
    label,
    limits_file,
    read_limit_rows,
)
from sfumato.profile import Histogram
from sfumato.textform import decimal_text, rational


@dataclass(frozen=True)
class Limit:
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

    def __str__(self) -> str:
        numbers = (self.rho1, self.rho2, self.weight)
        texts = ["" if number is None else decimal_text(number) for number in numbers]
        return ":".join([quote(self.value, safe="*"), *texts]).rstrip(":")


@dataclass(frozen=True)
class Limits:
    """The steward's limits by value, with a text form that holds the limits, not the file's path.

    The text is `value:rho1:rho2:weight` with `;` between values; values are percent-encoded, and
    empty places at the end are left out.

    >>> limits = Limits.from_text("HIV:0.01:0.05;flu:1/3:0.5:2;*")
    >>> str(limits)
    'HIV:0.01:0.05;flu:1/3:0.5:2;*'
    >>> limits.of("flu").gamma
    Fraction(2, 1)
    """

    rows: tuple[Limit, ...]

    @classmethod
    def from_text(cls, text: str) -> Limits:
        rows = []
        for part in text.split(";"):
            value, *numbers = part.strip().split(":")
            if len(numbers) > 3:
                raise UsageError(f"Cannot read the limit {part!r}. Write value:rho1:rho2:weight.")
            numbers += [""] * (3 - len(numbers))
            rows.append(_limit(unquote(value), *numbers))
        return cls(_unique(rows, "the limits"))

    @classmethod
    def from_csv(cls, path: str | Path) -> Limits:
        """Read columns value, rho1, rho2 and, if there, weight."""
        found = read_limit_rows(path, ("value", "rho1", "rho2"), ("weight",))
        where = limits_file(path)
        try:
            rows = [_limit(*row) for row in found]
        except UsageError as error:
            raise DataError(f"Cannot use {where}: {error}") from None
        return cls(_unique(rows, where))

    def of(self, value: Value) -> Limit | None:
        """The limit of a value of the domain, its own or that of `*`; None if there is neither."""
        listed = {row.value: row for row in self.rows}
        return listed.get(label(value), listed.get(EVERY_OTHER))

    def for_values(self, values: Iterable[Value]) -> list[Limit]:
        """One limit per value; none is promised anything about that has no row."""
        listed = {row.value: row for row in self.rows}
        rest = listed.get(EVERY_OTHER, Limit(EVERY_OTHER, None, None))
        return [listed.get(label(value), rest) for value in values]

    def for_domain(self, histogram: Histogram) -> list[Limit]:
        """The same, where every value has a row and every row a value; `DataError` elsewhere."""
        check_rows_fit([row.value for row in self.rows], histogram, "empty rho1 and rho2")
        return self.for_values(histogram.values)

    def __str__(self) -> str:
        return ";".join(str(row) for row in self.rows)


def _limit(value: str, rho1: str, rho2: str, weight: str) -> Limit:
    if bool(rho1) != bool(rho2):
        raise UsageError(
            f"Value {value!r} has only one of rho1 and rho2. Give both, or neither for a value "
            "about which nothing is promised."
        )
    scale = rational(weight, "weight") if weight else None
    if scale is not None and scale < 0:
        raise UsageError(f"Value {value!r} has the weight {weight}; weights are not negative.")
    if not rho1:
        return Limit(value, None, None, scale)
    before, after = rational(rho1, "rho1"), rational(rho2, "rho2")
    if not 0 < before < after < 1:
        raise UsageError(
            f"Value {value!r} needs 0 < rho1 < rho2 < 1 (chance before, chance after). "
            f"Got rho1 = {rho1}, rho2 = {rho2}."
        )
    return Limit(value, before, after, scale)


def _unique(rows: list[Limit], where: str) -> tuple[Limit, ...]:
    seen: set[str] = set()
    for row in rows:
        if row.value in seen:
            raise DataError(f"Value {row.value!r} stands twice in {where}. Keep one row.")
        seen.add(row.value)
    return tuple(rows)
