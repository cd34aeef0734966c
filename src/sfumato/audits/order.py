"""Does the order of the rows tell anything? Of a shuffled release it must not, whatever it hides.

Rows of people who are alone with their quasi columns have known true values. Where a value stands
(its mean place among those rows, and among the members of its bucket), and how often equal values
are neighbours, is compared with what a random order does; so are the places of quasi values.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, quoted
from sfumato.audits.chances import (
    ORDER_ALARM,
    FloatArray,
    chance_of,
    matching_exponents,
    rank_exponents,
)
from sfumato.audits.findings import Direction, Finding
from sfumato.columns import value_text
from sfumato.draws import IntArray
from sfumato.guarantees import ReconstructionPrivacy
from sfumato.release import BucketedRelease


def check_order(case: AuditCase) -> Iterator[Finding]:
    """All tests together, at a false alarm of at most `ORDER_ALARM`."""
    if isinstance(case.guarantee, ReconstructionPrivacy) or not case.table.quasi:
        return  # rows are copies, or nobody can be followed
    found: list[tuple[float, str]] = []
    tests = 0
    for exponents, names in _looked_at(case):
        tests += len(exponents)
        found += [(float(e), name) for e, name in zip(exponents, names, strict=True) if e > 0]
    least = float(np.log(max(tests, 1) / ORDER_ALARM))
    worst = max((exponent for exponent, _ in found), default=0.0)
    yield Finding.limited(
        catalogue.ORDER,
        chance_of(worst, max(tests, 1)),
        Direction.AT_LEAST,
        ORDER_ALARM,
        witness=f"{tests:,} tests of places and neighbours",
        listed=tuple(name for exponent, name in sorted(found, reverse=True) if exponent > least),
    )


def _looked_at(case: AuditCase) -> Iterator[tuple[FloatArray, list[str]]]:
    classes, release = case.classes, case.release
    bucketed = isinstance(release, BucketedRelease)
    names = ", ".join(quoted(name) for name in case.table.quasi)
    rows = (
        case.connect()
        .sql(f"SELECT hash({names}) AS h{', bucket' if bucketed else ''} FROM published")
        .to_arrow_table()
    )
    owner, known = classes.find(rows.column("h").to_numpy())
    if release.manifest.order == "shuffled":
        for quasi in classes.quasi:
            group = quasi.group[owner[known]]
            told = [f"place of {quasi.name(place)}" for place in range(len(quasi.values))]
            yield _places(group, _ranks(len(group)), told)
    alone = known & (classes.sizes[owner] == 1)
    bucket = rows.column("bucket").to_numpy()[alone] if bucketed else None
    for column in case.table.sensitive:
        value = np.zeros(len(classes.sizes), np.int64)
        value[classes.true.owner] = classes.true.codes[column]  # one row each, where alone
        code = value[owner[alone]]
        if len(code) < 2:
            continue
        texts = [value_text(v) for v in case.profile.histograms[column].values]
        told = [f"place of {text} in {column}" for text in texts]
        yield _places(code, _ranks(len(code)), told)
        counts = np.bincount(code).astype(np.float64)
        expected = float((counts * (counts - 1)).sum()) / len(code)
        equal = float((code[1:] == code[:-1]).sum())
        # given every other row, the rest is matched to places: each counts half for a neighbour
        pair = matching_exponents(np.array([equal / 2]), np.array([expected / 2]))
        yield pair, [f"equal neighbours in {column}: {equal:.0f}, {expected:.0f} expected"]
        if bucket is not None:
            told = [f"place of {text} of {column} within its bucket" for text in texts]
            yield _places(code, _ranks_within(bucket), told)


def _ranks(rows: int) -> FloatArray:
    return (np.arange(rows) + 0.5) / max(rows, 1)


def _ranks_within(group: IntArray) -> FloatArray:
    """The place of every row among the rows of its group, in (0, 1).

    >>> _ranks_within(np.array([7, 3, 7, 7])).round(3).tolist()
    [0.167, 0.5, 0.5, 0.833]
    """
    _, place, sizes = np.unique(group, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    order = np.argsort(place, kind="stable")
    ranks = np.empty(len(group))
    ranks[order] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray((ranks + 0.5) / sizes[place])


def _places(code: IntArray, ranks: FloatArray, names: list[str]) -> tuple[FloatArray, list[str]]:
    counts = np.bincount(code, minlength=len(names))
    means = np.bincount(code, ranks, minlength=len(names)) / np.maximum(counts, 1)
    there = counts > 0
    told = [name for name, kept in zip(names, there, strict=True) if kept]
    return rank_exponents(counts[there], means[there]), told
