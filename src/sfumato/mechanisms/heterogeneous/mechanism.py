"""Heterogeneous generalization for l-diversity or beta-likeness (the paper, Sections 3 and 4)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.columns import list_some, value_text
from sfumato.draws import Draws, IntArray
from sfumato.errors import UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.beta_likeness import BetaLikeness
from sfumato.guarantees.l_diversity import LDiversity
from sfumato.mechanisms.generalized import Generalized, Stage, WholePlan, covers_of, one_column
from sfumato.mechanisms.heterogeneous.blocks import split
from sfumato.mechanisms.heterogeneous.buckets import (
    Buckets,
    diversity_buckets,
    likeness_buckets,
)
from sfumato.mechanisms.heterogeneous.deal import deal
from sfumato.mechanisms.heterogeneous.match import MATCHERS
from sfumato.mechanisms.heterogeneous.ncp import Axis, Scale
from sfumato.mechanisms.heterogeneous.paper import random_matching
from sfumato.mechanisms.heterogeneous.shift import shifted
from sfumato.mechanisms.heterogeneous.sweeps import Block, Matching
from sfumato.mechanisms.protocol import Mechanism
from sfumato.profile import Histogram, Profile

PARTS = 4  # parts of a block: rows exchange misfits within a block, values travel within it
WHOLE_UP_TO = 512  # larger buckets are matched in parts by default
HANDS = ("shift", "paper")


@dataclass(frozen=True, eq=False)
class HeterogeneousPlan(WholePlan):
    """The buckets, from counts alone, and how their records are to be matched."""

    histogram: Histogram
    buckets: Buckets
    match: str
    most: int | None  # rows that are matched at once
    sweeps: int
    hand: str
    distinct: bool  # the promise: no match set shows a value twice

    @property
    def withheld(self) -> int:  # type: ignore[override]
        return int(self.buckets.withheld.sum())

    def generalize(
        self, axes: Sequence[Axis], codes: IntArray, draws: Draws, progress: Stage
    ) -> Generalized:
        records = deal(self.buckets, codes, draws.child("heterogeneous"))
        matching = Matching(
            axes,
            Scale.of([axis.denominator for axis in axes]),
            self._shared(codes),
            MATCHERS[self.match],
            self.sweeps,
            self.most,
        )
        pieces = [records] if self.most is None else split(records, axes, PARTS * self.most)
        blocks = _without_conflicts(matching, _matched(matching, pieces, progress))
        members = [block.members for block in blocks]
        matches = np.concatenate([rows.reshape(-1, self.buckets.number) for rows in members])
        if self.hand == "shift":
            source = shifted(members, draws)
        else:
            source = random_matching(matches, draws)
        covers, units = covers_of(axes, matches)
        return Generalized(source, covers, units, matches=matches)

    def _shared(self, codes: IntArray) -> IntArray | None:
        """Per record: the number of its value among those in several buckets, else 0.

        For beta-likeness nothing is forbidden: a value may be met once per bucket that has it.
        """
        shared = self._several()
        if not shared:
            return None
        number = np.zeros(len(self.buckets.withheld), np.int64)
        number[shared] = np.arange(1, len(shared) + 1)
        return np.asarray(number[codes])

    def public(self) -> dict[str, Any]:
        return {
            "matches": self.buckets.number,
            "hand": self.hand,
            # from the histogram, which the records show anyway
            "several": {
                value_text(self.histogram.values[code]): int(self.buckets.spread[code])
                for code in self._several()
            },
        }

    def _several(self) -> list[int]:
        """Values that lie in more buckets than the promise allows for."""
        if not self.distinct:
            return []
        return [int(code) for code in np.flatnonzero(self.buckets.spread > 1)]

    def statement(self, guarantee: Guarantee, histogram: Histogram) -> str:
        if self.hand == "paper":
            return (
                f"For comparison only: values were handed out as in the paper, so '{guarantee}' is "
                f"NOT kept for every person of column {histogram.column!r}."
            )
        said = guarantee.statement(histogram)
        several = self._several()
        if several:
            names = [value_text(histogram.values[code]) for code in several]
            most = int(self.buckets.spread[several].max())
            said += (
                f" Except {list_some(names)}: they lie in several buckets, and may have a chance "
                f"of up to {most} in {self.buckets.number}."
            )
        return said

    def caveats(self) -> list[str]:
        said = [
            "The promise is about match sets: every person matches "
            f"{self.buckets.number} published records, each equally likely to be theirs. It is not "
            "claimed against somebody who reruns the algorithm on guessed tables.",
            "Published ranges and sets contain further people by accident, so a person fits more "
            "records than their matches, and unevenly; 'audit' reports the shares among those.",
        ]
        if self.hand == "paper":
            said.append(
                "hand=paper is for comparison: among the records that one person matches, a value "
                "may stand several times, so the promise is NOT kept for every person."
            )
        return said

    def check(self) -> None:
        self.buckets.check()
        published = self.buckets.counts.sum(axis=0) + self.buckets.withheld
        assert (published == self.histogram.counts).all(), self.buckets


def _matched(matching: Matching, pieces: list[IntArray], progress: Stage) -> list[Block]:
    """Blocks are independent: on all cores, since matching leaves Python's lock."""
    done = 0
    blocks = []
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as workers:
        for block in workers.map(matching.block, pieces):
            blocks.append(block)
            done += block.records.size
            progress("matching", done, sum(piece.size for piece in pieces))
    return blocks


