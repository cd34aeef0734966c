"""What a bucketed release shows of the records that a question selects, class by class.

A *class* is the records with the same quasi keys and the same quasi parts of mixed expressions. A
*cell* is a class together with a value of the sensitive column; conditions and keys that use that
column are decided cell by cell, by DuckDB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.draws import BoolArray, IntArray
from sfumato.errors import QueryError
from sfumato.operators.base import FloatArray
from sfumato.queries.bucket_table import BucketTable
from sfumato.queries.question import Aggregate, Question, Term
from sfumato.queries.rewrite import Stage, hoisted, over
from sfumato.queries.session import Session, quoted
from sfumato.queries.shrunk import Moments
from sfumato.queries.sums import RecordSums, all_of, where

if TYPE_CHECKING:
    from sfumato.queries.dialect import Node

MOST_CELLS = 20_000_000


@dataclass(frozen=True)
class Reading:
    """How an aggregate reads the classes: names of moments, and of the columns of its cells.

    A quasi argument e brings Σ e and Σ e²; an argument with the sensitive column stands in the
    cells' weight instead.
    """

    aggregate: Aggregate
    number: str
    total: str | None
    squares: str | None
    weight: str
    there: str


class Classes:
    """The classes of one question, and its cells by answer row."""

    def __init__(self, question: Question, session: Session, buckets: BucketTable) -> None:
        self._question, self._session, self._buckets = question, session, buckets
        self._records = session.record_columns()
        self._originals: dict[str, Node] = {
            buckets.column: exp.column("original", table="d", quoted=True)
        }
        self._mixed, self._moments, self._cells = Stage("m"), Stage("s"), Stage("w")
        keys = [
            f"p.k{place}" if not key.sensitive else self._over_cells(key)
            for place, key in enumerate(question.keys)
        ]
        conditions = [self._over_cells(term) for term in question.where if term.sensitive]
        self.readings = [self._reading(aggregate) for aggregate in question.aggregates]
        self._read_classes()
        self._read_cells(keys, conditions)

    # -- what the estimators see ---------------------------------------------------------------

    @property
    def number(self) -> int:
        """How many classes there are."""
        return int(self._classes.num_rows)

    def moments(self, reading: Reading, number: int) -> Moments:
        totals, shown = self._totals, self._shown
        count = Moments.count(totals[reading.number][number], shown[reading.number][number])
        if reading.total is None or reading.squares is None:
            return count
        return Moments(
            count.number,
            totals[reading.total][number],
            totals[reading.squares][number],
            count.shown,
            shown[reading.total][number],
            shown[reading.squares][number],
        )

    def forms(self, reading: Reading, number: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """Of one class: the answer rows it adds to, and by value what it adds and where."""
        cells = self._cells_of[number]
        chosen, inverse = np.unique(self._row[cells], return_inverse=True)
        weights = np.zeros((len(chosen), len(self._buckets.domain)))
        there = np.zeros_like(weights)
        weights[inverse, self._code[cells]] = self._weights[reading.weight][cells]
        there[inverse, self._code[cells]] = self._there[reading.there][cells]
        return chosen, weights * there, there

    # -- SQL -----------------------------------------------------------------------------------

    def _reading(self, aggregate: Aggregate) -> Reading:
        on_records = [over(t, self._records) for t in aggregate.filter if not t.sensitive]
        on_cells = [self._over_cells(t) for t in aggregate.filter if t.sensitive]
        chosen = f" FILTER (WHERE {all_of(on_records)})" if on_records else ""
        argument = aggregate.argument
        if argument is None or not argument.sensitive:
            there = self._cells.add(all_of(on_cells))
            weight = self._cells.add("1.0")
            if argument is None:
                return Reading(
                    aggregate, self._moments.add(f"count(*){chosen}"), None, None, weight, there
                )
            inside = over(argument, self._records)
            number = self._moments.add(f"count({inside}){chosen}")
            if aggregate.function == "count":
                return Reading(aggregate, number, None, None, weight, there)
            self._check_number(aggregate, f"SELECT {inside} FROM records LIMIT 0", {})
            e = f"CAST({inside} AS DOUBLE)"
            total = self._moments.add(f"coalesce(sum({e}){chosen}, 0.0)")
            squares = self._moments.add(f"coalesce(sum({e} * {e}){chosen}, 0.0)")
            return Reading(aggregate, number, total, squares, weight, there)
        number = self._moments.add(f"count(*){chosen}")
        inside = self._over_cells(argument)
        there = self._cells.add(all_of([*on_cells, f"({inside}) IS NOT NULL"]))
        counted = aggregate.function == "count"
        weight = self._cells.add("1.0" if counted else f"CAST({inside} AS DOUBLE)")
        return Reading(aggregate, number, None, None, weight, there)

    def _over_cells(self, term: Term) -> str:
        def carry(sql: str) -> Node:
            return exp.column(self._mixed.add(sql), table="p")

        return hoisted(term, self._records, self._originals, carry)

    def _check_number(self, aggregate: Aggregate, sql: str, tables: dict[str, pa.Table]) -> None:
        kind = self._session.run(sql, tables).schema.field(0).type
        numbers = (
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_decimal(kind)
            or pa.types.is_boolean(kind)
        )
        if not numbers:
            assert aggregate.argument is not None
            raise QueryError(
                f"{aggregate.function.upper()} needs a number; {aggregate.argument.text} is "
                f"{kind}. CAST it to double if its texts are numbers, or use COUNT."
            )

    def _read_classes(self) -> None:
        question = self._question
        quasi = [place for place, key in enumerate(question.keys) if not key.sensitive]
        split = [f"{over(question.keys[place], self._records)} AS k{place}" for place in quasi]
        split += self._mixed.listed()
        names = [*(f"k{place}" for place in quasi), *self._mixed.names]
        known = [over(term, self._records) for term in question.where if not term.sensitive]
        split.append(f"records.{quoted(self._session.names['bucket'])} AS b")
        moments = self._moments.names
        tables = {"listed": self._buckets.listed}
        counted = self._session.counted(RecordSums(split, self._moments.listed(), known), tables)
        same = [f"c.{name} IS NOT DISTINCT FROM p.{name}" for name in names] or ["true"]
        nothing = "".join(f", NULL AS {name}" for name in names)
        # without keys the records that match are one class, if there are any
        by_names = f" GROUP BY {', '.join(names)}" if names else " HAVING count(*) > 0"
        sums = "".join(f", CAST(sum({s}) AS DOUBLE) AS {s}" for s in moments)
        beside = "".join(f", sum(c.{s} * l.share) AS {s}" for s in moments)
        sql = (
            f"WITH counted AS MATERIALIZED ({counted}), classes AS MATERIALIZED (SELECT "
            f"{', '.join(['row_number() OVER () - 1 AS number', *names])}{sums} FROM counted"
            f"{by_names}), shown AS (SELECT p.number, l.code{beside} FROM counted AS c JOIN "
            f"listed AS l ON l.bucket = c.b JOIN classes AS p ON {all_of(same)} GROUP BY 1, 2) "
            f"SELECT number, -1 AS code{_each(moments)}{_each(names)} FROM classes UNION ALL "
            f"SELECT number, code{_each(moments)}{nothing} FROM shown"
        )
        table = self._session.run(sql, tables)
        code = table.column("code").to_numpy()
        total = np.flatnonzero(code < 0)
        order = total[np.argsort(table.column("number").to_numpy()[total], kind="stable")]
        self._classes = table.take(pa.array(order)).select(["number", *names])
        cells = code >= 0
        place = table.column("number").to_numpy()[cells], code[cells]
        values = len(self._buckets.domain)
        if self.number * values > MOST_CELLS:
            raise QueryError(
                f"The question has {self.number:,} groups of {values:,} values each, more than "
                f"{MOST_CELLS:,} cells. Group by fewer columns."
            )
        self._totals: dict[str, FloatArray] = {}
        self._shown: dict[str, FloatArray] = {}
        for name in moments:
            column = np.asarray(table.column(name).to_numpy(), np.float64)
            self._totals[name] = column[order]
            self._shown[name] = np.zeros((self.number, values))
            self._shown[name][place] = column[cells]

    def _read_cells(self, keys: list[str], conditions: list[str]) -> None:
        tables = {"classes": self._classes, "domain": self._domain()}
        for reading in self.readings:
            argument = reading.aggregate.argument
            if argument and argument.sensitive and reading.aggregate.function != "count":
                inside = self._over_cells(argument)
                sql = f"SELECT {inside} FROM classes AS p CROSS JOIN domain AS d LIMIT 0"
                self._check_number(reading.aggregate, sql, tables)
        named = [f"{sql} AS k{place}" for place, sql in enumerate(keys)]
        columns = _each([*named, *self._cells.listed()])
        order = ", ".join(f"k{place}" for place in range(len(keys)))
        ranked = f"dense_rank() OVER (ORDER BY {order}) - 1" if keys else "0"
        found = self._session.run(
            f"SELECT *, {ranked} AS row FROM (SELECT p.number, d.code{columns} FROM "
            f"classes AS p CROSS JOIN domain AS d{where(conditions)})",
            tables,
        )
        self._row = np.asarray(found.column("row").to_numpy(), np.int64)
        self._code = np.asarray(found.column("code").to_numpy(), np.int64)
        number = np.asarray(found.column("number").to_numpy(), np.int64)
        by_class = np.argsort(number, kind="stable")
        cuts = np.searchsorted(number[by_class], np.arange(self.number + 1))
        self._cells_of = [by_class[cuts[i] : cuts[i + 1]] for i in range(self.number)]
        self._weights: dict[str, FloatArray] = {}
        self._there: dict[str, BoolArray] = {}
        for reading in self.readings:
            weight = found.column(reading.weight).cast(pa.float64()).fill_null(0.0)
            self._weights[reading.weight] = np.asarray(weight.to_numpy(), np.float64)
            there = found.column(reading.there).fill_null(False)
            self._there[reading.there] = np.asarray(there.to_numpy(), np.bool_)
        self.rows = int(self._row.max(initial=-1)) + 1 if keys else 1
        first = np.zeros(self.rows, np.int64)
        first[self._row[::-1]] = np.arange(len(self._row))[::-1]
        self.keys = {
            f"k{place}": found.column(f"k{place}").take(pa.array(first))
            for place in range(len(keys))
        }

    def _domain(self) -> pa.Table:
        codes = pa.array(np.arange(len(self._buckets.domain), dtype=np.int64))
        return pa.table({"original": self._buckets.domain, "code": codes})


def _each(names: list[str]) -> str:
    return "".join(f", {name}" for name in names)
