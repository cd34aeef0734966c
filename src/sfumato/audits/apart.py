"""Releases whose sensitive columns have buckets of their own.

Every column is judged by itself, as whoever sees no other one sees it. The deals must be
independent: among people who hold the same in all columns, where they stand in the buckets of one
says nothing about where they stand in those of another. What all columns tell together is told by
`together`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import combinations

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.bucketed import check_buckets
from sfumato.audits.case import AuditCase
from sfumato.audits.common import check_quasi_columns
from sfumato.audits.dealing import along_buckets, check_dealing
from sfumato.audits.findings import Direction, Finding
from sfumato.audits.order import PARTS, check_order
from sfumato.chances import DEAL_ALARM, rank_exponents
from sfumato.draws import IntArray
from sfumato.engines.one_column import of_column
from sfumato.release import ApartRelease
from sfumato.release.apart import column_release
from sfumato.row_order import Look, Told
from sfumato.scratch import scratch_space


def check_apart(case: AuditCase) -> Iterator[Finding]:
    """The checks of a bucketed release for every sensitive column, and that deals are apart."""
    assert isinstance(case.release, ApartRelease)
    yield from check_quasi_columns(case)
    with ExitStack() as held:
        alone = []
        for column in case.table.sensitive:
            own = column_release(case.release, column, held.enter_context(scratch_space()))
            alone.append(AuditCase(of_column(case.table, column), own))
            for look in (check_order, check_dealing, check_buckets):
                for finding in look(alone[-1]):
                    yield finding if finding.column else replace(finding, column=column)
        if case.table.quasi:
            yield from _independent(alone)


def _independent(cases: list[AuditCase]) -> Iterator[Finding]:
    """Columns two by two, all tests of two columns together at a false alarm of `DEAL_ALARM`."""
    values = [case.followed.values(case, case.table.sensitive[0]) for case in cases]
    held = np.unique(np.stack(values, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    for one, other in combinations(cases, 2):
        told = Told.of(_looks(held, one.followed.bucket, other.followed.bucket), DEAL_ALARM)
        yield Finding.limited(
            catalogue.DEALT_APART,
            told.chance,
            Direction.AT_LEAST,
            DEAL_ALARM,
            about=f"{one.table.sensitive[0]} and {other.table.sensitive[0]}",
            witness=f"{told.tests:,} tests of people alone with their quasi columns",
            listed=told.patterns,
        )


def _looks(held: IntArray, one: IntArray | None, other: IntArray | None) -> Iterator[Look]:
    """How far along the buckets of one column those stand who are in a part of the other's."""
    if one is None or other is None or len(held) < 2:
        return
    along = along_buckets(held, one)
    part = np.minimum((along_buckets(held, other) * PARTS).astype(np.int64), PARTS - 1)
    every = np.bincount(part, minlength=PARTS)
    means = np.bincount(part, along, minlength=PARTS) / np.maximum(every, 1)
    yield (
        rank_exponents(every, np.where(every > 0, means, 0.5)),
        lambda k: f"part {k + 1} of {PARTS} of the other column's buckets",
    )
