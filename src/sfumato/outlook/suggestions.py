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
from typing import Any, NamedTuple

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


class Meaning(NamedTuple):
    """What a column is about, seen by a word of its name or by the form of its values."""

    name: str
    role: str
    words: str
    values: str = ""


# in the order in which they are suggested
_SENSITIVE = {
    "diagnosis": "diag|diagnosis|diagnoses|diagnose|disease|illness|ill|icd|condition",
    "readmission": "readmitted|readmission|readmit",
    "specialty": "specialty|speciality",
    "occupation": "occupation|job|profession|beruf",
    "income": "salary|income|wage|debt|cost|gehalt",
    "outcome": "outcome|disposition|class|died|death|mortality",
    "result": "result|test",
    "treatment": "drug|medication|treatment|dose",
}
_QUASI = {  # what others may know
    "age": "age|alter",
    "sex": "sex|gender|geschlecht",
    "race": "race|ethnicity|ethnic|hispanic",
    "marital_status": "marital|married",
    "education": "education|school|degree",
    "workclass": "workclass",
    "relationship": "relationship|household",
    "country": "country|nationality|native",
    "place": "zip|zipcode|postcode|plz|region|city|town|state|county|ward|hospital",
    "visible": "birth|born|birthdate|dob|religion|height|weight|admission|admitted|discharge"
    "|arrival|department|date|year|month",
}
_FORMS = {  # of most values
    "diagnosis": r"[a-z]\d{2}(\.\w{1,4})?|\d{3}\.\d{1,2}|flu|influenza|cold|asthma|diabetes.*"
    r"|.*cancer|hiv.*|.*itis|ulcer|angina",
    "occupation": r".*(specialty|exec|clerical|adm support|machine|tech|sales|craft|operators"
    r"|farming|handlers|cleaners|service|serv|production|transport|household"
    r"|teacher|nurse).*",
    "income": r"[<>=+-]+ ?\$?\d[\d.,]*k?\.?|\$?\d[\d.,]*k?\+\.?",
    "treatment": r"no|steady|up|down",
    "sex": r"f|m|w|female|male|woman|man",
    "race": r"white|black|caucasian|african.*|asian.*|hispanic.*|amer-?indian.*",
    "marital_status": r".*\b(married|divorced|widowed|separated).*|single|never-married",
    "education": r".*(grade|high school|college|bachelor|master|doctor|degree|children|hs-grad"
    r"|assoc-).*|\d+(st|nd|rd|th)(-\d+th)?|prof-school|preschool",
    "workclass": r"private|self-emp.*|.*-gov|without-pay|never-worked",
    "relationship": r"husband|wife|own-child|not-in-family|unmarried|other-relative",
    "country": r"united.states|mexico|germany|cuba",
}
MEANINGS = [
    Meaning(name, role, words, _FORMS.get(name, ""))
    for role, named in (("sensitive", _SENSITIVE), ("quasi", _QUASI))
    for name, words in named.items()
]


@dataclass(frozen=True)
class Suggestion:
    """A role that a column may have: marked as a guess, never taken by itself."""

    role: str
    why: str
    meaning: str = ""  # what the column is about, where that was seen


@dataclass(frozen=True)
class Bars:
    """A histogram: `kind` is values or bins; `others` records are in no bar."""

    kind: str
    bars: tuple[tuple[str, int], ...]
    others: int


@dataclass(frozen=True)
class SurveyedColumn:
    """What a first look counts of a column: `low`, `high` and `quintiles` are of numbers, days and
    instants, `markers` texts that may stand for what is not known."""

    name: str
    type: pa.DataType
    rows: int
    present: int
    distinct: int
    low: float | None = None
    high: float | None = None
    quintiles: tuple[float, ...] = ()
    bars: Bars = Bars("values", (), 0)
    markers: tuple[str, ...] = ()
    suggestion: Suggestion = Suggestion("drop", "")

    @property
    def nulls(self) -> int:
        return self.rows - self.present

    @property
    def role(self) -> str:
        return self.suggestion.role

    def to_json(self) -> dict[str, Any]:
        bars = [{"label": label, "count": count} for label, count in self.bars.bars]
        return {
            "name": self.name,
            "type": str(self.type),
            "nulls": self.nulls,
            "distinct": self.distinct,
            "suggestion": {"role": self.role, "why": self.suggestion.why},
            "histogram": {"kind": self.bars.kind, "bars": bars, "others": self.bars.others},
            "markers": list(self.markers),
        }

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

    @property
    def common(self) -> Sequence[tuple[str, int]]:
        """The commonest values, with their counts."""
        return self.bars.bars if self.bars.kind == "values" else ()

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
    def visible(self) -> bool:
        """Whether others may know it of a person."""
        is_quasi = self.meaning is not None and self.meaning.role == "quasi"
        return is_quasi or bool(pa.types.is_temporal(self.type))

    @property
    def _names(self) -> bool:
        """Whether it can name people, by its type."""
        kind, types = self.type, pa.types
        return bool(types.is_string(kind) or types.is_integer(kind) or types.is_binary(kind))

    @property
    def amount(self) -> bool:
        """Whether it is a sensitive number, by its name: many incomes differ, and name nobody."""
        sensitive = self.meaning is not None and self.meaning.role == "sensitive"
        names = f"{_SENSITIVE['diagnosis']}|{IDENTIFIER}"
        return sensitive and self.low is not None and not self.named(names)

    @property
    def alone(self) -> bool:
        """Whether no two rows share a value that may name somebody."""
        return self._names and self.distinct == self.present > 1

    @property
    def numbers_rows(self) -> bool:
        """Whether it counts 0, 1, 2 … from row to row."""
        if not pa.types.is_integer(self.type) or self.low is None or self.high is None:
            return False
        return self.distinct == self.present == self.high - self.low + 1

    @property
    def _shared(self) -> bool:
        """Whether a few rows share each of its many values."""
        often = self.distinct * _LEAST_PEOPLE >= self.present > self.distinct
        return self._names and often and self.distinct > 50

    @property
    def repeats(self) -> bool:
        """Whether it is named like an identifier, and several rows share one."""
        return self._shared and self.named(IDENTIFIER) and self.meaning is None

    @property
    def may_repeat(self) -> bool:
        """Whether hardly any rows share a value, and numbers lie as far apart as those of an
        identifier that several rows share; so do those of a measure."""
        if self.low is None or self.high is None:
            is_text = pa.types.is_string(self.type) and self.present > _LEAST_TEXTS
            return is_text and self.distinct < self.present < 4 * self.distinct
        few_share = 3 * self.distinct >= self.present
        return few_share and self._shared and self.high - self.low > 10 * self.distinct


