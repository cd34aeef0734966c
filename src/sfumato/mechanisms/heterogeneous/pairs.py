"""What rows grow by records, for many pairs at once: columns that hang together share a table.

The growth of a row by a record depends on what the record shows, and few records of a block show
different things in a few columns: a table by what they show is made once and its rows are copied,
instead of comparing every row with every record in every column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.heterogeneous.ncp import Axis, Cover, Floats

FEWER = 2  # a table has at most one row for so many records


@dataclass(frozen=True, eq=False)
class JoinedColumns:
    """Some columns: `looks[k, v]` numbers what they show of a record, `codes[a][look]` is that."""

    columns: tuple[int, ...]
    looks: IntArray
    codes: tuple[IntArray, ...]

    @classmethod
    def of(cls, column: int, codes: IntArray) -> JoinedColumns:
        return cls((column,), codes, (np.arange(int(codes.max(initial=-1)) + 1),))

    def joined(self, other: JoinedColumns) -> JoinedColumns:
        both = self.looks * len(other.codes[0]) + other.looks
        used, looks = np.unique(both, return_inverse=True)
        one, two = np.divmod(used, len(other.codes[0]))
        codes = (*(code[one] for code in self.codes), *(code[two] for code in other.codes))
        return JoinedColumns((*self.columns, *other.columns), looks.reshape(both.shape), codes)


def together(codes: Sequence[IntArray], units: Sequence[int], size: int) -> list[JoinedColumns]:
    """Columns that cost something, joined as long as a table stays small beside `size` records.

    >>> sex, race = np.array([[0, 1, 0, 1]]), np.array([[0, 0, 1, 1]])
    >>> [each.columns for each in together([sex, race, sex], [1, 0, 3], 4)]
    [(0, 2)]
    """
    single = [JoinedColumns.of(index, code) for index, code in enumerate(codes) if units[index]]
    joined: list[JoinedColumns] = []
    for columns in sorted(single, key=lambda own: len(own.codes[0])):
        if joined:
            both = joined[-1].joined(columns)
            if len(both.codes[0]) * FEWER <= size:
                joined[-1] = both
                continue
        joined.append(columns)
    return joined


def growth(
    groups: Sequence[JoinedColumns],
    axes: Sequence[Axis],
    units: Sequence[int],
    covers: Sequence[Cover],
    buckets: IntArray,
    places: IntArray,
) -> Floats:
    """`cost[k, v, r]`: what row r of class k grows by the record at `places[k, v]` of bucket k."""
    classes, size = places.shape
    rows = covers[0].shape[1] if covers else size
    cost = np.empty((classes, size, rows)) if groups else np.zeros((classes, size, rows))
    part = np.empty_like(cost)
    for number, group in enumerate(groups):
        looks = len(group.codes[0])
        table = np.zeros((classes, looks, rows))
        for column, codes in zip(group.columns, group.codes, strict=True):
            every = np.broadcast_to(codes, (classes, looks))
            table += np.multiply(axes[column].growth(covers[column], every), float(units[column]))
        where = group.looks[buckets[:, None], places] + looks * np.arange(classes)[:, None]
        target = part if number else cost
        np.take(table.reshape(-1, rows), where, axis=0, out=target, mode="clip")
        if number:
            cost += part
    return cost
