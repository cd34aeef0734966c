"""Which records may be a person's: those with the same quasi values, or whose ranges hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.attacks.people import Codes, People, common_keys
from sfumato.attacks.views import BucketsView, RangesView, RecordsView
from sfumato.draws import IntArray

PAIRS = 1 << 24  # (person, row) pairs that are compared at once


@dataclass(frozen=True, eq=False)
class Alike:
    """The records that look like each target, by the profile that both have.

    A view that knows which row of the raw table each record is (`rows`) is matched by that.
    """

    slot: IntArray  # per record: the number of its profile among those of targets, or −1
    place: IntArray  # per target
    matches: IntArray  # per profile: how many records have it

    @classmethod
    def of(cls, view: RecordsView | BucketsView, targets: People) -> Alike:
        if isinstance(view, RecordsView) and view.rows is not None:
            records, wanted = common_keys([view.rows], [targets.rows])
        elif targets.codes:
            records, wanted = common_keys(view.codes, targets.codes)
        else:  # without quasi columns everybody looks like everybody
            count = len(view.bucket if isinstance(view, BucketsView) else view.shown)
            records, wanted = np.zeros(count, np.int64), np.zeros(len(targets), np.int64)
        asked, place = np.unique(wanted, return_inverse=True)
        slot = np.full(int(max(records.max(initial=-1), wanted.max(initial=-1))) + 1, -1, np.int64)
        slot[asked] = np.arange(len(asked))
        found = slot[records]
        return cls(found, place, np.bincount(found[found >= 0], minlength=len(asked)))

    @property
    def counts(self) -> IntArray:
        """How many records look like each target."""
        return np.asarray(self.matches[self.place])


@dataclass(frozen=True, eq=False)
class Rows:
    """The different rows that a release of ranges and sets shows, and how often."""

    first: IntArray  # a record of each
    count: IntArray

    @classmethod
    def of(cls, view: RangesView) -> Rows:
        packed = [np.packbits(holds, axis=1) for holds in view.holds]
        shown = view.shown.astype(np.int64).view(np.uint8).reshape(len(view.shown), -1)
        rows = np.ascontiguousarray(np.hstack([*packed, shown]))
        keys = rows.view(np.dtype((np.void, rows.shape[1]))).ravel()
        _, first, count = np.unique(keys, return_index=True, return_counts=True)
        return cls(first, count)

    def fits(self, view: RangesView, codes: Codes) -> Iterator[tuple[IntArray, IntArray]]:
        """Pairs (person, different row) whose ranges and sets hold all of the person's values.

        Some people at a time, in order, so that no piece has more than about `PAIRS` pairs.
        """
        packed = [np.packbits(holds[self.first].T, axis=1) for holds in view.holds]
        step = max(1, PAIRS // max(len(self.first), 1))
        for start in range(0, len(codes[0]), step):
            held = np.full((1, 1), 255, np.uint8)
            for rows, column in zip(packed, codes, strict=True):
                held = held & rows[column[start : start + step]]
            place, byte = np.nonzero(held)
            which, bit = np.nonzero(np.unpackbits(held[place, byte][:, None], axis=1))
            yield place[which] + start, byte[which] * 8 + bit


def distinct(codes: Codes) -> tuple[IntArray, IntArray, IntArray]:
    """A person of every profile, the profile of every person, and how many have it."""
    keys, _ = common_keys(codes, [column[:0] for column in codes])
    _, first, profile, count = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    return first, profile, count
