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
from sfumato.errors import UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.beta_likeness import BetaLikeness
from sfumato.guarantees.l_diversity import LDiversity
from sfumato.mechanisms.generalized import (
    Generalized,
    Stage,
    TablePlan,
    check_marginals,
    covers_of,
)
from sfumato.mechanisms.heterogeneous.blocks import split
from sfumato.mechanisms.heterogeneous.buckets import check_layers, largest_shares
from sfumato.mechanisms.heterogeneous.deal import deal
from sfumato.mechanisms.heterogeneous.diversity import Diversity
from sfumato.mechanisms.heterogeneous.likeness import Likeness
from sfumato.mechanisms.heterogeneous.match import MATCHERS
from sfumato.mechanisms.heterogeneous.ncp import Axis
from sfumato.mechanisms.heterogeneous.paper import matched_anew
from sfumato.mechanisms.heterogeneous.regions import Promise, Region, regions
from sfumato.mechanisms.heterogeneous.shift import shifted
from sfumato.mechanisms.heterogeneous.sweeps import Matching
from sfumato.mechanisms.protocol import Mechanism, Standing, one_column
from sfumato.profile import Histogram, Profile

PARTS = 4  # parts of a block: rows exchange misfits within a block, values travel within it
_WORTH_THREADS = 2_000  # people
LARGE = 50_000  # people: of so many, smaller parts cost next to nothing of GCP
ASSIGNMENTS = ("shift", "paper")
CUTS = ("auto", "none")


@dataclass(frozen=True, eq=False)
class HeterogeneousPlan(TablePlan):
    """What a region has to allow, from counts alone, and how its records are to be matched."""

    histogram: Histogram
    ceilings: tuple[Fraction, ...]
    promise: Promise
    way: HeterogeneousGeneralization

    def generalize(
        self, axes: Sequence[Axis], codes: IntArray, draws: Draws, progress: Stage
    ) -> Generalized:
        matching = Matching(axes, MATCHERS[self.way.match], self.way.sweeps)
        pieces: list[tuple[IntArray, int | None]] = []
        for place, region in enumerate(self._regions(axes, codes, draws)):
            own = draws.child(f"region {place}")
            for number, dealt in enumerate(deal(region.layers, codes[region.records], own)):
                records = region.records[dealt]
                most = self.way.rows_at_once(records.shape[1], len(codes))
                blocks = [records] if most is None else split(records, axes, PARTS * most)
                for turn, block in enumerate(blocks):
                    # no bucket has a place of its own in the order of matching: nothing tells which
                    order = own.order(f"layer {number}.{turn}", len(block))
                    pieces.append((block[order], most))
        members = _matched(matching, pieces, progress)
        matches = [rows.reshape(-1, rows.shape[2]) for rows in members]
        by_shift = self.way.assignment == "shift"
        source = shifted(members, draws) if by_shift else matched_anew(matches, draws)
        covers, units = covers_of(axes, matches)
        return Generalized(source, covers, units, matches=matches)

    def _regions(self, axes: Sequence[Axis], codes: IntArray, draws: Draws) -> list[Region]:
        values = len(self.histogram.counts)
        if self.way.cut == "none":
            return [Region(np.arange(len(codes)), self.promise.layers(self.histogram.counts))]
        return regions(axes, codes, values, self.promise, draws.child("regions"))

    @property
    def marginals(self) -> bool:
        return self.way.marginals == "counts"

    @property
    def matches(self) -> int:
        """The fewest matches that a record can have: any value is within its ceiling then."""
        return ceil(1 / max(self.ceilings))

    def public(self) -> dict[str, Any]:
        return {"matches": self.matches, "hand": self.way.assignment}

    def statement(self, guarantee: Guarantee, histogram: Histogram) -> str:
        if self.way.assignment == "paper":
            return (
                f"For comparison only: values were handed out as in the paper, so '{guarantee}' is "
                f"NOT kept for every person of column {histogram.column!r}."
            )
        return guarantee.statement(histogram)

    def caveats(self) -> list[str]:
        said = [
            f"The promise is about match sets: every person matches at least {self.matches} "
            "published records, each equally likely to be theirs, also for a reader who knows the "
            "program and who matches whom. That a region was not cut further, and how values were "
            "grouped where people were set aside, may tell such a reader more; measured "
            "('attack --attack rerun'), guesses by the former were right as often as by chance. "
            "Whoever knows the value of one person in a block learns those of the others in it.",
            "Published ranges and sets contain further people by accident, so a person fits more "
            "records than their matches, and unevenly; 'audit' reports the shares among those.",
        ]
        if self.way.assignment == "paper":
            said.append(
                "assignment=paper is for comparison: among the records that one person matches, a "
                "value may stand several times, so the promise is NOT kept for every person."
            )
        return said

    def check(self) -> None:
        layers = self.promise.layers(self.histogram.counts)
        check_layers(layers, self.histogram.counts)
        shares = largest_shares(layers)
        assert all(s <= c for s, c in zip(shares, self.ceilings, strict=True)), shares


