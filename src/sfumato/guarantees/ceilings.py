"""Promises that are ceilings: no value becomes likelier than its limit, in any group of people.

Each is parameters, a ceiling by share, and words.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.columns import value_text
from sfumato.guarantees.base import Ceilings, Guarantee, refused
from sfumato.guarantees.ladders import COARSE, factors, one_in, unlimited
from sfumato.guarantees.value_table import OPEN, OpenValues
from sfumato.guarantees.words import CONCLUSIONS, NO_LINK, Reader, amount, rarest_share
from sfumato.profile import Histogram
from sfumato.textform import Parameter, decimal_text

_DIGITS = 50  # of logarithms
_MARGIN = Fraction(1, 10**40)  # more than rounding can make them too large
BUCKETS = "in every group g and for every value x:  count of x in g / size of g ≤ "


class CeilingGuarantee(Guarantee):
    """A promise that says itself completely by `ceilings`.

    One may have a field `open`: values that need no protection, and have no ceiling.
    """

    open: OpenValues | None = None
    besides: ClassVar[str] = ""  # a sentence after the one about ceilings
    several_columns: ClassVar[bool] = True
    shows_left_out: ClassVar[bool] = True
    holds_against: ClassVar[Reader] = NO_LINK
    does_not_protect: ClassVar[tuple[str, ...]] = (
        "an adversary who knows, or learns from the release itself, how quasi-identifiers and "
        "sensitive values are associated (negative associations, the deFinetti attack): the "
        "ceiling "
        "is the chance for somebody who knows no such link",
        "an adversary who already knows the values of others in the same group: ask for fake "
        "values against that",
        "learning that somebody is in the table",
        CONCLUSIONS,
        "several releases of the same people: the groups that a person was in can be intersected",
    )

    def ceiling(self, share: Fraction) -> Fraction:
        """The largest posterior that is allowed of a value with that share."""
        raise NotImplementedError

    @property
    def most(self) -> str:
        """That in words: what a reader gives each value."""
        raise NotImplementedError

    @property
    def bound(self) -> str:
        """And as a formula."""
        raise NotImplementedError

    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        by_code = list(map(self.ceiling, histogram.shares))
        for code in self.open_codes(histogram):
            by_code[code] = Fraction(1)
        return by_code

    def statement(self, histogram: Histogram) -> str:
        return f"{self.about_chances(histogram, self.most)}.{self.besides}{self.open_text()}"

    def formula(self) -> str:
        return f"{BUCKETS}{self.bound}"

    def open_codes(self, histogram: Histogram) -> list[int]:
        return [] if self.open is None else self.open.codes(histogram)

    @property
    def names_values(self) -> bool:
        """Whether it speaks of some values by name."""
        return self.open is not None

    def open_text(self) -> str:
        """What a statement says of open values."""
        if self.open is None:
            return ""
        named = ", ".join(repr(name) for name in self.open.labels)
        return f" Nothing is promised about values that need no protection: {named}."

    def require_feasible(self, histogram: Histogram) -> None:
        """Lemma 1 of the F'-privacy paper: it can be kept iff no share is above its ceiling."""
        ceilings, shares = self.ceilings(histogram), histogram.shares
        broken = [code for code, share in enumerate(shares) if share > ceilings[code]]
        if not broken:
            return
        worst = max(broken, key=lambda code: shares[code] - ceilings[code])
        nearest = self.nearest(histogram)
        raise refused(
            f"'{self}' cannot be kept: in column {histogram.column!r} the value "
            f"{value_text(histogram.values[worst])} has a share of {float(shares[worst]):.4g}, "
            f"above its ceiling of {float(ceilings[worst]):.4g}, so some group must hold more of "
            "it than is allowed.",
            histogram,
            worst,
            nearest,
            otherwise="" if nearest else self.advice(histogram),
        )

    def nearest(self, histogram: Histogram) -> Guarantee | None:
        """The nearest promise of this kind that the histogram allows."""
        return None

    def advice(self, histogram: Histogram) -> str:
        return "Raise its limit, or publish another column."

    def about_chances(self, histogram: Histogram, most: str) -> str:
        """The statement of a promise whose ceilings are `most`."""
        return (
            f"Column {histogram.column!r}: whoever knows the quasi-identifiers of a person, but "
            "not how they are associated with the sensitive column, gives each sensitive value "
            f"{most} after seeing the release"
        )


def chance(ceiling: Fraction) -> str:
    """How a statement writes a ceiling.

    >>> chance(Fraction(1, 3))
    '33.33 %'
    """
    return f"{float(ceiling):.2%}".replace("%", " %")


