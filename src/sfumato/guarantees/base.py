"""What every promise can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar

from sfumato.profile import Histogram
from sfumato.textform import TextForm


class Guarantee(TextForm, ABC):
    """A promise about what a release lets anybody conclude about one person.

    Subclasses are frozen dataclasses that turn their fields into exact types in `__post_init__`.
    """

    what: ClassVar[str] = "guarantee"
    does_not_protect: ClassVar[tuple[str, ...]]

    @abstractmethod
    def ceilings(self, histogram: Histogram) -> list[Fraction]:
        """The largest posterior that the promise allows, per value; 1 where nothing is promised."""

    @abstractmethod
    def require_feasible(self, histogram: Histogram) -> None:
        """Raise `InfeasibleGuarantee` with the witness where this histogram does not allow it."""

    @abstractmethod
    def statement(self, histogram: Histogram) -> str:
        """The promise in plain words, for the manifest: nothing in it that the method hides."""