def _matched(
    matching: Matching, pieces: list[tuple[IntArray, int | None]], progress: Stage
) -> list[IntArray]:
    """Blocks are independent: on all cores, since matching leaves Python's lock."""
    done, whole = 0, sum(records.size for records, _ in pieces)
    found = []
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as workers:
        # a few people are matched before a thread has started
        each = workers.map if whole >= _WORTH_THREADS else map
        for members in each(lambda piece: matching.members(*piece), pieces):
            found.append(members)
            done += members.shape[0] * members.shape[1]
            progress("matching", done, whole)
    return found


@dataclass(frozen=True)
class HeterogeneousGeneralization(Mechanism):
    """Every record gets its own matches, one out of every bucket.

    `match` is hungarian, sort-greedy or greedy; `block` how many rows of a region are matched at
    once, none for all of them, auto by size; `sweeps` how often matches are mended; `assignment`
    how values get to rows: by shift, or as in the paper, for comparison; `cut` auto for regions,
    none for one with everybody; `marginals` whether the manifest tells how many people have which
    quasi values: counts or none.

    >>> str(HeterogeneousGeneralization(block="256"))
    'heterogeneous(block=256)'
    """

    match: str = "hungarian"
    block: str = "auto"
    sweeps: int = 2
    assignment: str = "shift"
    cut: str = "auto"
    marginals: str = "counts"

    name: ClassVar[str] = "heterogeneous"
    earlier_names: ClassVar[Mapping[str, str]] = {"hand": "assignment"}
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (LDiversity, BetaLikeness)
    sentence: ClassVar[str] = (
        "Shows ranges and sets instead of public values, made for each record."
    )
    standing: ClassVar[Standing] = "on request"

    def __post_init__(self) -> None:
        check_marginals(self.name, self.marginals)
        choices = {"match": tuple(MATCHERS), "assignment": ASSIGNMENTS, "cut": CUTS}
        for parameter, allowed in choices.items():
            if getattr(self, parameter) not in allowed:
                raise UsageError(
                    f"The {parameter!r} parameter of {self.name} must be one of "
                    f"{', '.join(allowed)}. Got {getattr(self, parameter)!r} instead."
                )
        object.__setattr__(self, "block", str(self.block))
        if self.block not in ("auto", "none") and not (
            self.block.isascii() and self.block.isdigit() and int(self.block) >= 2
        ):
            raise UsageError(
                f"The 'block' parameter of {self.name} must be auto, none or a whole number of at "
                f"least 2. Got {self.block!r} instead."
            )
        sweeps = str(self.sweeps)
        if not (sweeps.isascii() and sweeps.isdigit()):
            raise UsageError(
                f"The 'sweeps' parameter of {self.name} must be a whole number from 0 up. "
                f"Got {sweeps!r} instead."
            )
        object.__setattr__(self, "sweeps", int(sweeps))

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> HeterogeneousPlan:
        histogram = one_column(profile, self.name, guarantee)
        guarantee.require_feasible(histogram)
        ceilings = tuple(guarantee.ceilings(histogram))
        promise: Promise
        if isinstance(guarantee, LDiversity) and guarantee.open is None:
            promise = Diversity(guarantee.l)
        else:
            promise = Likeness(ceilings)
        return HeterogeneousPlan(histogram, ceilings, promise, self)

    def rows_at_once(self, size: int, people: int) -> int | None:
        """For buckets of `size` of that many people.

        Parts of 128 cost a quarter of parts of 256; of few people that is a few percent of GCP,
        of many next to nothing.
        """
        if self.block == "none":
            return None
        if self.block == "auto" and people < LARGE:
            return None if size <= 512 else 128 if size > 4096 else 256
        if self.block == "auto":
            return None if size <= 192 else 128
        return int(self.block)
