"""The records, as far as their people can be followed: those alone with their quasi columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.audits.case import AuditCase, quoted
from sfumato.chances import FloatArray
from sfumato.draws import BoolArray, IntArray
from sfumato.release import BucketedRelease

PARTS = 16  # of the table, that input positions are told apart by


@dataclass(frozen=True, eq=False)
class FollowedRows:
    """The records in their order: the class of each, and of those alone in it all that is known.

    `place` is the place in the table, among those alone; `bucket` is None where there are none.
    """

    owner: IntArray
    known: BoolArray
    alone: BoolArray
    place: IntArray
    bucket: IntArray | None

    @classmethod
    def of(cls, case: AuditCase) -> FollowedRows:
        """One pass over the records, one over the table."""
        classes, bucketed = case.classes, isinstance(case.release, BucketedRelease)
        hashed = f"hash({', '.join(quoted(name) for name in case.table.quasi)}) AS h"
        connection = case.connect()
        also = ", bucket" if bucketed else ""
        rows = connection.sql(f"SELECT {hashed}{also} FROM published").to_arrow_table()
        raw = connection.sql(f"SELECT {hashed} FROM raw").to_arrow_table().column("h").to_numpy()
        owner, known = classes.find(rows.column("h").to_numpy())
        alone = known.copy()
        alone[known] = classes.sizes[owner[known]] == 1  # there may be no class at all
        stood, there = classes.find(raw)
        place = np.zeros(len(classes.sizes), np.int64)
        place[stood[there]] = np.flatnonzero(there)
        place = np.argsort(np.argsort(place[owner[alone]]))  # a copied record stands beside itself
        bucket = rows.column("bucket").to_numpy()[alone] if bucketed else None
        return cls(owner, known, alone, place, bucket)

    def values(self, case: AuditCase, column: str) -> IntArray:
        """The true values of those alone."""
        true = case.classes.true
        value = np.zeros(len(case.classes.sizes), np.int64)
        value[true.owner] = true.codes[column]  # one row each, where alone
        return value[self.owner[self.alone]]

    def parts(self) -> IntArray:
        """In which part of the table those alone stand."""
        return self.place * PARTS // max(len(self.place), 1)


def ranks_within(group: IntArray) -> FloatArray:
    """The place of every row among the rows of its group, in (0, 1).

    >>> ranks_within(np.array([7, 3, 7, 7])).round(3).tolist()
    [0.167, 0.5, 0.5, 0.833]
    """
    _, place, sizes = np.unique(group, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    order = np.argsort(place, kind="stable")
    ranks = np.empty(len(group))
    ranks[order] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray((ranks + 0.5) / sizes[place])
