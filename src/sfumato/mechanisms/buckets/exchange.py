"""Filling buckets under several limits at once: people change places until all are kept.

A person counts for several *marks* (`Holdings`): a value of each sensitive column, the combination
of columns. Each mark has a limit in every bucket. With one mark a person, buckets can be filled at
one go (`mechanisms.mixed`); with several, people are dealt by the mark that is hardest to place,
and then two at a time change places, of two buckets, where that breaks fewer limits. In the end
they go on to change places where nothing is broken and marks become no less gathered: so people
mix, and marks that may stand in a bucket often stand there often or not at all, which answers need.
Everything follows from counts and from draws; limits are whole numbers.

The best foreseen setting (`sizes`) that can be filled is taken; one bucket of everybody keeps every
ceiling that can be kept at all.

Marks are counted in some buckets at a time (`_AT_ONCE`), which are drawn anew in every round:
memory does not grow with buckets times marks. Cost: O(people · marks of a person), as long as
rounds grow with the size of buckets.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.draws import BoolArray, Draws, IntArray, Positions
from sfumato.mechanisms.buckets.filling import Listed
from sfumato.mechanisms.buckets.foretold import Judge, whole_error
from sfumato.mechanisms.buckets.settings import Limits, Setting
from sfumato.mechanisms.buckets.sizes import foreseen_settings, views_of
from sfumato.mechanisms.mixed import BucketParts
from sfumato.profile import Holdings

_PATIENCE = 400  # rounds in which half of what is broken must be repaired
_MIXING = 8  # times that everybody is asked to change places, on average
_MOST_MIXING = 20_000  # rounds
_AT_ONCE = 1 << 23  # buckets times marks that are counted together
_TRIED = 4  # settings that are filled before everybody goes into larger buckets


def fill(
    holdings: Holdings,
    limits: Limits,
    max_size: int | None,
    draws: Draws,
    judged: Judge = whole_error,
) -> Listed | None:
    """People in the best foreseen buckets that can be filled; None where none can."""
    if bool((holdings.by_mark(holdings.counts) > limits.table([holdings.people])[0]).any()):
        return None
    views = views_of(holdings, limits)
    settings = list(foreseen_settings(views, max_size or holdings.people, judged=judged))
    tried = [*settings[:_TRIED], *sorted(settings[_TRIED:], key=lambda each: each[0].size)]
    for number, setting in enumerate(tried):
        allowed = limits.table([part.size for part in setting])
        exchange = Exchange(holdings, setting, allowed, draws.child(f"setting {number}"))
        if exchange.repair():
            exchange.mix()
            return exchange.listed()
    return None


class Exchange:
    """Buckets on their way to keep all limits; `limits` are by size and mark, sizes ascending."""

    def __init__(
        self, holdings: Holdings, setting: Setting, limits: IntArray, draws: Draws
    ) -> None:
        self._holdings, self._draws, self._setting = holdings, draws, setting
        buckets = [part.buckets for part in setting]
        self._sizes = np.repeat([part.size for part in setting], buckets)
        self._of_size = np.repeat(np.arange(len(setting)), buckets)
        self._first = np.concatenate([[0], np.cumsum(self._sizes)])
        self._limits, self._marks = limits, holdings.mark
        self._people = holdings.by_mark(holdings.counts)
        self._weights = 1 / np.maximum(self._people, 1)
        self._bucket = np.repeat(np.arange(len(self._sizes)), self._sizes)
        self.places = self._dealt()

    def listed(self) -> Listed:
        """The buckets as they are now."""
        part = np.repeat(np.arange(len(self._setting)), [part.records for part in self._setting])
        counts = np.zeros((len(self._setting), len(self._holdings.counts)), np.int64)
        np.add.at(counts, (part, self.places), 1)
        sizes, buckets = np.array(self._setting).T
        return Listed(
            BucketParts(np.zeros(len(sizes), np.int64), sizes, buckets, counts), self.places
        )

    def _dealt(self) -> IntArray:
        """Combinations by place: those that fit into large buckets alone first, into these, the
        hardest to place first of all; people of one mark go to one bucket after the other."""
        counts, sizes = self._holdings.counts, len(self._limits)
        buckets_by_part = np.array([part.buckets for part in self._setting])
        people = np.array([part.size for part in self._setting])
        room = (np.minimum(self._limits, people[:, None]) * buckets_by_part[:, None]).sum(axis=0)
        pressed = self._people / np.maximum(room, 1)
        hardest = np.argmax(pressed[self._marks], axis=1)
        mark = self._marks[np.arange(len(hardest)), hardest]
        least = (self._limits == 0).sum(axis=0)[self._marks].max(axis=1)  # limits grow with sizes
        people = np.repeat(np.arange(len(counts)), counts)
        people = people[self._draws.order("people", len(people))]
        people = people[np.lexsort((mark[people], -pressed[mark[people]]))]
        within = np.arange(len(people)) - self._first[self._bucket]
        turn = self._draws.order("buckets", len(self._sizes))[self._bucket]
        slots = np.lexsort((turn, within))
        places = np.full(len(people), -1)
        for size in range(sizes - 1, 0, -1):
            forced = people[np.minimum(least[people], sizes - 1) == size]
            there = slots[(self._of_size[self._bucket[slots]] >= size) & (places[slots] < 0)]
            places[there[: len(forced)]] = forced[: len(there)]
        placed = np.bincount(places[places >= 0], minlength=len(counts))
        order = np.argsort(people, kind="stable")  # the first of every kind have their slots
        rank = np.empty(len(people), np.int64)
        rank[order] = np.arange(len(people)) - np.repeat(np.cumsum(counts) - counts, counts)
        places[slots[places[slots] < 0]] = people[rank >= placed[people]]
        return places

    def repair(self) -> bool:
        """Whether all limits could be kept."""
        rounds, before = 0, None
        while True:
            broken = 0
            for some in self._some(f"repair {rounds}"):
                contents = _Buckets(self, some)
                broken += int(contents.broken.sum())
                for number in range(_PATIENCE if contents.broken.any() else 0):
                    if len(some) < 2 or not contents.broken.any():
                        break
                    contents.mend(f"{rounds} {some[0]} {number}", strict=number % 4 != 0)
            if not broken:
                return True
            if before is not None and 2 * broken > before:
                return False
            before, rounds = broken, rounds + 1

    def mix(self) -> None:
        """Let people change places where nothing is broken and marks stay as gathered."""
        rounds = min(_MOST_MIXING, _MIXING * int(np.ceil(self._sizes.mean())))
        turns = _MIXING if len(self._sizes) * len(self._people) > _AT_ONCE else 1
        for turn in range(turns):
            for some in self._some(f"mix {turn}"):
                contents = _Buckets(self, some)
                for number in range(rounds // turns if len(some) > 1 else 0):
                    contents.mix(f"{turn} {some[0]} {number}")

    def _some(self, purpose: str) -> Iterator[IntArray]:
        """All buckets in random order, so many at a time that their marks can be counted."""
        order = self._draws.order(purpose, len(self._sizes))
        many = -(-len(order) * len(self._people) // _AT_ONCE)
        yield from np.array_split(order, max(1, many))


class _Buckets:
    """Some buckets, with the number of people in each who have each mark."""

    def __init__(self, whole: Exchange, some: IntArray) -> None:
        self._whole, self._some, self._draws = whole, some, whole._draws
        self.sizes, self.of_size = whole._sizes[some], whole._of_size[some]
        self.first, self.limits = whole._first[some], whole._limits
        marks = len(whole._people)
        bucket = np.repeat(np.arange(len(some)), self.sizes)
        within = np.arange(len(bucket)) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        self.slot, self.bucket = self.first[bucket] + within, bucket
        flat = bucket[:, None] * marks + whole._marks[whole.places[self.slot]]
        counts = np.bincount(flat.reshape(-1), minlength=len(some) * marks)
        self.held = counts.reshape(len(some), marks).astype(np.int32)
        self.broken = np.zeros(len(some), np.int64)
        for size in np.unique(self.of_size):
            here = self.of_size == size
            self.broken[here] = np.maximum(self.held[here] - self.limits[size], 0).sum(axis=1)

    def mend(self, purpose: str, *, strict: bool) -> None:
        """One person of every bucket that breaks a limit, at random, tries another bucket; a change
        that breaks as much elsewhere leads out of blind alleys, now and then."""
        draws = self._draws.child(f"mend {purpose}")
        suspects = np.flatnonzero((self.broken > 0)[self.bucket])
        marks = self._whole._marks[self._whole.places[self.slot[suspects]]]
        at = self.bucket[suspects][:, None]
        bad = (self.held[at, marks] > self.limits[self.of_size[at], marks]).any(axis=1)
        suspects = suspects[bad]
        suspects = suspects[draws.order("suspects", len(suspects))]
        _, first = np.unique(self.bucket[suspects], return_index=True)
        chosen = suspects[first]
        chosen = chosen[draws.order("chosen", len(chosen))]
        half = max(1, len(self.sizes) // 2)
        free = np.ones(len(self.sizes), np.bool_)
        free[self.bucket[chosen[:half]]] = False
        others = np.flatnonzero(free)
        others = others[draws.order("partners", len(others))][: min(len(chosen), half)]
        one = chosen[: len(others)]
        at_other = draws.below("other", Positions(0, len(others)), self.sizes[others])
        self._change(
            self.bucket[one], self.slot[one], others, self.first[others] + at_other, strict=strict
        )

    def mix(self, purpose: str) -> None:
        """Pairs of buckets, one person of each."""
        draws, half = self._draws.child(f"mix {purpose}"), len(self.sizes) // 2
        order = draws.order("pairs", len(self.sizes))
        g, h = order[:half], order[half : 2 * half]
        one = self.first[g] + draws.below("one", Positions(0, half), self.sizes[g])
        other = self.first[h] + draws.below("other", Positions(0, half), self.sizes[h])
        self._change(g, one, h, other, strict=False, gathering=True)

    def _change(
        self,
        g: IntArray,
        one: IntArray,
        h: IntArray,
        other: IntArray,
        *,
        strict: bool,
        gathering: bool = False,
    ) -> None:
        """Change places, pair by pair, where that is better; no bucket stands in two pairs."""
        whole = self._whole
        leave, enter = whole._marks[whole.places[one]], whole._marks[whole.places[other]]
        moved = leave != enter  # marks of a view differ, or are one
        breaks, gain = np.zeros((2, len(one)), np.int64), np.zeros(len(one))
        for side, (marks, source, target) in enumerate(((leave, g, h), (enter, h, g))):
            here, there = self.held[source[:, None], marks], self.held[target[:, None], marks]
            fewer = here > self.limits[self.of_size[source][:, None], marks]
            more = there >= self.limits[self.of_size[target][:, None], marks]
            breaks[side] -= (moved & fewer).sum(axis=1)
            breaks[1 - side] += (moved & more).sum(axis=1)
            if gathering:
                steps = (2 * there + 1) / self.sizes[target][:, None]
                steps -= (2 * here - 1) / self.sizes[source][:, None]
                gain += np.where(moved, whole._weights[marks] * steps, 0.0).sum(axis=1)
        both = breaks.sum(axis=0)
        good: BoolArray = both < 0 if strict else both <= 0
        if gathering:
            good &= gain >= -1e-12
        for marks, source, target in ((leave, g, h), (enter, h, g)):
            pair, position = np.nonzero(moved & good[:, None])
            mark = marks[pair, position]
            # a mark stands once in a combination and a bucket in one pair: no entry is met twice
            self.held[source[pair], mark] -= 1
            self.held[target[pair], mark] += 1
        self.broken[g[good]] += breaks[0, good]
        self.broken[h[good]] += breaks[1, good]
        one, other = one[good], other[good]
        whole.places[one], whole.places[other] = whole.places[other], whole.places[one]
