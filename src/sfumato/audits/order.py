"""Does the order of the rows tell anything? Of a shuffled release it must not, whatever it hides.

Rows of people who are alone with their quasi columns have known true values and known places in the
table. Their order is compared with what a random order does; so is that of the quasi values. A
release in the order of its table is held to what `publish` asks of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, quoted
from sfumato.audits.findings import Direction, Finding
from sfumato.chances import ORDER_ALARM, FloatArray, matching_exponents, rank_exponents
from sfumato.columns import value_text
from sfumato.draws import BoolArray, IntArray
from sfumato.guarantees import ReconstructionPrivacy
from sfumato.release import BucketedRelease
from sfumato.row_order import Look, OrderTest, Told

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


def check_order(case: AuditCase) -> Iterator[Finding]:
    """All tests together, at a false alarm of at most `ORDER_ALARM`."""
    if isinstance(case.guarantee, ReconstructionPrivacy) or not case.table.quasi:
        return  # rows are copies, or nobody can be followed
    told = Told.of(_looks(case), ORDER_ALARM)
    yield Finding.limited(
        catalogue.ORDER,
        told.chance,
        Direction.AT_LEAST,
        ORDER_ALARM,
        witness=f"{told.tests:,} tests of places and neighbours",
        listed=told.patterns,
    )


def _looks(case: AuditCase) -> Iterator[Look]:
    rows = case.followed
    if case.release.manifest.order == "shuffled":
        for quasi in case.classes.quasi:
            names = [value_text(value) for value in quasi.values.to_pylist()]
            yield from _ordered(quasi.group[rows.owner[rows.known]], quasi.column, names)
        if len(rows.place) > 1:
            names = [f"part {part + 1} of {PARTS}" for part in range(PARTS)]
            yield from _ordered(rows.parts(), "the order of the table", names)
            yield _neighbours_still(rows.place), lambda _: "neighbours that were neighbours before"
    else:
        yield from _order_of_table(case)
    for column in case.table.sensitive:
        code = rows.values(case, column)
        names = [value_text(value) for value in case.profile.histograms[column].values]
        yield from _ordered(code, column, names)
        if rows.bucket is not None and len(code):
            yield _places_within(code, ranks_within(rows.bucket), column, names)


def _ordered(codes: IntArray, column: str, names: list[str]) -> Iterator[Look]:
    test = OrderTest()
    test.add(codes)
    yield from test.looks(column, names)


def _order_of_table(case: AuditCase) -> Iterator[Look]:
    tests = [OrderTest() for _ in case.table.sensitive]
    for batch in case.raw_batches():
        for index, test in enumerate(tests):
            test.add(batch.column(f"__code_{index}").to_numpy())
    for column, test in zip(case.table.sensitive, tests, strict=True):
        names = [value_text(value) for value in case.profile.histograms[column].values]
        yield from test.looks(column, names)


def _neighbours_still(place: IntArray) -> FloatArray:
    """How often rows that stood together in the table stand together.

    As for equal neighbours: given the rows at even places, the others are matched to theirs.

    >>> bool(_neighbours_still(np.arange(60))[0] > 10)
    True
    """
    rows = len(place)
    found = float((np.abs(np.diff(place)) == 1).sum()) / 2
    odd = np.zeros(rows + 2)
    odd[place[1::2] + 1] = 1
    beside = np.full(-(-rows // 2), 2.0)  # odd places beside each even one
    beside[0] -= 1
    beside[-1] -= rows % 2
    even = place[::2]
    expected = float((beside * (odd[even] + odd[even + 2])).sum()) / (2 * (rows // 2))
    return matching_exponents(np.array([found]), np.array([expected]))


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


def _places_within(code: IntArray, ranks: FloatArray, column: str, names: list[str]) -> Look:
    counts = np.bincount(code, minlength=len(names))
    means = np.bincount(code, ranks, minlength=len(names)) / np.maximum(counts, 1)
    there = np.flatnonzero(counts)
    told = [f"the places of {names[k]} in {column!r} within its bucket" for k in there]
    return rank_exponents(counts[there], means[there]), told.__getitem__
