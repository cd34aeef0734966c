"""What a column is: its role, its kind and its domain, the same for tables and releases."""

from __future__ import annotations

import datetime
import decimal
import math
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, convert, structs, to_builtins

Role = Literal["quasi", "sensitive"]
Kind = Literal["numeric", "categorical"]
Value = Any  # a scalar: None, bool, int, float, str, date, datetime, time or Decimal
if TYPE_CHECKING:
    Stated = Value
    Number = int | float
else:  # as JSON holds them, see `value_to_json`
    Stated = str | int | float | bool | None
    Number = int | float | Literal["inf", "-inf"]
LongText = Annotated[str, Meta(max_length=4_000_000, pattern="^[^@]*$")]
Count = Annotated[int, Meta(ge=0, lt=1 << 62)]
Counts = tuple[Count, ...]


class ManifestPart(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a manifest: what is not declared cannot stand in it."""


class Values(ManifestPart, frozen=True, tag="values", tag_field="form"):
    """An ordered list of values; None stands for a missing value that counts as one."""

    values: tuple[Stated, ...]

    def __len__(self) -> int:
        return len(self.values)


class Range(ManifestPart, frozen=True, tag="range", tag_field="form"):
    """The numbers from `low` to `high`; `missing` says whether nulls occur beside them."""

    low: Number | None
    high: Number | None
    missing: bool = False

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            if isinstance(end := getattr(self, name), str):
                structs.force_setattr(self, name, float(end))


class Column(ManifestPart, frozen=True):
    """A published column. `type` is the Arrow type's text, of the values, never of their codes."""

    name: Annotated[str, Meta(min_length=1)]
    role: Role
    kind: Kind
    type: Annotated[str, Meta(max_length=200)]
    domain: Values | Range | None = None  # None: too many different values to list
    bins: Annotated[tuple[Number, ...], Meta(min_length=3)] | None = None  # edges, where binned
    recode: LongText = ""  # how the steward made it from the raw column

    def __post_init__(self) -> None:
        if self.bins is not None:
            structs.force_setattr(self, "bins", tuple(map(float, self.bins)))

    def to_json(self) -> dict[str, Any]:
        described: dict[str, Any] = in_json(self)
        return described

    @staticmethod
    def from_json(described: dict[str, Any]) -> Column:
        return convert(described, Column)


def in_json(part: Struct) -> Any:
    """A part of a manifest as JSON holds it.

    >>> in_json(Range(0, math.inf))
    {'form': 'range', 'low': 0, 'high': 'inf', 'missing': False}
    """
    kept = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, bytes,
            decimal.Decimal)  # fmt: skip
    return _plain(to_builtins(part, builtin_types=kept, enc_hook=str))


def _plain(stated: Any) -> Any:
    if isinstance(stated, dict):
        return {name: _plain(inside) for name, inside in stated.items()}
    if isinstance(stated, (list, tuple)):
        return [_plain(inside) for inside in stated]
    return value_to_json(stated)


def bin_labels(edges: Sequence[float]) -> tuple[str, ...]:
    """How the bins between ascending edges are written.

    >>> bin_labels((0.0, 100.0, math.inf))
    ('[0, 100)', '[100, inf)')
    """
    pairs = list(pairwise(edges))
    closed = [")"] * (len(pairs) - 1) + ["]"]
    return tuple(
        f"{'(' if math.isinf(low) else '['}{edge_text(low)}, {edge_text(high)}"
        f"{')' if math.isinf(high) else bracket}"
        for (low, high), bracket in zip(pairs, closed, strict=True)
    )


def edge_text(edge: float) -> str:
    """The edge of a bin; two edges never look alike: their bins would be one value."""
    return str(int(edge)) if edge.is_integer() and abs(edge) < 1e15 else repr(edge)


def value_to_json(value: Value) -> Value:
    """A value as JSON can hold it: dates and decimals as text, infinities by name.

    >>> value_to_json(datetime.date(2026, 11, 15)), value_to_json(3), value_to_json(float("inf"))
    ('2026-11-15', 3, 'inf')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, (datetime.date, datetime.datetime, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, datetime.timedelta)):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return value


def usual_text(text: str) -> str:
    """A text as tables are read: in one Unicode form, without blanks around it.

    >>> usual_text(" cafe\u0301")
    'café'
    """
    return unicodedata.normalize("NFC", text).strip()


def value_text(value: Value) -> str:
    """How a message names a value: missing is `(missing)`.

    >>> value_text(None), value_text("flu"), value_text(3)
    ('(missing)', "'flu'", '3')
    """
    return "(missing)" if value is None else repr(value_to_json(value))


def label(value: object) -> str:
    """How a table writes a value.

    >>> label(None), label("flu"), label(3)
    ('(missing)', 'flu', '3')
    """
    return "(missing)" if value is None else str(value_to_json(value))


def quoted(name: str) -> str:
    """A name inside SQL, exactly as it is.

    >>> print(quoted('an "odd" name'))
    "an ""odd"" name"
    """
    return '"' + name.replace('"', '""') + '"'


def list_some(items: Sequence[str], most: int = 12) -> str:
    """Join names for a message, the first `most` of them.

    >>> list_some(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(items[:most])
    rest = len(items) - most
    return f"{shown} and {rest} more" if rest > 0 else shown


def domain_text(domain: Values | Range | None, most: int = 12) -> str:
    """A domain in a few words, `most` of its values by name.

    >>> domain_text(Values(("F", "M"))), domain_text(Range(16, 93)), domain_text(None)
    ("'F', 'M'", '16 … 93', 'more than 10,000 values')
    """
    if domain is None:
        return "more than 10,000 values"
    if isinstance(domain, Values):
        return list_some([value_text(value) for value in domain.values], most)
    return f"{domain.low} … {domain.high}{', or missing' if domain.missing else ''}"
