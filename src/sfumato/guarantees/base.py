"""What every guarantee can do, and what it says of itself.

The page, `advise`, `compare`, reports and documents ask the classes in `GUARANTEES` and know none
of them by name: a new guarantee is a module with such a class, a line there, and its page.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.columns import Value, value_text
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees.words import Reader
from sfumato.profile import Histogram
from sfumato.textform import Parameter, TextForm

Ceilings = Mapping[Value, Fraction]  # the largest chance that a steward allows, by value


class Guarantee(TextForm, ABC):
    """A promise about what a release lets anybody conclude about one person.

    Subclasses are frozen dataclasses; their `parameters` turn the fields into exact types.
    """

    what: ClassVar[str] = "guarantee"
    title: ClassVar[str]  # a headline
    sentence: ClassVar[str]  # the promise in one sentence, for somebody who chooses
    holds_against: ClassVar[Reader]
    does_not_protect: ClassVar[tuple[str, ...]]
    several_columns: ClassVar[bool] = False  # whether it can speak of several sensitive columns
    limits_belief: ClassVar[bool] = True  # whether it bounds what is believed about one person
    # whether a release may show the values that it leaves out as they are, in buckets of their own
    shows_left_out: ClassVar[bool] = False

    @property
    def looks(self) -> int:
        """Of how many draws about a person it speaks together."""
        return 1

    @abstractmethod
    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        """The largest posterior that the promise allows, per value; 1 where nothing is promised."""

    def odds_gains(self, histogram: Histogram) -> list[Fraction | None]:
        """How often a value's odds one record may multiply; None where nothing is promised."""
        return [
            None if ceiling >= 1 or share in (0, 1) else odds(ceiling) / odds(share)
            for ceiling, share in zip(self.ceilings(histogram), histogram.shares, strict=True)
        ]

    @abstractmethod
    def require_feasible(self, histogram: Histogram) -> None:
        """Raise `InfeasibleGuarantee` with the witness where this histogram does not allow it."""

    @abstractmethod
    def statement(self, histogram: Histogram) -> str:
        """The promise in plain words, for the manifest.

        It follows from the guarantee and the domain alone, never from counts: a sentence that
        changes when one person's value does would tell that value to who knows all others.
        """

    def statement_of_further(self, histogram: Histogram) -> str:
        """The same for a sensitive column after the first, of which less may hold."""
        return self.statement(histogram)

    def statement_by_parts(self, histogram: Histogram, failure: float) -> str:
        """The same where a column says which of several sub-tables each record is in.

        `failure` is the chance that a release is drawn so oddly that it may tell more.
        """
        return self.statement(histogram)

    @abstractmethod
    def formula(self) -> str:
        """The promise as its page in the documents writes it, with its own numbers."""

    def left_out(self, histogram: Histogram) -> list[int]:
        """Codes of the values about which nothing is promised here: for the steward's eyes."""
        if not self.limits_belief:
            return []
        return [code for code, ceiling in enumerate(self.ceilings(histogram)) if ceiling >= 1]

    def left_out_text(self, histogram: Histogram) -> str:
        """Whom the promise leaves out, by number and name; '' where that is nobody.

        It follows from counts: for the steward, and for releases that show them anyway.
        """
        codes = [code for code in self.left_out(histogram) if histogram.counts[code]]
        if not codes:
            return ""
        people = int(histogram.counts[codes].sum())
        named = ", ".join(value_text(histogram.values[code]) for code in codes)
        return (
            f"Column {histogram.column!r}: nothing is promised about {people:,} of "
            f"{histogram.rows:,} people, those with {named}."
        )

    def open_codes(self, histogram: Histogram) -> list[int]:
        """Codes of the values that the steward named as needing no protection."""
        return []

    def against(self) -> Reader:
        """Whom this promise holds against; less where its parameters say so."""
        return self.holds_against

    def unprotected(self) -> tuple[str, ...]:
        """What it does not protect against, in words."""
        return self.does_not_protect

    def stated(self) -> str | dict[str, str]:
        """As a manifest holds it: one text, or one for each column."""
        return str(self)

    def for_columns(self, columns: Sequence[str], unpublished: Sequence[str] = ()) -> Guarantee:
        """The same for a table with these sensitive columns, promised column by column where these
        have promises of their own; `UsageError` where one has none. What is promised about columns
        that are not published goes."""
        return self

    def kept_against(self, reader: Reader | None) -> Self:
        """The promise that a mechanism makes which holds against that reader, None being anybody
        whom the guarantee can hold against."""
        return self

    @classmethod
    def moved(cls) -> tuple[Parameter, ...]:
        """The parameters that a steward moves: those with a title."""
        return tuple(parameter for parameter in cls.parameters if parameter.title)

    @classmethod
    def usual(cls) -> Self:
        """The promise with its usual numbers."""
        return cls(**{parameter.name: parameter.default for parameter in cls.moved()})

    @classmethod
    def ladder(cls, histogram: Histogram, ceilings: Ceilings) -> Sequence[Self]:
        """What advice chooses from, the strongest first, each later one allowing more.

        Where the guarantee can take over the steward's `ceilings`, it does.
        """
        return [cls.usual()]


def odds(chance: Fraction) -> Fraction:
    """
    >>> odds(Fraction(1, 5))
    Fraction(1, 4)
    """
    return chance / (1 - chance)


def refused(
    problem: str,
    histogram: Histogram,
    code: int,
    nearest: Guarantee | None,
    *,
    otherwise: str,
    can: str = "that can be kept",
) -> InfeasibleGuarantee:
    """What to raise where the value of this code makes a promise impossible."""
    advice = f"Nearest {can}: '{nearest}'." if nearest else otherwise
    witness = value_text(histogram.values[code]) if histogram.values else "(no value)"
    stated = None if nearest is None else str(nearest)
    return InfeasibleGuarantee(f"{problem} {advice}", witness=witness, nearest=stated)


def require_two_values(histogram: Histogram) -> None:
    """What every promise kept by perturbation needs."""
    if len(histogram.values) < 2:
        one = f"Column {histogram.column!r} has only one value: no perturbation can hide it."
        advice = "Choose another sensitive column, or state a wider domain."
        raise refused(one, histogram, 0, None, otherwise=advice)
