"""A raw table as small integer codes in memory, and the true answers from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sfumato.columns import Value
from sfumato.draws import IntArray
from sfumato.engines.counting import sensitive_codes, take_profile, whole_column
from sfumato.errors import UsageError
from sfumato.scratch import scratch_database
from sfumato.table import Table
from sfumato.table.staging import stage, staged
from sfumato.workloads.questions import Conditions, Workload


@dataclass(frozen=True, eq=False)
class CodedPeople:
    """Every record's places in the domains of its columns, which are in order."""

    quasi: Mapping[str, pa.Array]
    sensitive: Mapping[str, pa.Array]
    codes: pa.Table

    @property
    def rows(self) -> int:
        return int(self.codes.num_rows)

    @cached_property
    def places(self) -> dict[str, dict[Value, int]]:
        """By column: the code of every value."""
        domains = {**self.quasi, **self.sensitive}
        return {
            name: {value: code for code, value in enumerate(domain.to_pylist())}
            for name, domain in domains.items()
        }

    def counts(self, conditions: Sequence[Mapping[str, int]], column: str) -> IntArray:
        """By (condition on codes, value of a sensitive column): how many records there are."""
        types = dict.fromkeys(self.quasi, pa.int64())
        asked = Conditions(conditions, types, np.ones(len(conditions)))
        with scratch_database() as database:
            database.register("records", self.codes)

            def run(text: str, wanted: pa.Table) -> pa.Table:
                database.register("asked", wanted)
                return database.sql(text).to_arrow_table()

            found = asked.joined({column: "s"}, run, {name: name for name in self.places})
        counts = np.zeros((len(conditions), len(self.sensitive[column])), np.int64)
        counts[found.column("q").to_numpy(), found.column("s").to_numpy()] = found.column("n")
        return counts


def people_of(table: Table) -> CodedPeople:
    """Read a table once, as codes. Memory: a byte or two per record and column.

    >>> from sfumato.table import read
    >>> table = pa.table({"age": [30, 41, 52], "disease": ["flu", "HIV", "flu"]})
    >>> people_of(read(table, quasi="age", sensitive="disease")).codes["disease"].to_pylist()
    [1, 0, 1]
    """
    table = stage(table)
    take_profile(table)
    quasi, codes = {}, {}
    for name in table.quasi:
        quasi[name], codes[name] = whole_column(table, name)
    sensitive = {name: staged(table).domains[name] for name in table.sensitive}
    codes |= {name: sensitive_codes(table, name) for name in sensitive}
    domains = {**quasi, **sensitive}
    small = {n: c.astype(np.min_scalar_type(max(len(domains[n]) - 1, 0))) for n, c in codes.items()}
    return CodedPeople(quasi, sensitive, pa.table(small))


def true_counts(workload: Workload, people: CodedPeople) -> IntArray:
    """The true answers."""
    truth = np.zeros(len(workload), np.int64)
    for column in {question.column for question in workload.questions}:
        numbers = [n for n, asked in enumerate(workload.questions) if asked.column == column]
        asked = [workload.questions[number] for number in numbers]
        conditions = [
            {name: people.places[name].get(value, -1) for name, value in one.conditions.items()}
            for one in asked
        ]
        codes = [code_of(one.value, column, people.places[column]) for one in asked]
        truth[numbers] = people.counts(conditions, column)[np.arange(len(asked)), codes]
    return truth


def code_of(value: Value, column: str, places: Mapping[Value, int]) -> int:
    if value not in places:
        raise UsageError(
            f"The workload asks for {value!r}, which column {column!r} does not have. Make the "
            "workload from the table that was published."
        )
    return places[value]
