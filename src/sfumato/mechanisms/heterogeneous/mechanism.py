"""Heterogeneous generalization for l-diversity or beta-likeness (the paper, Sections 3 and 4)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import BetaLikeness, LDiversity
from sfumato.mechanisms.generalized import (
    Generalized,
    Stage,
    TablePlan,
    covers_of,
)
from sfumato.mechanisms.heterogeneous.blocks import split
from sfumato.mechanisms.heterogeneous.buckets import check_layers, deal, largest_shares
from sfumato.mechanisms.heterogeneous.ncp import Axis
from sfumato.mechanisms.heterogeneous.regions import Diversity, Likeness, Promise, Region, regions
from sfumato.mechanisms.heterogeneous.sweeps import Matching, shifted
from sfumato.mechanisms.protocol import Mechanism, Standing, one_column
from sfumato.profile import Histogram, Profile
from sfumato.public import PublicPlan, from_shown

PARTS = 4  # parts of a block: rows exchange misfits within a block, values travel within it
_WORTH_THREADS = 2_000  # people
# rows of a layer that are matched at once: parts of 128 cost a quarter of parts of 256; of few
# people that is a few percent of GCP, of many next to nothing
AT_ONCE, LARGE, OF_LARGE = 256, 50_000, 128


@dataclass(frozen=True, eq=False)
class HeterogeneousPlan(TablePlan):
    """What a region has to allow, from counts alone."""

    histogram: Histogram
    ceilings: tuple[Fraction, ...]
    promise: Promise

    def generalize(
        self, axes: Sequence[Axis], codes: IntArray, draws: Draws, progress: Stage
    ) -> Generalized:
        pieces, most = list[IntArray](), self.rows_at_once(len(codes))
        for index, region in enumerate(self.regions(axes, codes, draws)):
            self._hold(region, codes)
            stream = draws.child(f"region {index}")
            for number, dealt in enumerate(deal(region.layers, codes[region.records], stream)):
                records = region.records[dealt]
                for turn, block in enumerate(split(records, axes, PARTS * most)):
                    # no bucket has a place of its own in the order of matching: nothing tells which
                    order = stream.order(f"layer {number}.{turn}", len(block))
                    pieces.append(block[order])
        members = _matched(self.matching(axes), pieces, most, progress)
        matches = [rows.reshape(-1, rows.shape[2]) for rows in members]
        return Generalized(shifted(members, draws), covers_of(axes, matches), matches=matches)

    def regions(self, axes: Sequence[Axis], codes: IntArray, draws: Draws) -> list[Region]:
        """Where people are matched with each other, and the layers of their buckets."""
        values = len(self.histogram.counts)
        return regions(axes, codes, values, self.promise, draws.child("regions"))

    def matching(self, axes: Sequence[Axis]) -> Matching:
        """How matches are found."""
        return Matching(axes)

    def rows_at_once(self, people: int) -> int:
        """How many rows of a layer are matched at once."""
        return AT_ONCE if people < LARGE else OF_LARGE

    def _hold(self, region: Region, codes: IntArray) -> None:
        """Hold what is published to the promise: every region, layer by layer."""
        counts = np.bincount(codes[region.records], minlength=len(self.ceilings))
        check_layers(region.layers, counts)
        shares = largest_shares(region.layers)
        assert all(s <= c for s, c in zip(shares, self.ceilings, strict=True)), shares

    @property
    def matches(self) -> int:
        """The fewest matches that a record can have: any value is within its ceiling then."""
        return ceil(1 / max(self.ceilings))

    def public(self) -> PublicPlan:
        return {"matches": from_shown(self.matches)}

    def check(self) -> None:
        everybody = np.arange(self.histogram.rows)
        codes = np.repeat(np.arange(len(self.ceilings)), self.histogram.counts)
        self._hold(Region(everybody, self.promise.layers(self.histogram.counts)), codes)


def _matched(
    matching: Matching, pieces: list[IntArray], most: int, progress: Stage
) -> list[IntArray]:
    """Blocks are independent: on all cores, since matching leaves Python's lock."""
    done, whole = 0, sum(records.size for records in pieces)
    found = []
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as workers:
        # a few people are matched before a thread has started
        apply = workers.map if whole >= _WORTH_THREADS else map
        for members in apply(lambda piece: matching.members(piece, most), pieces):
            found.append(members)
            done += members.shape[0] * members.shape[1]
            progress("matching", done, whole)
    return found


@dataclass(frozen=True)
class HeterogeneousGeneralization(Mechanism):
    """Every record gets its own matches, one out of every bucket.

    >>> str(HeterogeneousGeneralization())
    'heterogeneous'
    """

    name: ClassVar[str] = "heterogeneous"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (LDiversity, BetaLikeness)
    sentence: ClassVar[str] = (
        "Shows ranges and sets instead of public values, made for each record."
    )
    standing: ClassVar[Standing] = "on request"
    narrows: ClassVar[str] = (
        " That is for a reader who concludes nothing from who is matched with whom: whether a "
        "region of people was cut further, and whom it set aside, followed from their values."
    )

    def beside(self, plan: Mapping[str, Any]) -> list[str]:
        return [
            f"The promise is about match sets: every person matches at least {plan['matches']} "
            "published records, each equally likely to be theirs. Whoever knows the value of "
            "one person in a block learns those of the others in it.",
            "Published ranges and sets contain further people by accident, so a person fits more "
            "records than their matches, and unevenly; 'audit' reports the shares among those.",
        ]

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> HeterogeneousPlan:
        histogram = one_column(profile, self.name)
        guarantee.require_feasible(histogram)
        ceilings = tuple(guarantee.ceilings(histogram))
        diverse = isinstance(guarantee, LDiversity) and guarantee.open is None
        promise = Diversity(ceilings) if diverse else Likeness(ceilings)
        return HeterogeneousPlan(histogram, ceilings, promise)
