"""F'-privacy: every sensitive value has its own ceiling (F'-privacy paper, Definition 2)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import quote, unquote

from sfumato.columns import list_some, value_text
from sfumato.errors import DataError, UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee, chance
from sfumato.guarantees.limit_rows import (
    EVERY_OTHER,
    check_rows_fit,
    file_as_limits,
    label,
    limits_file,
    read_limit_rows,
)
from sfumato.profile import Histogram
from sfumato.textform import decimal_text, rational


@dataclass(frozen=True)
class ValueCeilings:
    """The steward's ceilings by value, with a text form that holds them, not the file's path.

    >>> str(ValueCeilings.from_text("HIV:0.05;flu:1/3;*:1"))
    'HIV:0.05;flu:1/3;*:1'
    """

    rows: tuple[tuple[str, Fraction], ...]

    @classmethod
    def from_text(cls, text: str) -> ValueCeilings:
        pairs = []
        for part in text.split(";"):
            value, colon, limit = part.strip().rpartition(":")
            if not colon:
                raise UsageError(
                    f"Cannot read the limit {part!r}. Write value:limit with ';' between values."
                )
            pairs.append((unquote(value), limit))
        return cls._of(pairs, "the limits")

    @classmethod
    def from_csv(cls, path: str | Path) -> ValueCeilings:
        """Read the columns value and limit; a row for `*` stands for every other value."""
        pairs = [(value, limit) for value, limit in read_limit_rows(path, ("value", "limit"))]
        return cls._of(pairs, limits_file(path))

    @classmethod
    def _of(cls, pairs: list[tuple[str, str]], where: str) -> ValueCeilings:
        rows: dict[str, Fraction] = {}
        for value, text in pairs:
            if value in rows:
                raise DataError(f"Value {value!r} stands twice in {where}. Keep one row.")
            rows[value] = rational(text, f"limit of {value}")
            if not 0 < rows[value] <= 1:
                raise UsageError(
                    f"The limit of {value!r} in {where} must lie above 0 and be at most 1. "
                    f"Got {text} instead."
                )
        return cls(tuple(rows.items()))

    def __str__(self) -> str:
        return ";".join(f"{quote(v, safe='*')}:{decimal_text(limit)}" for v, limit in self.rows)


@dataclass(frozen=True)
class FPrivacy(CeilingGuarantee):
    """The chance of a value x is at most f'_x: given by `limits`, or min(1, theta·share + floor).

    >>> import numpy as np
    >>> promise = FPrivacy(theta=2, floor="0.05")
    >>> promise.ceilings(Histogram("s", ("a", "b"), np.array([1, 49])))
    [Fraction(9, 100), Fraction(1, 1)]
    >>> str(promise)
    'f-privacy(theta=2, floor=0.05)'
    """

    theta: Fraction | None = None
    floor: Fraction = Fraction(0)
    limits: ValueCeilings | None = None

    name: ClassVar[str] = "f-privacy"

    def __post_init__(self) -> None:
        if isinstance(self.limits, str):
            text: str = self.limits
            read = ValueCeilings.from_csv if text.startswith("@") else ValueCeilings.from_text
            object.__setattr__(self, "limits", read(text.removeprefix("@")))
        object.__setattr__(self, "floor", rational(self.floor, "floor"))
        if self.theta is not None:
            object.__setattr__(self, "theta", rational(self.theta, "theta"))
        if (self.theta is None) == (self.limits is None) or (self.limits and self.floor):
            raise UsageError(
                f"{self.name} needs either theta (and a floor) or limits. Write "
                f"{self.name}(theta=8, floor=0.02) or {self.name}(@limits.csv), a file with the "
                "columns value and limit."
            )
        for parameter, number in (("theta", self.theta), ("floor", self.floor)):
            if number is not None and number < 0:
                raise UsageError(
                    f"The {parameter!r} parameter of {self.name} must not be negative. "
                    f"Got {decimal_text(number)} instead."
                )

    @classmethod
    def from_arguments(cls, positional: list[str], keywords: dict[str, str]) -> Self:
        return super().from_arguments(*file_as_limits(cls.name, positional, keywords))

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        if self.limits is None:
            assert self.theta is not None
            return [min(Fraction(1), self.theta * f + self.floor) for f in histogram.shares]
        listed = dict(self.limits.rows)
        check_rows_fit(listed, histogram, "a limit of 1")
        rest = listed.get(EVERY_OTHER, Fraction(1))
        return [listed.get(label(value), rest) for value in histogram.values]

    def nearest(self, histogram: Histogram) -> Guarantee | None:
        if self.theta is None:
            return None
        needed = max(1 - self.floor / share for share in histogram.shares if share > 0)
        return FPrivacy(theta=needed, floor=self.floor)

    def statement(self, histogram: Histogram) -> str:
        text = (
            f"Column {histogram.column!r}: whoever knows the quasi columns of a person, and no "
            "link between them and the sensitive column, gives each sensitive value at most "
        )
        if self.theta is not None:
            text += f"{float(self.theta):.4g} times its share in the table" + (
                f" plus {chance(self.floor)}" if self.floor else ""
            )
            return text + " after seeing the release. Where that is 1 or more, nothing is promised."
        ceilings = self.ceilings(histogram)
        limited = [
            f"{value_text(value)} {chance(ceiling)}"
            for value, ceiling in zip(histogram.values, ceilings, strict=True)
            if ceiling < 1
        ]
        open_values = [
            value_text(value)
            for value, ceiling in zip(histogram.values, ceilings, strict=True)
            if ceiling == 1
        ]
        text += f"its limit after seeing the release: {list_some(limited, most=50)}."
        if open_values:
            text += f" Nothing is promised about: {list_some(open_values, most=50)}."
        return text
