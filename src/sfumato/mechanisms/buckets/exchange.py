"""Filling buckets under several ceilings at once: people change places until all are kept.

A person counts for several *marks*: a value of each sensitive column, the combination of columns.
Each mark has a limit in every bucket. With one mark a person, buckets can be filled at one go
(`mixing`); with several, people are dealt by the mark that is hardest to place, and then two at a
time change places, of two buckets, where that breaks fewer limits. In the end they go on to
change places where nothing is broken and marks become no less gathered: so people mix, and marks
that may stand in a bucket often stand there often or not at all, which answers need
(`dealing.gather`). Everything follows from counts and from draws; limits are whole numbers.

Cost: O(people · marks of a person), as long as rounds grow with the size of buckets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.draws import BoolArray, Draws, IntArray, Positions
from sfumato.mechanisms.buckets.settings import Setting

_PATIENCE = 400  # rounds in which half of what is broken must be repaired
_MIXING = 8  # times that everybody is asked to change places, on average
_MOST_MIXING = 20_000  # rounds


@dataclass(frozen=True, eq=False)
class Marks:
    """What kinds of people count for: `of[t]` lists the marks of kind t, one of every view."""

    of: IntArray  # kinds by marks
    number: int
    counts: IntArray  # people of each kind
    starts: tuple[int, ...] = (0,)  # the first mark of every view

    @cached_property
    def people(self) -> IntArray:
        """How many people count for each mark."""
        held = np.repeat(self.counts, self.of.shape[1])
        found = np.bincount(self.of.reshape(-1), held, minlength=self.number)
        return np.asarray(found, np.int64)


class Exchange:
    """Buckets on their way to keep all limits; `limits` are by size and mark, sizes ascending."""

    def __init__(self, marks: Marks, setting: Setting, limits: IntArray, draws: Draws) -> None:
        self.marks, self.draws = marks, draws
        buckets = [part.buckets for part in setting]
        self.sizes = np.repeat([part.size for part in setting], buckets)
        self._of_size = np.repeat(np.arange(len(setting)), buckets)
        self._first = np.concatenate([[0], np.cumsum(self.sizes)])
        self._limits = limits
        self._weights = 1 / np.maximum(marks.people, 1)
        self._bucket = np.repeat(np.arange(len(self.sizes)), self.sizes)
        self.kinds = self._dealt()
        self._held = self._counted()
        allowed = self._limits[self._of_size]
        self._broken = np.maximum(self._held - allowed, 0).sum(axis=1)  # by bucket

    def _dealt(self) -> IntArray:
        """Kinds by slot: those that fit into large buckets alone first, into these, the hardest to
        place first of all; people of one mark go to one bucket after the other."""
        marks, sizes = self.marks, self._limits.shape[0]
        room = np.minimum(self._limits[self._of_size], self.sizes[:, None]).sum(axis=0)
        pressed = marks.people / np.maximum(room, 1)
        hardest = np.argmax(pressed[marks.of], axis=1)
        mark = marks.of[np.arange(len(hardest)), hardest]
        least = (self._limits == 0).sum(axis=0)[marks.of].max(axis=1)  # limits grow with sizes
        people = np.repeat(np.arange(len(marks.counts)), marks.counts)
        people = people[self.draws.order("people", len(people))]
        people = people[np.lexsort((mark[people], -pressed[mark[people]]))]
        within = np.arange(len(people)) - self._first[self._bucket]
        turn = self.draws.order("buckets", len(self.sizes))[self._bucket]
        slots = np.lexsort((turn, within))
        kinds = np.full(len(people), -1)
        for size in range(sizes - 1, 0, -1):
            forced = people[np.minimum(least[people], sizes - 1) == size]
            there = slots[(self._of_size[self._bucket[slots]] >= size) & (kinds[slots] < 0)]
            kinds[there[: len(forced)]] = forced[: len(there)]
        placed = np.bincount(kinds[kinds >= 0], minlength=len(marks.counts))
        order = np.argsort(people, kind="stable")  # the first of every kind have their slots
        rank = np.empty(len(people), np.int64)
        begins = np.cumsum(marks.counts) - marks.counts
        rank[order] = np.arange(len(people)) - np.repeat(begins, marks.counts)
        kinds[slots[kinds[slots] < 0]] = people[rank >= placed[people]]
        return kinds

    def _counted(self) -> IntArray:
        width = self.marks.number
        flat = self._bucket[:, None] * width + self.marks.of[self.kinds]
        counts = np.bincount(flat.reshape(-1), minlength=len(self.sizes) * width)
        return counts.reshape(len(self.sizes), width).astype(np.int64)

    def repair(self) -> bool:
        """Whether all limits could be kept."""
        number, before = 0, 2 * int(self._broken.sum()) + 1
        while len(self.sizes) > 1 and (broken := int(self._broken.sum())):
            if number % _PATIENCE == 0:
                if 2 * broken > before:
                    return False
                before = broken
            one = self._broken_slots(number)
            number += 1
            partners = self._partners(self._bucket[one], number)
            one, other = one[: len(partners)], self._slots_of(partners, f"other {number}")
            # a change that breaks as much elsewhere leads out of blind alleys, now and then
            self._change(one, other, strict=number % 4 != 0, gathering=False)
        return not self._broken.any()

    def mix(self) -> None:
        """Let people change places where nothing is broken and marks stay as gathered."""
        buckets = len(self.sizes)
        if buckets < 2:
            return
        rounds = min(_MOST_MIXING, _MIXING * int(np.ceil(self.sizes.mean())))
        for number in range(rounds):
            order = self.draws.order(f"pairs {number}", buckets)
            half = buckets // 2
            one = self._slots_of(order[:half], f"one of {number}")
            other = self._slots_of(order[half : 2 * half], f"two of {number}")
            self._change(one, other, strict=False, gathering=True)

    def _broken_slots(self, number: int) -> IntArray:
        """One slot, at random, of every bucket that breaks a limit: with a mark that does."""
        suspects = np.flatnonzero((self._broken > 0)[self._bucket])
        bucket, marks = self._bucket[suspects][:, None], self.marks.of[self.kinds[suspects]]
        bad = self._held[bucket, marks] > self._limits[self._of_size[bucket], marks]
        suspects = suspects[bad.any(axis=1)]
        suspects = suspects[self.draws.order(f"suspects {number}", len(suspects))]
        _, first = np.unique(self._bucket[suspects], return_index=True)
        chosen = suspects[first]
        return np.asarray(chosen[self.draws.order(f"chosen {number}", len(chosen))])

    def _partners(self, taken: IntArray, number: int) -> IntArray:
        """For as many as possible of these buckets another one, none of them twice in all."""
        buckets = len(self.sizes)
        free = np.ones(buckets, np.bool_)
        free[taken[: max(1, buckets // 2)]] = False
        others = np.flatnonzero(free)
        others = others[self.draws.order(f"partners {number}", len(others))]
        return np.asarray(others[: min(len(taken), max(1, buckets // 2))])

    def _slots_of(self, buckets: IntArray, purpose: str) -> IntArray:
        at = self.draws.below(purpose, Positions(0, len(buckets)), self.sizes[buckets])
        return np.asarray(self._first[buckets] + at)

    def _change(self, one: IntArray, other: IntArray, *, strict: bool, gathering: bool) -> None:
        """Change places, pair by pair, where that is better; no bucket stands in two pairs."""
        g, h = self._bucket[one], self._bucket[other]
        leave, enter = self.marks.of[self.kinds[one]], self.marks.of[self.kinds[other]]
        same = leave[:, :, None] == enter[:, None, :]
        leaving, entering = ~same.any(axis=2), ~same.any(axis=1)
        breaks, gain = np.zeros((2, len(one)), np.int64), np.zeros(len(one))
        for side, (moved, marks, source, target) in enumerate(
            ((leaving, leave, g, h), (entering, enter, h, g))
        ):
            here, there = self._held[source[:, None], marks], self._held[target[:, None], marks]
            fewer = here > self._limits[self._of_size[source][:, None], marks]
            more = there >= self._limits[self._of_size[target][:, None], marks]
            breaks[side] -= (moved & fewer).sum(axis=1)
            breaks[1 - side] += (moved & more).sum(axis=1)
            steps = (2 * there + 1) / self.sizes[target][:, None]
            steps -= (2 * here - 1) / self.sizes[source][:, None]
            gain += np.where(moved, self._weights[marks] * steps, 0.0).sum(axis=1)
        both = breaks.sum(axis=0)
        good: BoolArray = both < 0 if strict else both <= 0
        if gathering:
            good &= gain >= -1e-12
        self._moved(leave, leaving & good[:, None], g, h)
        self._moved(enter, entering & good[:, None], h, g)
        self._broken[g[good]] += breaks[0, good]
        self._broken[h[good]] += breaks[1, good]
        one, other = one[good], other[good]
        self.kinds[one], self.kinds[other] = self.kinds[other], self.kinds[one]

    def _moved(self, marks: IntArray, moved: BoolArray, source: IntArray, target: IntArray) -> None:
        pair, place = np.nonzero(moved)
        mark = marks[pair, place]
        # a mark stands once in a kind and a bucket in one pair, so no entry is met twice
        self._held[source[pair], mark] -= 1
        self._held[target[pair], mark] += 1
