"""What a guarantee says of itself: its numbers, and whom it holds against."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Literal

from sfumato.profile import Histogram
from sfumato.textform import Parameter

# what several promises do not protect against
IN_TABLE = (
    "learning that somebody is in the table, or their quasi-identifiers, which are published as "
    "they are"
)
CONCLUSIONS = "conclusions that hold for everybody alike (smoking and cancer)"
FRESH_DRAWS = "several releases of the same people with fresh draws: they average out"


def fraction(name: str, title: str, default: str, less: str, more: str) -> Parameter:
    """A parameter between 0 and 1."""
    return Parameter(name, above=0, below=1, title=title, default=default, less=less, more=more)


class Known(Enum):
    """What somebody knows besides a release and a person's quasi columns."""

    NOTHING = "nothing else"
    LEARNED = "links that the release itself teaches"
    LINKS = "links of the raw table"
    RECORDS = "values of other people"


Standing = Literal["inside", "partly", "outside"]


@dataclass(frozen=True)
class Reader:
    """Whom a promise holds against; of two readers the one with more `strength` knows more.

    With one of `knows` somebody is such a reader; with one of `if_unlikely` only about people whose
    value that knowledge makes no likelier than the promise takes it to be.

    >>> NO_LINK.standing(Known.NOTHING), NO_LINK.standing(Known.LEARNED)
    ('inside', 'outside')
    >>> ANYBODY.standing(Known.LINKS)
    'partly'
    """

    words: str
    strength: int
    knows: tuple[Known, ...] = ()
    if_unlikely: tuple[Known, ...] = ()

    def __str__(self) -> str:
        return self.words

    def standing(self, known: Known) -> Standing:
        """Whether the promise speaks of somebody who knows that."""
        if known in self.knows:
            return "inside"
        return "partly" if known in self.if_unlikely else "outside"


ANYBODY = Reader(
    "anybody whose other knowledge gives no value more than rho1",
    4,
    (Known.NOTHING,),
    (Known.LEARNED, Known.LINKS, Known.RECORDS),
)
SHARES_ONLY = Reader("whoever knows only how common each value is", 3, (Known.NOTHING,))
NO_LINK = Reader(
    "readers who know no association between quasi-identifiers and the sensitive value",
    2,
    (Known.NOTHING,),
)
SUMS = Reader("whoever sums over few people; one person's value has no ceiling", 1)
GROUPS = Reader(
    "whoever estimates for people who share all quasi values; one person's value has no ceiling", 0
)


def amount(number: Fraction | float, digits: int = 4) -> str:
    """A number as people read it: large ones in full, never with a power of ten.

    >>> amount(101766.4), amount(Fraction(1, 3)), amount(2.5, 2)
    ('101,766', '0.3333', '2.5')
    """
    value = float(number)
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def rarest_share(histogram: Histogram) -> Fraction:
    """The smallest share of a value that somebody has."""
    return min((share for share in histogram.shares if share > 0), default=Fraction(1))
