"""Count questions: conditions on columns, as SQL that anybody can ask and on arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Value, value_to_json
from sfumato.draws import BoolArray
from sfumato.queries.dialect import sql_text
from sfumato.queries.statements import literal, quoted


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
            return f"{quoted(column)} = {_sql(self.low)}"
        return f"{quoted(column)} BETWEEN {_sql(self.low)} AND {_sql(self.high)}"

    def holds(self, values: pa.Array) -> BoolArray:
        """Which of the values satisfy it; a missing value does not."""
        above = pc.greater_equal(values, pa.scalar(self.low, values.type))
        inside = pc.and_(above, pc.less_equal(values, pa.scalar(self.high, values.type)))
        return _filled(inside)

    def holds_json(self, value: Value) -> bool:
        """Whether a value, as a manifest writes it, satisfies it."""
        return value is not None and bool(self.low <= value <= self.high)


@dataclass(frozen=True)
class OneOf:
    """One of the listed values; None stands for a missing one.

    >>> OneOf(("F",)).sql("sex"), OneOf((1, 2)).sql("race"), OneOf((None, "a")).sql("x")
    ('"sex" = \\'F\\'', '"race" IN (1, 2)', '("x" = \\'a\\' OR "x" IS NULL)')
    """

    values: tuple[Value, ...]

    def sql(self, column: str) -> str:
        name = quoted(column)
        present = [_sql(value) for value in self.values if value is not None]
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


def _sql(value: Value) -> str:
    return sql_text(literal(value))


@dataclass(frozen=True, eq=False)
class CountQuestion:
    """How many records satisfy the conditions on quasi columns and have one of `values`.

    >>> CountQuestion({"age": Between(30, 39)}, "disease", ("flu",)).sql()
    'SELECT COUNT(*) FROM release WHERE "age" BETWEEN 30 AND 39 AND "disease" = \\'flu\\''
    """

    conditions: Mapping[str, Condition]
    column: str
    values: tuple[Value, ...]

    @property
    def key(self) -> tuple[tuple[str, Condition], ...]:
        """The conditions on quasi columns: questions with equal keys ask about the same records."""
        return tuple(sorted(self.conditions.items(), key=lambda item: item[0]))

    def sql(self) -> str:
        asked = [condition.sql(name) for name, condition in self.conditions.items()]
        asked.append(OneOf(self.values).sql(self.column))
        return f"SELECT COUNT(*) FROM release WHERE {' AND '.join(asked)}"


@dataclass(frozen=True, eq=False)
class Workload:
    """Questions about one sensitive column, and the text form that makes them again."""

    questions: tuple[CountQuestion, ...]
    source: str

    def __len__(self) -> int:
        return len(self.questions)

    def save(self, path: str | Path) -> None:
        """One statement per line; the first line is a comment."""
        lines = [f"-- sfumato workload: {self.source}"]
        lines += [f"{question.sql()};" for question in self.questions]
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
