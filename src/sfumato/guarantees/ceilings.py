"""Promises that are ceilings: no value becomes likelier than its limit, in any group of people."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from sfumato.columns import value_text
from sfumato.guarantees.base import Guarantee, refused
from sfumato.guarantees.value_table import OpenValues
from sfumato.guarantees.words import CONCLUSIONS, NO_LINK, Reader
from sfumato.profile import Histogram

BUCKETS = "in every group g and for every value x:  count of x in g / size of g ≤ "


class CeilingGuarantee(Guarantee):
    """A promise that says itself completely by `ceilings`.

    One may have a field `open`: values that need no protection, and have no ceiling.
    """

    open: OpenValues | None = None
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

    def but_open(self, histogram: Histogram, by_code: list[Fraction]) -> list[Fraction]:
        """These ceilings, and none for open values."""
        for code in self.open_codes(histogram):
            by_code[code] = Fraction(1)
        return by_code

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
