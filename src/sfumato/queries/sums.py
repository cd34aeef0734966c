"""Sums over the records: the one thing that a question asks of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RecordSums:
    """`SELECT keys, sums FROM records WHERE … GROUP BY keys`, in DuckDB's SQL.

    Every entry of `keys` and `sums` is `expression AS name`; the sums are counts and sums, so that
    those of several files add up. Whatever else a question needs is computed from them, and is
    small: this is what another engine takes over.

    >>> counted = RecordSums(["records.sex AS k0"], ["count(*) AS s0"], ["records.age > 40"])
    >>> counted.sql
    'SELECT records.sex AS k0, count(*) AS s0 FROM records WHERE (records.age > 40) GROUP BY 1'
    """

    keys: Sequence[str]
    sums: Sequence[str]
    where: Sequence[str]

    @property
    def sql(self) -> str:
        return (
            f"SELECT {', '.join([*self.keys, *self.sums])} FROM records"
            f"{where(self.where)}{group_by(len(self.keys))}"
        )


def group_by(columns: int) -> str:
    """`GROUP BY` the first columns, if there are any."""
    return f" GROUP BY {', '.join(map(str, range(1, columns + 1)))}" if columns else ""


def where(conditions: Sequence[str]) -> str:
    """`WHERE` all conditions, if there are any."""
    return f" WHERE {all_of(conditions)}" if conditions else ""


def all_of(conditions: Sequence[str]) -> str:
    """Conditions joined by AND.

    >>> all_of(["a = 1", "b = 2"]), all_of([])
    ('(a = 1) AND (b = 2)', 'true')
    """
    return " AND ".join(f"({condition})" for condition in conditions) or "true"
