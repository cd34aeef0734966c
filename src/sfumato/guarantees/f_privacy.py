"""F'-privacy: every sensitive value has its own ceiling (F'-privacy paper, Definition 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.columns import label, list_some, value_text
from sfumato.errors import UsageError
from sfumato.guarantees.base import Ceilings, Guarantee
from sfumato.guarantees.ceilings import BUCKETS, CeilingGuarantee, chance
from sfumato.guarantees.ladders import largest_other, up_to_one
from sfumato.guarantees.value_table import EVERY_OTHER, OPEN, OpenValues, ValueCeilings
from sfumato.guarantees.words import amount
from sfumato.profile import Histogram
from sfumato.textform import Parameter, decimal_text


@dataclass(frozen=True)
class FPrivacy(CeilingGuarantee):
    """The chance of a value x is at most f'_x: given by `limits`, or theta·share + floor, and never
    more than 1 − doubt·(1 − share).

    With both, the values that `limits` name have their own and all others the formula's (paper,
    Section 3.2). `doubt` is ours: how much of the doubt that somebody has the value remains. With
    some, and theta of at least 1, the promise can be kept for any shares and leaves no value open
    that not everybody has.

    >>> import numpy as np
    >>> promise = FPrivacy(theta=2, floor="0.05")
    >>> promise.ceilings(Histogram("s", ("a", "b"), np.array([1, 49])))
    [Fraction(9, 100), Fraction(1, 1)]
    >>> str(promise)
    'f-privacy(theta=2, floor=0.05)'
    >>> FPrivacy(theta=2, floor="0.05", doubt="1/4").ceilings(
    ...     Histogram("s", ("a", "b"), np.array([1, 49]))
    ... )
    [Fraction(9, 100), Fraction(199, 200)]
    >>> mixed = FPrivacy(theta=2, limits="a:0.03")
    >>> str(mixed), mixed.ceilings(Histogram("s", ("a", "b", "c"), np.array([1, 29, 70])))
    ("f-privacy(theta=2, limits='a:0.03')", [Fraction(3, 100), Fraction(29, 50), Fraction(1, 1)])
    """

    theta: Fraction | None = None
    floor: Fraction = Fraction(0)
    doubt: Fraction = Fraction(0)
    limits: ValueCeilings | None = None
    open: OpenValues | None = None

    name: ClassVar[str] = "f-privacy"
    title: ClassVar[str] = "A ceiling for every value"
    sentence: ClassVar[str] = (
        "Whoever knows somebody's public columns gives each sensitive value at most theta times "
        "its share in the whole table, plus a floor; a stated part of the doubt about it remains."
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "theta",
            least=0,
            title="theta: how many times its share",
            default="2",
            slider=(1, 50),
            less="A smaller theta protects more; counts become less accurate.",
            more="A larger theta protects less; counts become more accurate.",
        ),
        Parameter(
            "floor",
            least=0,
            title="floor: added for every value",
            default="0.05",
            less="A smaller floor protects rare values more.",
            more="A larger floor protects rare values less; counts become more accurate.",
        ),
        Parameter(
            "doubt",
            least=0,
            most=1,
            title="doubt: how much of it remains",
            default="0.25",
            less="A smaller doubt protects common values less; counts become more accurate.",
            more="A larger doubt protects common values more.",
        ),
        Parameter("limits", form=ValueCeilings.of),
        OPEN,
    )

    does_not_protect: ClassVar[tuple[str, ...]] = (
        "groups of values: nothing is promised about them, and several rare values of one kind may "
        "stand in one bucket",
        *CeilingGuarantee.does_not_protect,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.theta is None and (self.limits is None or self.floor or self.doubt):
            raise UsageError(
                f"{self.name} needs theta (and a floor and a doubt), limits, or both. Write "
                f"{self.name}(theta=8, floor=0.02) or {self.name}(@limits.csv), a file with the "
                "columns value and limit."
            )
        if self.theta is not None and self.limits and EVERY_OTHER in self.limits.labels:
            raise UsageError(
                f"With theta, every other value of {self.name} has the limit that theta gives it. "
                f"Leave the limit of {EVERY_OTHER!r} out, or theta."
            )

    @property
    def names_values(self) -> bool:
        return self.limits is not None or super().names_values

    def ceiling(self, share: Fraction) -> Fraction:
        raised = (self.theta or Fraction(0)) * share + self.floor
        return min(raised, 1 - self.doubt * (1 - share))

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        by_code = super().ceilings(histogram)
        if self.limits is not None:  # theta is the row of every other value
            rows = self.limits.for_domain(histogram, every=self.theta is None)
            free = set(self.open_codes(histogram))
            by_code = [
                ceiling if row is None or code in free else row[1]
                for code, (row, ceiling) in enumerate(zip(rows, by_code, strict=True))
            ]
        return by_code

    def nearest(self, histogram: Histogram) -> Guarantee | None:
        if self.theta is None or self.limits is not None:
            return None
        free = set(self.open_codes(histogram))
        shares = [share for k, share in enumerate(histogram.shares) if share > 0 and k not in free]
        needed = max(1 - self.floor / share for share in shares)
        return replace(self, theta=needed)

    def statement(self, histogram: Histogram) -> str:
        if len(histogram.values) == 1:
            return (
                f"Column {histogram.column!r} has one value only: it is everybody's, and nothing "
                "is promised about it."
            )
        if self.theta is not None:
            most = f"at most {amount(self.theta)} times its share in the table" + (
                f" plus {chance(self.floor)}" if self.floor else ""
            )
            named = ""
            if self.limits is not None:
                stated = [f"{value!r} {chance(limit)}" for value, limit in self.limits.rows]
                named = f" These values have a limit of their own: {list_some(stated, most=50)}."
            certain = " Where that is 1 or more, nothing is promised."
            if self.doubt:
                certain = (
                    f" At least {chance(self.doubt)} of the doubt that the person has the value "
                    "remains."
                )
            return f"{self.about_chances(histogram, most)}.{certain}{named}{self.open_text()}"
        ceilings = list(zip(histogram.values, self.ceilings(histogram), strict=True))
        limited = [f"{value_text(value)} {chance(most)}" for value, most in ceilings if most < 1]
        unlimited = [value_text(value) for value, most in ceilings if most == 1]
        text = (
            f"{self.about_chances(histogram, 'at most its limit')}: {list_some(limited, most=50)}."
        )
        if unlimited:
            text += f" Nothing is promised about: {list_some(unlimited, most=50)}."
        return text

    def formula(self) -> str:
        if self.theta is None:
            return f"{BUCKETS}f'ₓ, as stated for each value"
        floor = f" + {decimal_text(self.floor)}" if self.floor else ""
        named = "" if self.limits is None else ", or as stated for the value"
        most = f"1 − {decimal_text(self.doubt)}·(1 − fₓ)" if self.doubt else "1"
        return f"{BUCKETS}f'ₓ = min({decimal_text(self.theta)}·fₓ{floor}, {most}){named}"

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> list[Self]:
        """The usual promise with its floor moved; with ceilings: those, and one for all others."""
        if not ceilings:
            hundredths = [Fraction(k, 100) for k in range(10, 100)]
            floors = [Fraction(k, 1000) for k in range(10, 100)] + hundredths
            return [replace(cls.usual(), floor=floor) for floor in floors]
        limits = tuple((label(value), limit) for value, limit in ceilings.items())
        steps = [*up_to_one(largest_other(histogram, ceilings)), Fraction(1)]
        return [cls(limits=ValueCeilings((*limits, (EVERY_OTHER, step)))) for step in steps]


DEFAULT_PROMISE = str(FPrivacy.usual())  # keeps any shares, and leaves no value open
