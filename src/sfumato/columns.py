"""What a column is: its role, its kind and its domain, the same for tables and releases."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

Role = Literal["quasi", "sensitive"]
Kind = Literal["numeric", "categorical"]
Value = Any  # a scalar: None, bool, int, float, str, date, datetime, time or Decimal


@dataclass(frozen=True)
class Values:
    """An ordered list of values; None stands for a missing value that counts as one."""

    values: tuple[Value, ...]

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`; `missing` says whether nulls occur beside them."""

    low: int | float | None
    high: int | float | None
    missing: bool = False


@dataclass(frozen=True)
class Column:
    """A published column. `type` is the Arrow type's text, of the values, never of their codes."""

    name: str
    role: Role
    kind: Kind
    type: str
    domain: Values | Range | None  # None: too many different values to list
    bins: tuple[float, ...] | None = None  # the edges, where a numeric column was binned
    recode: str = ""  # how the steward made it from the raw column

    def to_json(self) -> dict[str, Any]:
        described: dict[str, Any] = {
            "name": self.name,
            "role": self.role,
            "kind": self.kind,
            "type": self.type,
        }
        if isinstance(self.domain, Values):
            described["domain"] = {"values": [value_to_json(v) for v in self.domain.values]}
        elif isinstance(self.domain, Range):
            described["domain"] = {
                "low": value_to_json(self.domain.low),
                "high": value_to_json(self.domain.high),
                "missing": self.domain.missing,
            }
        if self.bins is not None:
            described["bins"] = [value_to_json(edge) for edge in self.bins]
        if self.recode:
            described["recode"] = self.recode
        return described

    @staticmethod
    def from_json(described: dict[str, Any]) -> Column:
        domain: Values | Range | None = None
        stated = described.get("domain")
        if stated is not None and "values" in stated:
            domain = Values(tuple(stated["values"]))
        elif stated is not None:
            domain = Range(
                number_from_json(stated["low"]), number_from_json(stated["high"]), stated["missing"]
            )
        edges = described.get("bins")
        bins = None if edges is None else tuple(float(edge) for edge in edges)
        return Column(
            described["name"],
            described["role"],
            described["kind"],
            described["type"],
            domain,
            bins,
            described.get("recode", ""),
        )


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


def number_from_json(value: Value) -> int | float | None:
    """Undo `value_to_json` for the ends of a range."""
    return float(value) if isinstance(value, str) else value


def value_text(value: Value) -> str:
    """How a message names a value: missing is `(missing)`.

    >>> value_text(None), value_text("flu"), value_text(3)
    ('(missing)', "'flu'", '3')
    """
    return "(missing)" if value is None else repr(value_to_json(value))


def list_some(items: Sequence[str], most: int = 12) -> str:
    """Join names for a message, the first `most` of them.

    >>> list_some(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(items[:most])
    rest = len(items) - most
    return f"{shown} and {rest} more" if rest > 0 else shown