@dataclass(frozen=True)
class LDiversity(CeilingGuarantee):
    """In every group of people that the release forms, at most one in `l` has the same value.

    >>> import numpy as np
    >>> LDiversity(4).ceilings(Histogram("s", ("a", "b"), np.array([1, 1])))
    [Fraction(1, 4), Fraction(1, 4)]
    >>> str(LDiversity("5"))
    'l-diversity(5)'
    """

    l: int  # noqa: E741 - the promise is called after it
    open: OpenValues | None = None

    name: ClassVar[str] = "l-diversity"
    title: ClassVar[str] = "No value likelier than 1 in ℓ"
    sentence: ClassVar[str] = (
        "Whoever knows somebody's public columns gives each sensitive value of that person a "
        "chance of at most 1 in ℓ."
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "l",
            least=2,
            whole=True,
            title="ℓ: one in how many",
            default="3",
            slider=(2, 50),
            less="A smaller ℓ protects less; counts become more accurate.",
            more="A larger ℓ protects more; counts become less accurate, and a very common value "
            "may make it impossible.",
        ),
        OPEN,
    )

    def ceiling(self, share: Fraction) -> Fraction:
        return Fraction(1, self.l)

    @property
    def most(self) -> str:
        return f"a chance of at most 1 in {self.l}"

    @property
    def bound(self) -> str:
        return f"1/{self.l}"

    def nearest(self, histogram: Histogram) -> Guarantee | None:
        most = one_in(histogram, self.open_codes(histogram))
        return LDiversity(most, self.open) if most >= 2 else None

    def advice(self, histogram: Histogram) -> str:
        return (
            "One value alone has more than half of the records: no l-diversity can be kept. What "
            "can be done: recode the column before publishing, so that this value is split into "
            "finer ones; give every value its own ceiling with f-privacy; or, if this value needs "
            f'no protection, say so: "{self.with_commonest_open(histogram)}".'
        )

    def with_commonest_open(self, histogram: Histogram) -> LDiversity:
        """The promise for all but the commonest value, with the largest l up to its own."""
        free = {*self.open_codes(histogram), int(histogram.counts.argmax())}
        most = max(2, min(self.l, one_in(histogram, free)))
        return LDiversity(most, OpenValues.of([histogram.values[code] for code in sorted(free)]))

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> list[Self]:
        free = unlimited(ceilings)
        most = one_in(histogram, [] if free is None else free.codes(histogram))
        return [cls(number, free) for number in range(most, 1, -1)]


@dataclass(frozen=True)
class LikenessGuarantee(CeilingGuarantee):
    """A promise about how many times its share the chance of a value may be."""

    beta: Fraction
    open: OpenValues | None = None

    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "beta",
            above=0,
            title="beta: how much likelier a value may become",
            default="3",
            slider=(0.1, 50),
            less="A smaller beta protects more, rare values most of all; counts become less "
            "accurate.",
            more="A larger beta protects less; counts become more accurate.",
        ),
        OPEN,
    )

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> list[Self]:
        most, free = float(1 / rarest_share(histogram)), unlimited(ceilings)
        return [cls(factor - 1, free) for factor in factors(most, COARSE)]


@dataclass(frozen=True)
class BetaLikeness(LikenessGuarantee):
    """The chance of a value x is at most (1 + beta) times its share in the whole table.

    >>> import numpy as np
    >>> BetaLikeness(3).ceilings(Histogram("s", ("a", "b"), np.array([1, 9])))
    [Fraction(2, 5), Fraction(1, 1)]
    """

    name: ClassVar[str] = "beta-likeness"
    title: ClassVar[str] = "No value much likelier than it was"
    sentence: ClassVar[str] = (
        "Whoever knows somebody's public columns gives each sensitive value at most 1 + beta times "
        "its share in the whole table."
    )

    besides: ClassVar[str] = " Values whose share makes that 1 or more are not limited."

    def ceiling(self, share: Fraction) -> Fraction:
        return min(Fraction(1), (1 + self.beta) * share)

    @property
    def most(self) -> str:
        return f"at most {amount(1 + self.beta)} times its share in the table"

    @property
    def bound(self) -> str:
        return f"(1 + {decimal_text(self.beta)})·fₓ"


@dataclass(frozen=True)
class EnhancedBetaLikeness(LikenessGuarantee):
    """The chance of a value x is at most 1 + min(beta, −ln fₓ) times its share fₓ (Cao and Karras,
    Publishing microdata with a robust privacy guarantee, Definition 3).

    fₓ·(1 − ln fₓ) is below 1 for every value that not everybody has: unlike under beta-likeness, no
    value is left open.

    >>> import numpy as np
    >>> column = Histogram("s", ("a", "b"), np.array([1, 9]))
    >>> [round(float(ceiling), 4) for ceiling in EnhancedBetaLikeness(1).ceilings(column)]
    [0.2, 0.9948]
    """

    name: ClassVar[str] = "enhanced-beta-likeness"
    title: ClassVar[str] = "No value much likelier than it was, and none certain"
    sentence: ClassVar[str] = (
        "Whoever knows somebody's public columns gives each sensitive value at most 1 + beta times "
        "its share in the whole table, and common values less: never 1."
    )

    def ceiling(self, share: Fraction) -> Fraction:
        return share * (1 + min(self.beta, _log(share)))

    @property
    def most(self) -> str:
        return (
            f"at most {float(1 + self.beta):.4g} times its share f in the table, and at most "
            "1 − ln f times"
        )

    @property
    def bound(self) -> str:
        return f"(1 + min({decimal_text(self.beta)}, −ln fₓ))·fₓ"


def _log(share: Fraction) -> Fraction:
    """A fraction just below −ln(share), so that ceilings are never too high.

    >>> round(float(_log(Fraction(1, 2))), 12), _log(Fraction(1)), _log(Fraction(0))
    (0.69314718056, Fraction(0, 1), Fraction(0, 1))
    """
    if not share:
        return Fraction(0)
    with localcontext() as context:
        context.prec = _DIGITS
        logarithm = Fraction(-(Decimal(share.numerator) / Decimal(share.denominator)).ln())
    return max(logarithm - _MARGIN, Fraction(0))
