"""Fine-grain (rho1, rho2)-privacy: every value has its own limits (thesis, Definition 6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import quote, unquote

from sfumato.columns import Value, list_some, value_text
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Guarantee
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

    def for_values(self, values: Iterable[Value]) -> list[Limit | None]:
        listed = {row.value: row for row in self.rows}
        rest = listed.get(EVERY_OTHER)
        return [listed.get(label(value), rest) for value in values]

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


@dataclass(frozen=True)
class FineRhoPrivacy(Guarantee):
    """Every value x has its own rho1 and rho2: given by `limits`, or share and `theta` × share.

    With `theta`, a value that a person had with a chance of at most its share f has a chance of at
    most theta·f afterwards; nothing is promised where theta·f ≥ 1 (errata T13). Promised as "at
    most" and for raised chances of single values (errata T1, T18). A value of the domain that
    nobody has gets the limit of gamma as f goes to 0, which is theta (errata T17).

    >>> promise = FineRhoPrivacy(theta=3)
    >>> str(promise)
    'fine-rho-privacy(theta=3)'
    >>> import numpy as np
    >>> counts = Histogram("s", tuple("abcde"), np.array([4, 4, 3, 2, 1]))
    >>> [str(gamma) for gamma in promise.gammas(counts)]
    ['15', '15', '33/5', '9/2', '39/11']
    """

    theta: Fraction | None = None
    limits: Limits | None = field(default=None)

    name: ClassVar[str] = "fine-rho-privacy"
    does_not_protect: ClassVar[tuple[str, ...]] = (
        "values without a limit of their own: the statement names them",
        "an adversary whose own knowledge already gives a value more than its rho1",
        "learning that a value became less likely, or groups of values together: the limits speak "
        "of one value becoming likelier",
        "learning that somebody is in the table, or their quasi columns, which are published as "
        "they are",
        "conclusions that hold for everybody alike (smoking and cancer)",
        "several releases of the same people with fresh draws: they average out",
    )

    def __post_init__(self) -> None:
        if isinstance(self.limits, str):
            text: str = self.limits
            parsed = Limits.from_csv(text[1:]) if text.startswith("@") else Limits.from_text(text)
            object.__setattr__(self, "limits", parsed)
        if (self.theta is None) == (self.limits is None):
            raise UsageError(
                f"{self.name} needs either theta or limits. Write {self.name}(theta=20) or "
                f"{self.name}(@limits.csv), a file with the columns value, rho1, rho2 and weight."
            )
        if self.theta is not None:
            theta = rational(self.theta, "theta")
            if theta <= 1:
                raise UsageError(
                    f"The 'theta' parameter of {self.name} must be above 1. "
                    f"Got {decimal_text(theta)} instead."
                )
            object.__setattr__(self, "theta", theta)

    @classmethod
    def from_arguments(cls, positional: list[str], keywords: dict[str, str]) -> Self:
        return super().from_arguments(*file_as_limits(cls.name, positional, keywords))

    def _rows(self, histogram: Histogram) -> list[Limit]:
        """One limit per value of the domain."""
        if self.limits is not None:
            listed = [row.value for row in self.limits.rows]
            check_rows_fit(listed, histogram, "empty rho1 and rho2")
            found = self.limits.for_values(histogram.values)
            return [row for row in found if row is not None]
        assert self.theta is not None
        rows = []
        for value, share in zip(histogram.values, histogram.shares, strict=True):
            after = self.theta * share
            if after >= 1:
                rows.append(Limit(label(value), None, None))
            else:
                rows.append(Limit(label(value), share, after))
        return rows

    def gammas(self, histogram: Histogram) -> list[Fraction | None]:
        """How much each value's odds may be raised; None where nothing is promised."""
        if self.theta is None:
            return [row.gamma for row in self._rows(histogram)]
        # Equation 66 with rho1 = f and rho2 = θf is θ(1−f)/(1−θf): good for f = 0 too
        above, below, rows = self.theta.numerator, self.theta.denominator, histogram.rows
        gammas: list[Fraction | None] = []
        for count in histogram.counts.tolist():
            room = below * rows - above * count
            gammas.append(Fraction(above * (rows - count), room) if room > 0 else None)
        return gammas

    def weights(self, histogram: Histogram) -> list[Fraction]:
        """What each value counts in the objective: its stated weight, else its share."""
        if self.theta is not None:
            return histogram.shares
        return [
            share if row.weight is None else row.weight
            for row, share in zip(self._rows(histogram), histogram.shares, strict=True)
        ]

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        return [
            Fraction(1) if row.rho1 is None or row.rho2 is None or share > row.rho1 else row.rho2
            for row, share in zip(self._rows(histogram), histogram.shares, strict=True)
        ]

    def require_feasible(self, histogram: Histogram) -> None:
        if len(histogram.values) < 2:
            raise InfeasibleGuarantee(
                f"Column {histogram.column!r} has only one value: no perturbation can hide it. "
                "Choose another sensitive column, or state a wider domain.",
                witness=value_text(histogram.values[0]) if histogram.values else "(no value)",
            )
        if any(gamma is not None for gamma in self.gammas(histogram)):
            return
        rarest = int(histogram.counts.argmin())
        share, nearest = histogram.shares[rarest], None
        if self.theta is not None and 0 < share < Fraction(1, 2):
            nearest = str(FineRhoPrivacy(theta=(1 / share + 1) / 2))
        raise InfeasibleGuarantee(
            f"'{self}' would protect nobody: it sets no limit for any value of column "
            f"{histogram.column!r}; the rarest, {value_text(histogram.values[rarest])}, has a "
            f"share of {float(share):.4g}. "
            + (f"Nearest that protects something: '{nearest}'." if nearest else "Set limits."),
            witness=value_text(histogram.values[rarest]),
            nearest=nearest,
        )

    def statement(self, histogram: Histogram) -> str:
        rows = self._rows(histogram)
        if self.theta is not None:
            text = (
                f"Column {histogram.column!r}: whoever believes, from anything but a person's own "
                "record, that the person has some value with a chance of at most that value's "
                f"share in the table still gives it at most {float(self.theta):.4g} times that "
                "share after seeing that record."
            )
        else:
            text = (
                f"Column {histogram.column!r}: every value has its own limits. Whoever believes, "
                "from anything but a person's own record, that the person has the value with a "
                "chance of at most rho1 still gives it at most rho2 after seeing that record."
            )
            stated = [
                f"{value_text(value)} {float(row.rho1):.4g} → {float(row.rho2):.4g}"
                for value, row in zip(histogram.values, rows, strict=True)
                if row.rho1 is not None and row.rho2 is not None
            ]
            text += f" The limits, rho1 → rho2: {list_some(stated, most=50)}."
        uncovered = [
            value_text(value)
            for value, ceiling in zip(histogram.values, self.ceilings(histogram), strict=True)
            if ceiling == 1
        ]
        if uncovered:
            text += f" Nothing is promised about: {list_some(uncovered, most=50)}."
        return text
