"""Sizes of buckets for several ceilings at once, and people in them.

All marks of a person (see `exchange`) have ceilings. Small buckets tell most; a mark with the
ceiling f' stands in no bucket of fewer than 1/f' people. So settings of two sizes are tried: small
buckets, and as many large ones as the rare marks need. The best foreseen that can be filled is
taken; one bucket of everybody keeps every ceiling that can be kept at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.buckets.accuracy import error_of, variances_of
from sfumato.mechanisms.buckets.exchange import Exchange, Marks
from sfumato.mechanisms.buckets.settings import Limits, Setting, setting_of

_SIZES = 12  # small sizes that are looked at
_TRIED = 4  # settings that are filled before everybody goes into larger buckets
_SPARE = 9  # tenths of the large buckets that rare marks may fill


@dataclass(frozen=True, eq=False)
class FilledBuckets:
    """People in buckets: the kind of every slot, bucket after bucket."""

    sizes: IntArray  # people, by bucket
    kinds: IntArray  # by slot


def fill_shared(
    marks: Marks, limits: Limits, max_size: int | None, draws: Draws
) -> FilledBuckets | None:
    """People in the best foreseen buckets that can be filled; None where none can."""
    found = sorted(_settings(marks, limits, max_size), key=lambda s: _foreseen(s, marks, limits))
    tried = [*found[:_TRIED], *sorted(found[_TRIED:], key=lambda setting: setting[0].size)]
    for number, setting in enumerate(dict.fromkeys(tried)):
        allowed = limits.table([part.size for part in setting])
        exchange = Exchange(marks, setting, allowed, draws.child(f"setting {number}"))
        if exchange.repair():
            exchange.mix()
            return FilledBuckets(exchange.sizes, exchange.kinds)
    return None


def _settings(marks: Marks, limits: Limits, max_size: int | None) -> Iterator[Setting]:
    """Settings in which every mark has room, by counting alone."""
    people, present = int(marks.counts.sum()), marks.people > 0
    needed = np.array([-(-c.denominator // c.numerator) if c else people for c in limits.ceilings])
    needed = np.minimum(needed, people)
    largest = int(needed[present].max(initial=1))
    most = people if max_size is None else min(max_size, people)
    least = max(1, int(needed[present].min(initial=1)))
    small = np.unique(np.geomspace(least, max(largest, 2 * least), _SIZES).astype(np.int64))
    step = np.unique(needed[present])
    small = np.unique([*small, *step[:: max(1, len(step) // _SIZES)], largest])
    for size in small[small <= most].tolist():
        rare = present & (needed > size)
        if not rare.any():
            yield from _roomy(_of_one_size(people, size), marks, limits)
        for large in {largest, 2 * largest} if rare.any() else ():
            if large <= most:
                setting = _of_two_sizes(marks, limits, size, large, rare)
                yield from _roomy(setting, marks, limits)
    size = 2 * largest
    while size < 2 * people:
        if min(size, people) <= most:
            yield from _roomy(_of_one_size(people, min(size, people)), marks, limits)
        size *= 2


def _of_one_size(people: int, size: int) -> Setting:
    """Buckets of this size, and of one more where they do not come out even."""
    buckets = max(1, people // size)
    size, more = divmod(people, buckets)
    return setting_of((size, size + 1), (buckets - more, more))


def _of_two_sizes(marks: Marks, limits: Limits, small: int, large: int, rare: IntArray) -> Setting:
    people = int(marks.counts.sum())
    room = np.maximum(limits.table([large])[0], 1)
    # some spare room: people with two rare marks would else fit nowhere
    buckets = int((10 * marks.people[rare] // (_SPARE * room[rare])).max(initial=0)) + 1
    left = people - buckets * large
    if left < small:
        return _of_one_size(people, large)
    setting = _of_one_size(left, small)
    sizes = [*(part.size for part in setting), large]
    if len(set(sizes)) < len(sizes):
        return _of_one_size(people, large)
    return setting_of(sizes, [*(part.buckets for part in setting), buckets])


def _roomy(setting: Setting, marks: Marks, limits: Limits) -> Iterator[Setting]:
    """The setting, where every mark fits into all buckets, and people fill those of every size."""
    allowed = limits.table([part.size for part in setting])
    buckets = np.array([part.buckets for part in setting])
    room = allowed * buckets[:, None]
    filled = np.array([part.records for part in setting])
    fits = bool((room.sum(axis=0) >= marks.people).all())
    for start, end in zip(marks.starts, [*marks.starts[1:], marks.number], strict=True):
        there = np.minimum(room, marks.people)[:, start:end].sum(axis=1)
        fits = fits and bool((there >= filled).all())
    # into smaller buckets go those of whose marks each may stand there
    least = (allowed == 0).sum(axis=0)[marks.of].max(axis=1)
    could = np.cumsum(np.bincount(least, marks.counts, len(setting) + 1)[: len(setting)])
    if fits and bool((could >= np.cumsum(filled)).all()):
        yield setting


def _foreseen(setting: Setting, marks: Marks, limits: Limits) -> float:
    """The error to expect where marks stand at their limits or not at all (see `accuracy`)."""
    sizes = np.array([part.size for part in setting])
    buckets = np.array([part.buckets for part in setting])
    allowed = np.minimum(limits.table(sizes), sizes[:, None]).astype(np.float64)
    room = (allowed * buckets[:, None]).sum(axis=0)
    own = (allowed**2 / sizes[:, None] * buckets[:, None]).sum(axis=0) / np.maximum(room, 1)
    people = int(marks.counts.sum())
    left = max(0.0, 1 - int((marks.people > 0).sum()) / int(buckets.sum()))
    told = left * np.maximum(own - marks.people / people, 0.0)
    # marks of several columns: shares add up to the number of columns, and variances are bounded
    share = np.minimum(marks.people / people, 1.0)
    spread = variances_of(marks.people, told, np.full(len(share), people / marks.people.sum()))
    return error_of(spread, marks.people)