def _without_conflicts(matching: Matching, blocks: list[Block]) -> list[Block]:
    """A block in which some row had to meet a value twice is matched anew with a neighbour (H7)."""
    finished: list[Block] = []
    for block in blocks:
        if finished and (block.conflicts or finished[-1].conflicts):
            joined = np.concatenate([finished.pop().records, block.records], axis=1)
            block = matching.block(joined)
        finished.append(block)
    while len(finished) > 1 and finished[-1].conflicts:
        last = finished.pop()
        joined = np.concatenate([finished.pop().records, last.records], axis=1)
        finished.append(matching.block(joined))
    return finished


@dataclass(frozen=True)
class HeterogeneousGeneralization(Mechanism):
    """Every record gets its own matches, one out of every bucket.

    `match` is hungarian, sort-greedy or greedy; `block` how many rows are matched at once, none
    for all of them, auto by size; `sweeps` how often matches are mended; `hand` shift, or paper
    for comparison.

    >>> str(HeterogeneousGeneralization(block="256"))
    'heterogeneous(block=256)'
    """

    match: str = "hungarian"
    block: str = "auto"
    sweeps: int = 2
    hand: str = "shift"

    name: ClassVar[str] = "heterogeneous"

    @classmethod
    def candidates(cls) -> list[Self]:
        return []  # ranges and sets never answer counts best: chosen by name

    def __post_init__(self) -> None:
        for parameter, allowed in (("match", tuple(MATCHERS)), ("hand", HANDS)):
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

    def keeps(self, guarantee: Guarantee) -> bool:
        return isinstance(guarantee, LDiversity | BetaLikeness)

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> HeterogeneousPlan:
        histogram = one_column(profile, self.name)
        guarantee.require_feasible(histogram)
        if isinstance(guarantee, LDiversity):
            buckets = diversity_buckets(histogram.counts, guarantee.l)
        else:
            assert isinstance(guarantee, BetaLikeness)
            buckets = likeness_buckets(histogram.counts, guarantee.beta)
        return HeterogeneousPlan(
            histogram,
            buckets,
            self.match,
            self._most(buckets.size),
            self.sweeps,
            self.hand,
            isinstance(guarantee, LDiversity),
        )

    def _most(self, size: int) -> int | None:
        """Parts of 128 cost a quarter of parts of 256 and a few percent of GCP."""
        if self.block == "none":
            return None
        if self.block == "auto":
            return None if size <= WHOLE_UP_TO else 128 if size > 8 * WHOLE_UP_TO else 256
        return int(self.block)
