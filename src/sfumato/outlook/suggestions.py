"""Guesses at the roles of columns, from their names and from what a first look counts.

A guess is shown and never taken by itself. It must not lead astray: a number that only counts the
rows is no key, an identifier that repeats is worth more than one that does not, and what everybody
can see of a person is quasi, not sensitive.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from sfumato.engines.cautions import IDENTIFIER, is_named

MOST_SENSITIVE = 3  # columns that are suggested as sensitive
_MOST_VALUES = 1000  # more are no sensitive column without a recode
_LEAST_TEXTS = 100  # rows from which on texts that hardly repeat are seen to
_MOST_CODES = 100  # more whole numbers are amounts, not codes
_LEAST_PEOPLE = 20  # an identifier that repeats has one in so many rows at least
_MOSTLY = 0.8  # of the records whose values have a form: then the column has it
_MISSING = 0.5  # of the records: a column that says less is not worth its risk
_NEUTRAL = r"not in universe.*|other|all other|unknown|none|\?|na|n/a"  # says nothing of the column
_AMOUNT = r"num|number|count"  # a number of diagnoses is no diagnosis
_UNNAMED = r"column\d+"  # a name that a file without names was given


@dataclass(frozen=True)
class Meaning:
    """What a column is about, seen by a word of its name or by the form of its values."""

    name: str
    role: str
    words: str
    values: str = ""


# sensitive meanings in the order in which they are suggested, then what others may know
MEANINGS = (
    Meaning(
        "diagnosis",
        "sensitive",
        r"diag|diagnosis|diagnoses|disease|illness|ill|icd|condition",
        r"[a-z]\d{2}(\.\w{1,4})?|\d{3}\.\d{1,2}",
    ),
    Meaning("readmission", "sensitive", r"readmitted|readmission|readmit"),
    Meaning("specialty", "sensitive", r"specialty|speciality"),
    Meaning(
        "occupation",
        "sensitive",
        r"occupation|job|profession",
        r".*(specialty|exec|clerical|adm support|machine|tech|sales|craft|operators|farming"
        r"|handlers|cleaners|service|serv|production|transport|household|teacher|nurse).*",
    ),
    Meaning(
        "income",
        "sensitive",
        r"salary|income|wage|debt|cost",
        r"[<>=+-]+ ?\$?\d[\d.,]*k?\.?|\$?\d[\d.,]*k?\+\.?",
    ),
    Meaning("outcome", "sensitive", r"outcome|disposition|class|died|death|mortality"),
    Meaning("result", "sensitive", r"result|test"),
    Meaning("treatment", "sensitive", r"drug|medication|treatment|dose", r"no|steady|up|down"),
    Meaning("age", "quasi", r"age"),
    Meaning("sex", "quasi", r"sex|gender", r"f|m|w|female|male|woman|man"),
    Meaning(
        "race",
        "quasi",
        r"race|ethnicity|ethnic|hispanic",
        r"white|black|caucasian|african.*|asian.*|hispanic.*|amer-?indian.*",
    ),
    Meaning(
        "marital_status",
        "quasi",
        r"marital|married",
        r".*\b(married|divorced|widowed|separated).*|single|never-married",
    ),
    Meaning(
        "education",
        "quasi",
        r"education|school|degree",
        r".*(grade|high school|college|bachelor|master|doctor|degree|children|hs-grad|assoc-).*"
        r"|\d+(st|nd|rd|th)(-\d+th)?|prof-school|preschool",
    ),
    Meaning(
        "workclass", "quasi", r"workclass", r"private|self-emp.*|.*-gov|without-pay|never-worked"
    ),
    Meaning(
        "relationship",
        "quasi",
        r"relationship|household",
        r"husband|wife|own-child|not-in-family|unmarried|other-relative",
    ),
    Meaning(
        "country", "quasi", r"country|nationality|native", r"united.states|mexico|germany|cuba"
    ),
    Meaning(
        "place", "quasi", r"zip|zipcode|postcode|plz|region|city|town|state|county|ward|hospital"
    ),
    Meaning(
        "visible",
        "quasi",
        r"birth|born|birthdate|dob|religion|height|weight|admission|admitted|discharge|arrival"
        r"|department|date|year|month",
    ),
)


@dataclass(frozen=True)
class Suggestion:
    """A role that a column may have: marked as a guess, never taken by itself."""

    role: str
    why: str
    meaning: str = ""  # what the column is about, where that was seen


@dataclass(frozen=True)
class Looked:
    """What a first look counted of a column: `low` and `high` of numbers, `common` of texts."""

    name: str
    type: pa.DataType
    rows: int
    present: int
    distinct: int
    exact: bool
    low: float | None = None
    high: float | None = None
    common: tuple[tuple[str, int], ...] = ()  # the commonest values, with their counts

    @cached_property
    def meaning(self) -> Meaning | None:
        """What the column is about, or nothing that its name or values show."""
        amount = self.named(_AMOUNT)
        shown = (
            meaning
            for meaning in MEANINGS
            if (self.named(meaning.words) and not (amount and meaning.role == "sensitive"))
            or self._has_form(meaning.values)
            or (meaning.name == "age" and re.fullmatch(_UNNAMED, self.name) and self._like_ages)
        )
        return next(shown, None)

    @property
    def _like_ages(self) -> bool:
        if self.low is None or self.high is None or not pa.types.is_integer(self.type):
            return False
        return self.low >= 0 and 60 <= self.high <= 120 and self.distinct >= 40

    def _has_form(self, form: str) -> bool:
        if not form or not pa.types.is_string(self.type):
            return False
        texts = [(text.strip().casefold(), count) for text, count in self.common]
        telling = [(text, count) for text, count in texts if not re.fullmatch(_NEUTRAL, text)]
        fitting = sum(count for text, count in telling if re.fullmatch(form, text))
        return fitting > 0 and fitting >= _MOSTLY * sum(count for _, count in telling)

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
        return self._shared and self.named(IDENTIFIER) and self.meaning is None

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
    suggested = [_plain(column, columns) for column in columns]
    hidden = _sensitive(
        columns, [index for index, suggestion in enumerate(suggested) if suggestion is None]
    )
    first: dict[str, str] = {}  # the first column of each meaning
    for place in hidden:
        meaning = columns[place].meaning
        about = meaning.name if meaning else ""
        if about not in first and len(first) < MOST_SENSITIVE:
            values = f"{columns[place].distinct:,} different values"
            why = f"It has {values} that others may not know."
            suggested[place] = Suggestion("sensitive", why, about)
            first[about] = columns[place].name
        else:
            like = f", like {first[about]!r}" if about in first else ""
            why = f"Sensitive as well{like}, and such columns tell more together."
            suggested[place] = Suggestion("drop", why, about)
    return [
        suggestion or _public(column) for suggestion, column in zip(suggested, columns, strict=True)
    ]


def _sensitive(columns: Sequence[Looked], free: Sequence[int]) -> list[int]:
    """Places of the sensitive columns: the most telling meanings first.

    Where no column has such a meaning, the one with the most values that are still few: texts,
    else codes.
    """
    few = [index for index in free if 1 < columns[index].distinct <= _MOST_VALUES]
    ranked = [
        index
        for meaning in MEANINGS
        if meaning.role == "sensitive"
        for index in few
        if columns[index].meaning == meaning
    ]
    plain = [index for index in few if not _visible(columns[index])]
    texts = [index for index in plain if _is_text(columns[index])]
    codes = [index for index in plain if _is_code(columns[index])]
    return ranked or sorted(texts or codes, key=lambda place: columns[place].distinct)[-1:]


def _public(column: Looked) -> Suggestion:
    if _visible(column):
        about = column.meaning.name if column.meaning else "visible"
        return Suggestion("quasi", "Others may know it of a person.", about)
    if column.named(_AMOUNT):
        return Suggestion("drop", "A number of something; keep it only where it is needed.")
    if column.common and all(re.fullmatch("y|n|yes|no", t.casefold()) for t, _ in column.common):
        return Suggestion("drop", "A yes or no; keep it only where it is needed.")
    return Suggestion("drop", "Its name does not tell what it is; keep it only where it is needed.")


def _plain(column: Looked, columns: Sequence[Looked]) -> Suggestion | None:
    if not column.present:
        return Suggestion("drop", "Every value is missing.")
    if column.distinct == 1 and column.exact and column.rows > 1:
        return Suggestion("drop", "Every row has the same value.")
    if column.rows - column.present > _MISSING * column.rows and column.rows > _LEAST_TEXTS:
        share = (column.rows - column.present) / column.rows
        return Suggestion("drop", f"Missing in {100 * share:.0f} % of the rows.")
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


def _visible(column: Looked) -> bool:
    is_quasi = column.meaning is not None and column.meaning.role == "quasi"
    return is_quasi or bool(pa.types.is_temporal(column.type))
