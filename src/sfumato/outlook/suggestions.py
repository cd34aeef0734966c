"""Guesses at the roles of columns, from their names and from what a first look counts.

A guess is shown and never taken by itself. It must not lead astray: a number that only counts the
rows is no key, an identifier that repeats is worth more than one that does not, and what everybody
can see of a person is quasi, not sensitive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sfumato.engines.cautions import IDENTIFIER, is_named

MOST_SENSITIVE = 2  # columns that are suggested as sensitive
_MOST_VALUES = 1000  # more are no sensitive column without a recode
_LEAST_TEXTS = 100  # rows from which on texts that hardly repeat are seen to
_MOST_CODES = 100  # more whole numbers are amounts, not codes
_LEAST_PEOPLE = 20  # an identifier that repeats has one in so many rows at least

_VISIBLE = (
    r"age|sex|gender|race|ethnicity|marital|married|zip|zipcode|postcode|plz|region|city|town|state"
    r"|county|country|nationality|education|school|birth|born|birthdate|dob|workclass|religion|height"
    r"|weight|household|relationship|native|admission|admitted|discharge|arrival|ward|department"
    r"|hospital|date|year|month"
)
_HIDDEN = (
    r"diag|diagnosis|diagnoses|disease|illness|ill|icd|condition|salary|income|wage|occupation|drug"
    r"|medication|treatment|result|test|cost|debt|disposition|class|outcome"
)


@dataclass(frozen=True)
class Suggestion:
    """A role that a column may have: marked as a guess, never taken by itself."""

    role: str
    why: str


@dataclass(frozen=True)
class Looked:
    """What a first look counted of a column; `low` and `high` of numbers only."""

    name: str
    type: pa.DataType
    rows: int
    present: int
    distinct: int
    exact: bool
    low: float | None = None
    high: float | None = None

    def named(self, words: str) -> bool:
        """Whether a word of the name is one of these."""
        return is_named(self.name, words)

    @property
    def numbers_rows(self) -> bool:
        """Whether it counts 0, 1, 2 … from row to row."""
        if not pa.types.is_integer(self.type) or self.low is None or self.high is None:
            return False
        return self.exact and self.distinct == self.present == self.high - self.low + 1

    @property
    def identifies(self) -> bool:
        """Whether it can name people, by its type."""
        types = pa.types
        kind = self.type
        return bool(types.is_string(kind) or types.is_integer(kind) or types.is_binary(kind))

    @property
    def _shared(self) -> bool:
        """Whether a few rows share each of its many values."""
        often = self.distinct * _LEAST_PEOPLE >= self.present > self.distinct
        return self.identifies and often and self.distinct > 50

    @property
    def repeats(self) -> bool:
        """Whether it is named like an identifier, and several rows share one."""
        named = self.named(IDENTIFIER) and not self.named(_VISIBLE) and not self.named(_HIDDEN)
        return self._shared and named

    @property
    def may_repeat(self) -> bool:
        """Whether its numbers lie as far apart as those of an identifier that several rows share;
        so do those of a measure."""
        if self.low is None or self.high is None:
            return False
        return (
            self._shared
            and self.high - self.low > 10 * self.distinct
            and 3 * self.distinct >= self.present
        )


def suggest(columns: Sequence[Looked]) -> list[Suggestion]:
    """A guess for every column: what nobody can tell is dropped, which harms nobody.

    >>> stays = [
    ...     Looked("stay", pa.int64(), 900, 900, 900, True, 0, 899),
    ...     Looked("patient_nbr", pa.int64(), 900, 900, 600, True, 1e5, 9e8),
    ...     Looked("sex", pa.string(), 900, 900, 2, True),
    ...     Looked("diag_1", pa.string(), 900, 900, 200, True),
    ...     Looked("weight", pa.string(), 900, 0, 0, True),
    ... ]
    >>> [each.role for each in suggest(stays)]
    ['drop', 'person', 'quasi', 'sensitive', 'drop']
    """
    found = [_plain(column, columns) for column in columns]
    free = [place for place, given in enumerate(found) if given is None]
    hidden = [place for place in free if columns[place].named(_HIDDEN) and _few(columns[place])]
    if not hidden:  # the one with the most values that are still few: texts, else codes
        plain = [place for place in free if _few(columns[place]) and not _visible(columns[place])]
        texts = [place for place in plain if _is_text(columns[place])]
        codes = [place for place in plain if _is_code(columns[place])]
        hidden = sorted(texts or codes, key=lambda place: columns[place].distinct)[-1:]
    for place in hidden[:MOST_SENSITIVE]:
        values = f"{columns[place].distinct:,} different values"
        found[place] = Suggestion("sensitive", f"It has {values} that others may not know.")
    for place in hidden[MOST_SENSITIVE:]:
        found[place] = Suggestion("drop", "Sensitive as well, and such columns tell more together.")
    return [given or _public(column) for given, column in zip(found, columns, strict=True)]


def _public(column: Looked) -> Suggestion:
    if _visible(column):
        return Suggestion("quasi", "Others may know it of a person.")
    return Suggestion("drop", "Its name does not tell what it is; keep it only where it is needed.")


def _plain(column: Looked, columns: Sequence[Looked]) -> Suggestion | None:
    if not column.present:
        return Suggestion("drop", "Every value is missing.")
    if column.distinct == 1 and column.exact and column.rows > 1:
        return Suggestion("drop", "Every row has the same value.")
    if column.repeats:
        people = f"{'' if column.exact else 'about '}{column.distinct:,} people"
        return Suggestion(
            "person", f"An identifier that repeats: {people} in {column.present:,} rows?"
        )
    if column.may_repeat:
        values = f"{'' if column.exact else 'about '}{column.distinct:,} values"
        return Suggestion(
            "drop",
            f"{values[0].upper()}{values[1:]} in {column.present:,} rows: a measure, or an "
            "identifier that repeats. If it names people, say so.",
        )
    alone = column.exact and column.distinct == column.present > 1 and column.identifies
    if not alone:
        hardly = 4 * column.distinct > column.present > _LEAST_TEXTS
        if hardly and pa.types.is_string(column.type):
            return Suggestion("drop", "Hardly any rows share a text of it.")
        return None
    if any(other.repeats for other in columns):
        return Suggestion("drop", "No two rows have the same value: it names rows, not people.")
    if column.numbers_rows and not column.named(IDENTIFIER):
        return Suggestion("drop", "It only numbers the rows.")
    return Suggestion("key", "No two records have the same value, so it may name a person.")


def _is_text(column: Looked) -> bool:
    """Texts and truth values with enough different ones to be worth hiding."""
    kind = column.type
    return bool(pa.types.is_boolean(kind) or (pa.types.is_string(kind) and column.distinct > 2))


def _is_code(column: Looked) -> bool:
    return bool(pa.types.is_integer(column.type)) and column.distinct <= _MOST_CODES


def _few(column: Looked) -> bool:
    return 1 < column.distinct <= _MOST_VALUES


def _visible(column: Looked) -> bool:
    return column.named(_VISIBLE) or bool(pa.types.is_temporal(column.type))
