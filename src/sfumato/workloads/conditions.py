"""Conditions on one column: a stretch of numbers, or some values; as SQL and on arrays."""

from __future__ import annotations

import datetime
import decimal
import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Value, value_to_json
from sfumato.draws import BoolArray
from sfumato.errors import UsageError


@dataclass(frozen=True)
class Between:
    """Numbers from `low` to `high`, both included.

    >>> Between(30, 39).sql("age"), Between(30, 30).sql("age")
    ('"age" BETWEEN 30 AND 39', '"age" = 30')
    """

    low: Value
    high: Value

    def sql(self, column: str) -> str:
        if self.low == self.high:
            return f"{identifier(column)} = {literal(self.low)}"
        return f"{identifier(column)} BETWEEN {literal(self.low)} AND {literal(self.high)}"

    def holds(self, values: pa.Array) -> BoolArray:
        """Which of the values satisfy it; a missing value does not."""
        above = pc.greater_equal(values, pa.scalar(self.low, values.type))
        inside = pc.and_(above, pc.less_equal(values, pa.scalar(self.high, values.type)))
        return _filled(inside)

    def holds_json(self, value: Value) -> bool:
        """Whether a value, as a manifest writes it, satisfies the condition."""
        return value is not None and bool(self.low <= value <= self.high)


@dataclass(frozen=True)
class OneOf:
    """One of the listed values; None stands for a missing one.

    >>> OneOf(("F",)).sql("sex"), OneOf((1, 2)).sql("race"), OneOf((None, "a")).sql("x")
    ('"sex" = \\'F\\'', '"race" IN (1, 2)', '("x" = \\'a\\' OR "x" IS NULL)')
    """

    values: tuple[Value, ...]

    def sql(self, column: str) -> str:
        name = identifier(column)
        present = [literal(value) for value in self.values if value is not None]
        text = (
            f"{name} = {present[0]}" if len(present) == 1 else f"{name} IN ({', '.join(present)})"
        )
        if None not in self.values:
            return text
        return f"({text} OR {name} IS NULL)" if present else f"{name} IS NULL"

    def holds(self, values: pa.Array) -> BoolArray:
        """Which of the values are listed."""
        return _filled(pc.is_in(values, value_set=pa.array(self.values, values.type)))

    def holds_json(self, value: Value) -> bool:
        """Whether a value, as a manifest writes it, is listed."""
        return value in [value_to_json(value) for value in self.values]


Condition = Between | OneOf


def _filled(found: pa.Array) -> BoolArray:
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), np.bool_)


def identifier(name: str) -> str:
    """A column's name in SQL.

    >>> identifier('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(value: Value) -> str:
    """A value in SQL.

    >>> literal("it's"), literal(3), literal(True), literal(datetime.date(2026, 11, 15))
    ("'it''s'", '3', 'TRUE', "CAST('2026-11-15' AS DATE)")
    """
    if isinstance(value, bool | np.bool_):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float) and not math.isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, int | float | decimal.Decimal):
        return str(value)
    for kind, name in (
        (datetime.datetime, "TIMESTAMP"),  # a datetime is a date as well
        (datetime.date, "DATE"),
        (datetime.time, "TIME"),
    ):
        if isinstance(value, kind):
            return f"CAST('{value.isoformat()}' AS {name})"
    raise UsageError(
        f"Values of the type {type(value).__name__} cannot be asked about. Leave their column out "
        "of the workload."
    )
