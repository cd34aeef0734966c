"""Local buckets: people are mixed with people like them only (methods, section 7).

A tree of cuts on quasi columns makes blocks (`tree`); inside each, buckets are planned and mixed as
everywhere else, under the ceilings of the whole table. So the ceilings hold in every bucket, just
as without blocks. Two things change. A block wholly inside a condition is counted exactly, so
answers are sharper; and inside a block quasi columns say little about the value, so whoever knows
how they hang together learns less.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from sfumato.columns import list_some
from sfumato.draws import Draws, IntArray
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.mechanisms.buckets.branches import (
    FEW_SIZES,
    MORE_SIZES,
    SOME_SIZES,
    Branch,
    Branches,
)
from sfumato.mechanisms.buckets.feasible import only_histogram
from sfumato.mechanisms.buckets.foresight import CutTable, Foresight, best_cut, best_of
from sfumato.mechanisms.buckets.local_plan import Block, LocalPlan, by_block
from sfumato.mechanisms.buckets.local_shared import SharedRoom, plan_local_shared
from sfumato.mechanisms.buckets.plan import BucketedPlan
from sfumato.mechanisms.buckets.settings import Limits, Setting, setting_of
from sfumato.mechanisms.buckets.shared import SharedPlan, plan_shared
from sfumato.mechanisms.buckets.spread import spread_evenly
from sfumato.mechanisms.buckets.tree import Node, Room, grow_all
from sfumato.mechanisms.buckets.usual import UsualConditions, let_through
from sfumato.mechanisms.buckets.ways import (
    BucketMechanism,
    Choice,
    Found,
    OptimalBuckets,
    TwoSizeBuckets,
)
from sfumato.profile import BinnedCounts, Histogram, Profile
from sfumato.textform import rational

USUAL_LEAST = 200
CARES = (0.0, 0.3, 3.0)  # that are tried: what room weighs when cuts are chosen (`tree`)
MOST_BLOCKS = 1000
_COARSER = 4  # times: blocks of trees that are compared, the best of which is grown on
_COMPARED = 32  # blocks at least, for trees to be compared by
_COMPARED_CELLS = 1 << 19  # that trees to be compared grow on; the one that is taken grows on all
_FEW_BLOCKS = 64  # so few are filled by finer ladders: it takes no longer than cutting them
_TRIED = 4  # settings of a block, until one can be filled
_MOST_SEARCHED = 100  # values: with more, the search for the least loss takes a second a block


@dataclass(frozen=True)
class LocalBuckets(BucketMechanism):
    """Blocks of at least `min` people, or a thousandth of the table, cut by `columns` or by all.

    Of every value a block has at most `slack` times what its ceiling allows. How much cuts care for
    room is chosen among `CARES` by what makes counts best. `columns` are divided by semicolons.

    >>> str(LocalBuckets(min="800", columns="age;sex"))
    'local(min=800, columns=age;sex)'
    """

    min: int = USUAL_LEAST
    slack: Fraction = Fraction(1)
    columns: str = ""

    name: ClassVar[str] = "local"
    sentence: ClassVar[str] = (
        "Shows records in buckets that mix people with people like them only: answers are sharper, "
        "and whoever knows how the columns hang together learns less."
    )
    needs_bins: ClassVar[bool] = True
    needs_kinds: ClassVar[bool] = True
    # of a single block; with twice as many the law of the plan finds nothing better
    mixing: ClassVar[tuple[int, int]] = (128, 32)

    @classmethod
    def advised(cls) -> list[Self]:
        """None: advice looks at hundreds of plans, and prices this one for what it found."""
        return []

    def __post_init__(self) -> None:
        super().__post_init__()
        text = str(self.min)
        if not (text.isascii() and text.isdigit() and int(text) >= 1):
            raise UsageError(
                f"The 'min' parameter of {self.name} must be a whole number of at least 1. "
                f"Got {text!r} instead."
            )
        object.__setattr__(self, "min", int(text))
        slack = rational(self.slack, "slack")
        if not 0 < slack <= 1:
            raise UsageError(
                f"The 'slack' parameter of {self.name} must be above 0 and at most 1. "
                f"Got {str(self.slack)!r} instead."
            )
        object.__setattr__(self, "slack", slack)
        if self.association is not None:
            raise UsageError(
                f"The mechanism {self.name} has fakes, but none that resist association: inside a "
                f"block there is little to conclude from. Leave it out, or use {OptimalBuckets()}."
            )

    def plan(
        self, profile: Profile, guarantee: Guarantee, draws: Draws
    ) -> BucketedPlan | SharedPlan:
        """Cut as far as it is foreseen to help; where no cut does, all people are one block."""
        if len(profile.histograms) > 1 or profile.kinds is not None:
            return self._plan_several(profile, guarantee, draws)
        return self.plan_column(profile, guarantee, draws)

    def plan_column(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> BucketedPlan:
        histogram = only_histogram(profile)
        guarantee.require_feasible(histogram)
        limits = Limits(tuple(guarantee.ceilings(histogram)), distinct=self.fakes > 0)
        if profile.binned is None:
            raise UsageError(f"{self} looks at groups of people: count them first.")
        branches = Branches(histogram, limits, self._block_largest, FEW_SIZES)
        cut = self._cut(profile.binned, branches)
        if cut.root.sides is not None:
            few = sum(1 for _ in cut.root.blocks()) <= _FEW_BLOCKS
            finer = Branches(
                histogram, limits, self._block_largest, MORE_SIZES if few else SOME_SIZES
            )
            root, blocks = self._blocks(cut.root, finer, guarantee, draws)
            cut = dataclasses.replace(cut, root=root)
        whole = OptimalBuckets(self.max_size, self.fakes)
        if cut.root.sides is None:
            return whole.plan_column(profile, guarantee, draws)
        inside = cut.inside()
        return LocalPlan(
            histogram,
            limits,
            _together([block.plan.setting for block in blocks]),
            (),
            draws.permutation("slots", by_block(blocks, len(histogram.values)).reshape(-1)),
            cuts=cut.root.tree(),
            blocks=tuple(blocks),
            weights=tuple(let_through(inside, cut.counts()).tolist()),
            foresight=Foresight(whole, guarantee, draws.child("whole"), inside, cut.saved),
        )

    def _plan_several(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> SharedPlan:
        """All columns and rows in the same buckets, inside blocks with room for each of them."""
        if self.fakes:
            raise UsageError(
                f"'{self}' hides one sensitive column and one row of a person: fakes are listed "
                "beside the values of one. Leave fakes out, or name one sensitive column and give "
                "--rows-per-person 1."
            )
        shared = plan_shared(str(self), profile, guarantee, self.max_size, draws.child("whole"))
        assert profile.binned is not None  # counted where combinations are
        least = max(self.min, shared.kinds.people // MOST_BLOCKS)
        room = SharedRoom(Limits(()), self.slack, least, views=shared.views)
        named, values = self._named(profile.binned), len(shared.kinds.counts)
        roots = grow_all(profile.binned, values, room, CARES, named)
        return plan_local_shared(shared, roots, profile.binned, self.max_size, draws)

    def _named(self, binned: BinnedCounts) -> tuple[str, ...]:
        """The columns to cut."""
        named = tuple(name.strip() for name in self.columns.split(";") if name.strip())
        known = [bins.column for bins in binned.columns]
        if strangers := [name for name in named if name not in known]:
            raise UsageError(
                f"The 'columns' parameter of {self.name} names {list_some(strangers)}. Quasi "
                f"columns that can be cut: {list_some(known) or 'none'}."
            )
        return named

    def _cut(self, binned: BinnedCounts, branches: Branches) -> CutTable:
        """The tree whose counts are foreseen best, without the cuts that make them no better."""
        named = self._named(binned)
        histogram, ceilings = branches.histogram, branches.limits.ceilings
        least = max(self.min, histogram.rows // MOST_BLOCKS)
        coarse = max(least, min(_COARSER * least, histogram.rows // _COMPARED))
        some = binned.thinned(_COMPARED_CELLS)

        def grown(cells: BinnedCounts, least: int, cares: Sequence[float]) -> list[Node]:
            room = Room(Limits(ceilings), self.slack, least)
            return grow_all(cells, len(histogram.values), room, cares, named)

        usual = UsualConditions.of(some)
        trees = grown(some, coarse, CARES)
        best = best_of(trees, usual, branches)
        if coarse == least and some is binned:
            return best_cut(trees[best], usual, branches)
        (tree,) = grown(binned, least, CARES[best : best + 1])
        return best_cut(tree, UsualConditions.of(binned), branches)

    def _block_largest(self, histogram: Histogram, limits: Limits) -> int:
        some = self.max_size or self.fakes
        return self._largest(histogram, limits) if some else histogram.rows

    def _blocks(
        self, node: Node, branches: Branches, guarantee: Guarantee, draws: Draws, path: str = ""
    ) -> tuple[Node, list[Block]]:
        """The blocks of a branch, planned; where one cannot be, the branch is one block."""
        if node.sides is not None:
            try:
                one, other = node.sides
                first, before = self._blocks(one, branches, guarantee, draws, path + "0")
                second, after = self._blocks(other, branches, guarantee, draws, path + "1")
                return dataclasses.replace(node, sides=(first, second)), before + after
            except InfeasibleGuarantee:
                node = node.uncut()
                if not path:  # buckets of the whole table are planned elsewhere
                    return node, []
        branch, own = branches.of(node.counts), draws.child(f"block {path}")
        choice = self._choice(branch, guarantee)
        return node, [
            Block(branch.codes, self._filled(choice, branch.histogram, branch.limits, own))
        ]

    def _choice(self, branch: Branch, guarantee: Guarantee) -> Choice:
        """The best foreseen setting that can be filled."""
        for setting in branch.best(_TRIED):
            shares = spread_evenly(setting, branch.histogram.counts, branch.limits)
            if shares is not None:
                return Choice(setting, shares)
        way: BucketMechanism = self
        if len(branch.codes) > _MOST_SEARCHED:
            way = TwoSizeBuckets(self.max_size, self.fakes)
        return way._choices(branch.histogram, branch.limits, guarantee)[0]

    def _setting(self, counts: IntArray, limits: Limits, max_size: int) -> Found | None:
        return OptimalBuckets()._setting(counts, limits, max_size)


def _together(settings: list[Setting]) -> Setting:
    buckets: dict[int, int] = {}
    for part in (part for setting in settings for part in setting):
        buckets[part.size] = buckets.get(part.size, 0) + part.buckets
    return setting_of(buckets.keys(), buckets.values())
