"""Heterogeneous generalization for l-diversity or beta-likeness (the paper, Sections 3 and 4)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from sfumato.draws import Draws, IntArray
from sfumato.errors import UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.beta_likeness import BetaLikeness
from sfumato.guarantees.l_diversity import LDiversity
from sfumato.mechanisms.generalized import Generalized, Stage, TablePlan, covers_of, one_column
from sfumato.mechanisms.heterogeneous.blocks import split
from sfumato.mechanisms.heterogeneous.buckets import Layers, check_layers, largest_shares
from sfumato.mechanisms.heterogeneous.deal import deal
from sfumato.mechanisms.heterogeneous.diversity import diversity_layers
from sfumato.mechanisms.heterogeneous.likeness import likeness_layers
from sfumato.mechanisms.heterogeneous.match import MATCHERS
from sfumato.mechanisms.heterogeneous.ncp import Axis, Scale
from sfumato.mechanisms.heterogeneous.paper import matched_anew
from sfumato.mechanisms.heterogeneous.shift import shifted
from sfumato.mechanisms.heterogeneous.sweeps import Block, Matching
from sfumato.mechanisms.protocol import Mechanism, Standing
from sfumato.profile import Histogram, Profile

PARTS = 4  # parts of a block: rows exchange misfits within a block, values travel within it
WHOLE_UP_TO = 512  # larger buckets are matched in parts by default
ASSIGNMENTS = ("shift", "paper")


@dataclass(frozen=True, eq=False)
class HeterogeneousPlan(TablePlan):
    """The layers of buckets, from counts alone, and how their records are to be matched."""

    histogram: Histogram
    ceilings: tuple[Fraction, ...]
    layers: Layers
    match: str
    block: str
    sweeps: int
    assignment: str

    def generalize(
        self, axes: Sequence[Axis], codes: IntArray, draws: Draws, progress: Stage
    ) -> Generalized:
        scale = Scale.of([axis.denominator for axis in axes])
        pieces: list[tuple[Matching, IntArray]] = []
        for records in deal(self.layers, codes, draws.child("heterogeneous")):
            most = _most(self.block, records.shape[1])
            matching = Matching(axes, scale, MATCHERS[self.match], self.sweeps, most)
            blocks = [records] if most is None else split(records, axes, PARTS * most)
            pieces += [(matching, block) for block in blocks]
        # no bucket has a place of its own in the order of matching: nothing tells them apart
        shuffled = [
            (matching, block[draws.order(f"buckets of block {place}", len(block))])
            for place, (matching, block) in enumerate(pieces)
        ]
        members = [block.members for block in _matched(shuffled, progress)]
        matches = [rows.reshape(-1, rows.shape[2]) for rows in members]
        by_shift = self.assignment == "shift"
        source = shifted(members, draws) if by_shift else matched_anew(matches, draws)
        covers, units = covers_of(axes, matches)
        return Generalized(source, covers, units, matches=matches)

    @property
    def matches(self) -> int:
        """The fewest matches that a record has."""
        return min(layer.number for layer in self.layers)

    def public(self) -> dict[str, Any]:
        return {"matches": self.matches, "hand": self.assignment}

    def statement(self, guarantee: Guarantee, histogram: Histogram) -> str:
        if self.assignment == "paper":
            return (
                f"For comparison only: values were handed out as in the paper, so '{guarantee}' is "
                f"NOT kept for every person of column {histogram.column!r}."
            )
        return guarantee.statement(histogram)

    def caveats(self) -> list[str]:
        said = [
            f"The promise is about match sets: every person matches at least {self.matches} "
            "published records, each equally likely to be theirs. It is not claimed against "
            "somebody who reruns the algorithm on guessed tables.",
            "Published ranges and sets contain further people by accident, so a person fits more "
            "records than their matches, and unevenly; 'audit' reports the shares among those.",
        ]
        if self.assignment == "paper":
            said.append(
                "assignment=paper is for comparison: among the records that one person matches, a "
                "value may stand several times, so the promise is NOT kept for every person."
            )
        return said

    def check(self) -> None:
        check_layers(self.layers, self.histogram.counts)
        shares = largest_shares(self.layers)
        assert all(s <= c for s, c in zip(shares, self.ceilings, strict=True)), shares


def _most(block: str, size: int) -> int | None:
    """How many rows are matched at once: parts of 128 cost a quarter of parts of 256, and a few
    percent of GCP."""
    if block == "none":
        return None
    if block == "auto":
        return None if size <= WHOLE_UP_TO else 128 if size > 8 * WHOLE_UP_TO else 256
    return int(block)


def _matched(pieces: list[tuple[Matching, IntArray]], progress: Stage) -> list[Block]:
    """Blocks are independent: on all cores, since matching leaves Python's lock."""
    done = 0
    blocks = []
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as workers:
        for block in workers.map(lambda piece: piece[0].block(piece[1]), pieces):
            blocks.append(block)
            done += block.records.size
            progress("matching", done, sum(piece.size for _, piece in pieces))
    return blocks


@dataclass(frozen=True)
class HeterogeneousGeneralization(Mechanism):
    """Every record gets its own matches, one out of every bucket.

    `match` is hungarian, sort-greedy or greedy; `block` how many rows are matched at once, none
    for all of them, auto by size; `sweeps` how often matches are mended; `assignment` how values
    get to rows: by shift, or as in the paper, for comparison.

    >>> str(HeterogeneousGeneralization(block="256"))
    'heterogeneous(block=256)'
    """

    match: str = "hungarian"
    block: str = "auto"
    sweeps: int = 2
    assignment: str = "shift"

    name: ClassVar[str] = "heterogeneous"
    earlier_names: ClassVar[Mapping[str, str]] = {"hand": "assignment"}
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (LDiversity, BetaLikeness)
    sentence: ClassVar[str] = (
        "Shows ranges and sets instead of public values, made for each record."
    )
    standing: ClassVar[Standing] = "on request"

    def __post_init__(self) -> None:
        for parameter, allowed in (("match", tuple(MATCHERS)), ("assignment", ASSIGNMENTS)):
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
        histogram = one_column(profile, self.name)
        guarantee.require_feasible(histogram)
        if isinstance(guarantee, LDiversity):
            layers = diversity_layers(histogram.counts, guarantee.l)
        else:
            assert isinstance(guarantee, BetaLikeness)
            layers = likeness_layers(histogram.counts, guarantee.beta)
        ceilings = tuple(guarantee.ceilings(histogram))
        return HeterogeneousPlan(
            histogram, ceilings, layers, self.match, self.block, self.sweeps, self.assignment
        )
