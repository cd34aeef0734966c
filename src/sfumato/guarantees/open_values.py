"""Values that need no protection: the steward names them, and no ceiling is set for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self
from urllib.parse import unquote

from sfumato.columns import list_some, value_text
from sfumato.errors import DataError, UsageError
from sfumato.guarantees.limit_rows import label
from sfumato.profile import Histogram

_MARKS = str.maketrans({mark: f"%{ord(mark):02X}" for mark in "%;'\"\n\r"})


@dataclass(frozen=True)
class OpenValues:
    """Values by the names that a limits file would give them; ';' stands between several.

    >>> str(OpenValues.of("Not in universe; 0")), str(OpenValues.of(("a;b", None)))
    ("'Not in universe;0'", "'a%3Bb;(missing)'")
    >>> OpenValues.of(str(OpenValues.of("it's"))) == OpenValues(("it's",))
    True
    """

    labels: tuple[str, ...]

    usage: ClassVar[str] = (
        "'open' names the values that need no protection, each once: open='none' or "
        "open='none;unknown'"
    )
    named: ClassVar[str] = "which the promise names as open"

    @classmethod
    def of(cls, given: Any) -> Self | None:
        """From a text, one value or several; None where nothing is open."""
        if given is None or isinstance(given, cls):
            return given
        if isinstance(given, str):
            quoted = len(given) > 1 and given[0] == given[-1] and given[0] in "'\""
            parts = (given[1:-1] if quoted else given).split(";")
            labels = [unquote(part.strip()) for part in parts]
        else:
            values = given if isinstance(given, Iterable) else [given]
            labels = [label(value) for value in values]
        if not labels or "" in labels or len(set(labels)) < len(labels):
            raise UsageError(f"{cls.usage}. Got {given!r} instead.")
        return cls(tuple(labels))

    def __str__(self) -> str:
        return "'" + ";".join(name.translate(_MARKS) for name in self.labels) + "'"

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
