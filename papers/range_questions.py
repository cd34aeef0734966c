"""The range and prefix counts that the generalization papers ask.

`ranges` (heterogeneous generalization, Section 5): λ quasi columns and the sensitive one, each in a
random stretch of its domain of |A|·θ^(1/(λ+1)) values, so that a share θ of the records would
qualify were everything uniform and independent (errata H18). `prefixes` (the same paper, as Census
staff suggested): one numeric column from its least value up to a random one, up to three others
equal a value each, and one sensitive value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Value
from sfumato.draws import BoolArray, Draws, IntArray, Positions
from sfumato.operators.base import FloatArray
from sfumato.queries import open_release
from sfumato.queries.dialect import sql_text
from sfumato.queries.statements import literal, quoted
from sfumato.release import Release
from sfumato.table import Table
from sfumato.workloads import CodedPeople, people_of

_MOST_TRIES = 20  # candidates a question


@dataclass(frozen=True)
class OneOf:
    """One of the listed values.

    >>> OneOf(("F",)).sql("sex"), OneOf((1, 2)).sql("race")
    ('"sex" IN (\\'F\\')', '"race" IN (1, 2)')
    """

    values: tuple[Value, ...]

    def sql(self, column: str) -> str:
        return f"{quoted(column)} IN ({', '.join(sql_text(literal(v)) for v in self.values)})"

    def holds(self, values: pa.Array) -> BoolArray:
        """Which of the values are listed."""
        found = pc.is_in(values, value_set=pa.array(self.values, values.type))
        return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


@dataclass(frozen=True)
class Between:
    """Numbers from `low` to `high`, both included."""

    low: Value
    high: Value

    def sql(self, column: str) -> str:
        low, high = (sql_text(literal(end)) for end in (self.low, self.high))
        return f"{quoted(column)} BETWEEN {low} AND {high}"

    def holds(self, values: pa.Array) -> BoolArray:
        """Which of the values lie between."""
        low, high = (pa.scalar(end, values.type) for end in (self.low, self.high))
        inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
        return np.asarray(pc.fill_null(inside, False).to_numpy(zero_copy_only=False), np.bool_)


Condition = Between | OneOf


@dataclass(frozen=True, eq=False)
class RangeQuestion:
    """How many records satisfy the conditions on quasi columns and have one of `values`."""

    conditions: Mapping[str, Condition]
    column: str
    values: tuple[Value, ...]

    def sql(self, select: str = "COUNT(*) AS n") -> str:
        asked = [condition.sql(name) for name, condition in self.conditions.items()]
        if self.values:
            asked.append(OneOf(self.values).sql(self.column))
        return f"SELECT {select} FROM release WHERE {' AND '.join(asked) or 'TRUE'}"


@dataclass(frozen=True, eq=False)
class RangeCounts:
    """Questions whose true answer is not 0, and these answers."""

    questions: tuple[RangeQuestion, ...]
    truth: IntArray

    @classmethod
    def of(
        cls,
        table: Table,
        kind: str,
        *,
        count: int,
        seed: int,
        columns: int = 3,
        selectivity: float = 0.25,
    ) -> RangeCounts:
        """`count` different ones where the table has so many; the same seed makes the same."""
        people = people_of(table)
        numeric = [name for name in people.quasi if table.kinds[name] == "numeric"]
        maker = _Maker(people, numeric, Draws.from_seed(seed).child(f"workload {kind}"))
        width = min(columns, len(people.quasi))
        chosen: dict[str, tuple[RangeQuestion, int]] = {}
        with duckdb.connect() as raw:
            columns_asked = (*people.quasi, maker.column)
            raw.register("release", pa.Table.from_batches(table.batches(columns_asked)))
            for number in range(_MOST_TRIES * count):
                if len(chosen) == count:
                    break
                if kind == "prefixes":
                    question = maker.prefix(number, width, raw)
                else:
                    question = maker.ranges(number, width, selectivity)
                found = raw.sql(question.sql()).fetchall()[0][0]
                if found and question.values:
                    chosen[question.sql()] = question, found
        questions, truth = zip(*chosen.values(), strict=True)
        return cls(questions, np.array(truth, np.int64))


def answers_of(questions: tuple[RangeQuestion, ...], release: Release) -> FloatArray:
    """The estimates that `query` gives."""
    opened = open_release(release.path, verify=False)
    return np.array([opened.sql(question.sql()).value for question in questions])


class _Maker:
    """Candidates, each with draws of its own."""

    def __init__(self, people: CodedPeople, numeric: Sequence[str], draws: Draws) -> None:
        self.people, self.numeric, self.draws = people, numeric, draws
        self.column = next(iter(people.sensitive))

    def _below(self, purpose: str, number: int, bound: int) -> int:
        return int(self.draws.below(purpose, Positions(number, 1), bound)[0])

    def _columns(self, number: int, width: int, without: str = "") -> list[str]:
        names = list(self.people.quasi)
        words = self.draws.words("columns", Positions(number * len(names), len(names)))
        return [name for k in words.argsort() if (name := names[k]) != without][:width]

    def prefix(self, number: int, most: int, raw: duckdb.DuckDBPyConnection) -> RangeQuestion:
        quasi = self.people.quasi
        names = self.numeric or list(quasi)
        name = names[self._below("prefix", number, len(names))]
        length = 1 + self._below(f"of {name}", number, len(quasi[name]))
        conditions = {name: self._stretch(name, 0, length)}
        width = self._below("width", number, most) if most > 1 else 0
        for other in self._columns(number, width, without=name):
            start = self._below(f"of {other}", number, len(quasi[other]))
            conditions[other] = self._stretch(other, start, 1)
        asked = RangeQuestion(conditions, self.column, ())
        text = asked.sql(f"DISTINCT {quoted(self.column)} AS v") + " ORDER BY v"
        values = [value for (value,) in raw.sql(text).fetchall()]
        chosen = values[self._below("value for all", number, len(values))] if values else None
        return RangeQuestion(conditions, self.column, (chosen,) if values else ())

    def ranges(self, number: int, width: int, selectivity: float) -> RangeQuestion:
        def some(name: str, domain: pa.Array) -> tuple[int, int]:
            length = max(1, round(len(domain) * selectivity ** (1 / (width + 1))))
            return self._below(f"of {name}", number, len(domain) - length + 1), length

        quasi, sensitive = self.people.quasi, self.people.sensitive[self.column]
        conditions = {
            name: self._stretch(name, *some(name, quasi[name]))
            for name in self._columns(number, width)
        }
        values = sensitive.slice(*some(self.column, sensitive)).to_pylist()
        return RangeQuestion(conditions, self.column, tuple(values))

    def _stretch(self, name: str, start: int, length: int) -> Condition:
        """Neighbouring values of a domain: a range of numbers, a list of anything else."""
        values = self.people.quasi[name].slice(start, length).to_pylist()
        return Between(values[0], values[-1]) if name in self.numeric else OneOf(tuple(values))
