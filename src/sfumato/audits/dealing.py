"""Who of a value's people stands in which bucket? It must follow from nothing but a coin.

The values of a bucket are public, and which values stand in which bucket follows from counts. What
hides a person is that the people of a value are dealt to its slots at random: dealt by age, they
would tell who is who. People who are alone with their quasi columns show it: given the rest, those
of one value could change places, so what they have in common with their bucket, and how far along
the buckets they stand, is compared with what a random deal does. Where nearly everybody differs in
a column, as in a postcode, those who are near each other in it count as having something in common:
its values are cut into parts, block by block.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase
from sfumato.audits.findings import Direction, Finding
from sfumato.audits.followed import PARTS, ranks_within
from sfumato.chances import DEAL_ALARM, Look, Told, matching_exponents, rank_exponents
from sfumato.columns import value_text
from sfumato.draws import IntArray
from sfumato.release import BucketedRelease

MOST_PAIRS = 20_000_000  # of people in the same bucket that are compared


def check_dealing(case: AuditCase) -> Iterator[Finding]:
    """All tests together, at a false alarm of at most `DEAL_ALARM`."""
    if not case.table.quasi:
        return
    told = Told.of(_looks(case), DEAL_ALARM)
    yield Finding.limited(
        catalogue.DEALING,
        told.chance,
        Direction.AT_LEAST,
        DEAL_ALARM,
        witness=f"{told.tests:,} tests of people alone with their quasi-identifiers",
        listed=told.patterns,
    )


def _looks(case: AuditCase) -> Iterator[Look]:
    rows = case.followed
    release, bucket = case.release, rows.bucket
    code, texts = _kinds(case)
    values = len(texts)
    if bucket is None or len(code) < 2:
        return
    block = np.zeros(len(code), np.int64)
    if isinstance(release, BucketedRelease) and release.tree is not None:
        # the people of a value are dealt within their block
        block = np.searchsorted(release.first_buckets, bucket, side="right") - 1
        code = block * values + code
    along = along_buckets(code, bucket)
    alone = rows.owner[rows.alone]
    parts = [f"part {part + 1} of {PARTS}" for part in range(PARTS)]
    marks = [("the order of the table", rows.parts(), parts)]
    for quasi in case.classes.quasi:
        group = quasi.group[alone]
        marks.append((quasi.column, group, [value_text(v) for v in quasi.values.to_pylist()]))
        if len(quasi.values) > PARTS:
            marks.append((quasi.column, _near(_places(quasi.values)[group], block), parts))
    for name, mark, marked in marks:
        yield (
            matching_exponents(*_in_common(code, bucket, mark)),
            lambda _, name=name: f"{name!r} in common within buckets",  # type: ignore[misc]
        )
        pairs, place, counts = np.unique(
            code * len(marked) + mark, return_inverse=True, return_counts=True
        )
        means = np.bincount(place.reshape(-1), along) / counts

        def told(k: int, pairs: IntArray = pairs, name: str = name, marked=marked) -> str:  # type: ignore[no-untyped-def]
            value, which = divmod(int(pairs[k]), len(marked))
            return f"bucket numbers of {texts[value % len(texts)]} with {marked[which]} in {name!r}"

        yield rank_exponents(counts, means), told
        # all values together: their ranks are independent, and so many more tell
        every = np.bincount(mark, minlength=len(marked))
        overall = np.bincount(mark, along, minlength=len(marked)) / np.maximum(every, 1)
        yield (
            rank_exponents(every, np.where(every > 0, overall, 0.5)),
            lambda k, name=name, marked=marked: f"bucket numbers with {marked[k]} in {name!r}",  # type: ignore[misc]
        )


def _places(values: pa.Array) -> IntArray:
    """Where every value of a column stands among them in order, a missing one last."""
    order = np.asarray(pc.sort_indices(values).to_numpy(), np.int64)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def _near(places: IntArray, block: IntArray) -> IntArray:
    """In which part of their block people stand, by their place in a column; equals together."""
    order = np.lexsort((places, block))
    size = np.bincount(block)
    within = np.arange(len(order)) - (np.cumsum(size) - size)[block[order]]
    new = np.diff(places[order], prepend=-1) != 0
    new |= np.diff(block[order], prepend=-1) != 0
    first = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    part = np.empty(len(order), np.int64)
    part[order] = within[first] * PARTS // size[block[order]]
    return part


def _kinds(case: AuditCase) -> tuple[IntArray, list[str]]:
    """What people hold in all sensitive columns: who holds the same could change places."""
    first, *others = case.table.sensitive
    code = case.followed.values(case, first)
    texts = [value_text(value) for value in case.profile.histograms[first].values]
    for column in others:
        own = [value_text(value) for value in case.profile.histograms[column].values]
        pairs = code * len(own) + case.followed.values(case, column)
        listed, code = np.unique(pairs, return_inverse=True)
        code = code.reshape(-1)
        named = [divmod(int(pair), len(own)) for pair in listed]
        texts = [f"{texts[one]} and {own[two]}" for one, two in named]
    return code, texts


def along_buckets(code: IntArray, bucket: IntArray) -> np.ndarray:
    """How far along the buckets each person stands among those with the same value; those of one
    bucket stand together, in the middle of their places."""
    order = np.argsort(bucket, kind="stable")
    ranks = ranks_within(code[order])
    pair = np.stack([code[order], bucket[order]], axis=1)
    _, place, many = np.unique(pair, axis=0, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    along = np.empty(len(code))
    along[order] = (np.bincount(place, ranks) / many)[place]
    return along


def _in_common(code: IntArray, bucket: IntArray, mark: IntArray) -> tuple[np.ndarray, np.ndarray]:
    """How much people share their mark with others of their bucket: found, and to be expected.

    Every other value, from the most frequent down, stays where it is; the people of the remaining
    values could change places within theirs. Each counts for the share of those in the bucket who
    stay and have the same mark.
    """
    counts = np.bincount(code)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    stays = rank[code] % 2 == 0
    marks = int(mark.max()) + 1
    held, number = np.unique(bucket[stays] * marks + mark[stays], return_counts=True)
    at, of = held // marks, held % marks
    size = np.bincount(bucket[stays], minlength=int(bucket.max()) + 1)
    share = number / size[at]
    begin = np.searchsorted(at, np.arange(len(size)))
    many = np.bincount(at, minlength=len(size))
    moved = np.flatnonzero(~stays)
    moved = moved[np.cumsum(many[bucket[moved]]) <= MOST_PAIRS]
    there = many[bucket[moved]]  # marks in the bucket of each
    person = np.repeat(moved, there)
    offset = np.arange(len(person)) - np.repeat(np.cumsum(there) - there, there)
    entry = np.repeat(begin[bucket[moved]], there) + offset
    found = float(share[entry][of[entry] == mark[person]].sum())
    # given who stays, a slot of a value holds each of its people alike
    keys, place = np.unique(code[person] * marks + of[entry], return_inverse=True)
    offered = np.bincount(place.reshape(-1), share[entry], minlength=len(keys))
    own, numbers = np.unique(code[moved] * marks + mark[moved], return_counts=True)
    known = np.minimum(np.searchsorted(own, keys), max(len(own) - 1, 0))
    have = np.where(own[known] == keys, numbers[known], 0) if len(own) else np.zeros(len(keys))
    people = np.bincount(code[moved], minlength=len(counts))
    expected = float((offered * have / people[keys // marks]).sum()) if len(keys) else 0.0
    return np.array([found]), np.array([expected])
