"""Values that look alike to people and different to a program: each is a value of its own."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from sfumato.columns import Value, list_some

_SHOWN = 3  # groups of spellings that a note names
# what people write where nothing is known
_NOTHING = {"", "?", "-", ".", "na", "n/a", "nan", "null", "none", "missing", "unknown"}


def spelling_notes(name: str, values: Sequence[Value]) -> Iterator[str]:
    """What to look at in the values of a column before its measures are believed.

    >>> for note in spelling_notes("sex", ["F", "f ", None, "?", "M"]):
    ...     print(note)
    Column 'sex' has values that differ only by case, blanks or Unicode form: 'F' and 'f '. They \
count as different values; write them alike first.
    Column 'sex' has missing values and also '?'. They count as different values; make them one.
    """
    texts = [value for value in values if isinstance(value, str)]
    alike = _alike(texts)
    if alike:
        groups = [" and ".join(repr(text) for text in group) for group in alike]
        yield (
            f"Column {name!r} has values that differ only by case, blanks or Unicode form: "
            f"{list_some(groups, most=_SHOWN)}. They count as different values; write them alike "
            "first."
        )
    nothing = sorted(text for text in texts if text.strip().casefold() in _NOTHING)
    if nothing and None in values:
        also = list_some([repr(text) for text in nothing])
        yield (
            f"Column {name!r} has missing values and also {also}. They count as different values; "
            "make them one."
        )


def _alike(texts: Sequence[str]) -> list[list[str]]:
    """Groups of texts with the same letters.

    >>> _alike(["Female", "female", "male", " Male"])
    [['Female', 'female'], [' Male', 'male']]
    """
    groups: dict[Any, list[str]] = {}
    for text in texts:
        plain = unicodedata.normalize("NFKC", text).casefold()
        groups.setdefault(" ".join(plain.split()), []).append(text)
    return [sorted(group) for group in groups.values() if len(group) > 1]