def suggest(columns: Sequence[SurveyedColumn]) -> list[Suggestion]:
    """A guess for every column: what nobody can tell is dropped, which harms nobody.

    >>> stays = [
    ...     SurveyedColumn("stay", pa.int64(), 900, 900, 900, 0, 899),
    ...     SurveyedColumn("patient_nbr", pa.int64(), 900, 900, 600, 1e5, 9e8),
    ...     SurveyedColumn("sex", pa.string(), 900, 900, 2),
    ...     SurveyedColumn("diag_1", pa.string(), 900, 900, 200),
    ...     SurveyedColumn("weight", pa.string(), 900, 0, 0),
    ... ]
    >>> [suggestion.role for suggestion in suggest(stays)]
    ['drop', 'person', 'quasi', 'sensitive', 'drop']
    """
    people = any(column.repeats for column in columns)
    suggested = {column.name: _by_counts(column, people) for column in columns}
    first: dict[str, str] = {}  # the first column of each meaning
    for column in _sensitive([c for c in columns if suggested[c.name] is None]):
        about = column.meaning.name if column.meaning else ""
        if about not in first and len(first) < MOST_SENSITIVE:
            why = f"It has {column.distinct:,} different values that others may not know."
            if column.distinct > _MOST_VALUES:
                why += " Give it bins."
            suggested[column.name] = Suggestion("sensitive", why, about)
            first[about] = column.name
        else:
            like = f", like {first[about]!r}" if about in first else ""
            why = f"Sensitive as well{like}, and such columns tell more together."
            suggested[column.name] = Suggestion("drop", why, about)
    return [suggested[column.name] or _by_name(column) for column in columns]


def _sensitive(columns: Sequence[SurveyedColumn]) -> list[SurveyedColumn]:
    """Those that are sensitive: the most telling meanings first.

    Where no column has such a meaning, the one with the most values that are still few: texts,
    else codes.
    """
    few = [c for c in columns if 1 < c.distinct <= _MOST_VALUES or c.amount]
    ranked = [c for m in MEANINGS if m.role == "sensitive" for c in few if c.meaning == m]
    plain = [c for c in few if not c.visible]
    texts = [
        c for c in plain
        if pa.types.is_boolean(c.type) or (pa.types.is_string(c.type) and c.distinct > 2)
    ]  # fmt: skip
    codes = [c for c in plain if pa.types.is_integer(c.type) and c.distinct <= _MOST_CODES]
    return ranked or sorted(texts or codes, key=lambda c: c.distinct)[-1:]


def _by_counts(column: SurveyedColumn, people: bool) -> Suggestion | None:
    """What the numbers of its values say; `people` where another column names them."""
    if not column.present:
        return Suggestion("drop", "Every value is missing.")
    if column.distinct == 1 and column.rows > 1:
        return Suggestion("drop", "Every row has the same value.")
    if column.nulls > _MISSING * column.rows and column.rows > _LEAST_TEXTS:
        return Suggestion(
            "drop", f"Missing in {100 * column.nulls / column.rows:.0f} % of the rows."
        )
    if column.amount:
        return None
    if column.repeats:
        why = f"{column.distinct:,} people in {column.present:,} rows?"
        return Suggestion("person", f"An identifier that repeats: {why}")
    if column.may_repeat:
        return Suggestion(
            "drop",
            f"{column.distinct:,} values in {column.present:,} rows: a measure, a text, or an "
            "identifier that repeats. If it names people, say so.",
        )
    if column.alone and people:
        return Suggestion("drop", "No two rows have the same value: it names rows, not people.")
    if column.alone and column.numbers_rows and not column.named(IDENTIFIER):
        return Suggestion("drop", "It only numbers the rows.")
    if column.alone:
        return Suggestion("key", "No two records have the same value, so it may name a person.")
    return None


def _by_name(column: SurveyedColumn) -> Suggestion:
    if column.visible:
        about = column.meaning.name if column.meaning else "visible"
        return Suggestion("quasi", "Others may know it of a person.", about)
    why = "Its name does not tell what it is; keep it only where it is needed."
    if column.named(_AMOUNT):
        why = "A number of something; keep it only where it is needed."
    elif column.common and all(re.fullmatch("y|n|yes|no", t.casefold()) for t, _ in column.common):
        why = "A yes or no; keep it only where it is needed."
    return Suggestion("drop", why)
