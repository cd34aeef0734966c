"""Buckets for the whole table: ways to choose the sizes, one way to fill and publish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.columns import value_text
from sfumato.draws import Draws, IntArray
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.ceilings import CeilingGuarantee
from sfumato.mechanisms.buckets.exchange import fill
from sfumato.mechanisms.buckets.fakes import Fakes
from sfumato.mechanisms.buckets.feasible import (
    LARGEST_TRIED,
    holdings_of,
    limits_of,
    too_large,
)
from sfumato.mechanisms.buckets.multi_size import recursive_multi_size
from sfumato.mechanisms.buckets.optimal import optimal_setting
from sfumato.mechanisms.buckets.plan import BucketPlan, allowed_by_part
from sfumato.mechanisms.buckets.settings import (
    Choice,
    Limits,
    Setting,
    check_parts,
    partition_pair,
)
from sfumato.mechanisms.buckets.spread import best_foreseen, spread_evenly
from sfumato.mechanisms.buckets.two_size import best_two_size
from sfumato.mechanisms.mixed import BucketParts, Mixed
from sfumato.mechanisms.protocol import Mechanism
from sfumato.profile import Histogram, Holdings, Profile
from sfumato.textform import Parameter

USUAL_LARGEST = 50  # M' of the paper, Table 4
PIECES = (4096, 128)  # that a block is mixed in, and each of its parts at least


def mixed(
    choices: Sequence[Choice], limits: Sequence[Limits], draws: Draws, pieces: tuple[int, int]
) -> Mixed:
    """The settings of blocks under their limits, filled by mixing: all parts of a block are cut
    into so many pieces together, and each part at least into so many."""
    parts = [part for choice in choices for part in choice.setting]
    sizes, buckets = np.array(parts, np.int64).T
    blocks = np.repeat(np.arange(len(choices)), [len(choice.setting) for choice in choices])
    counts = np.concatenate([choice.shares for choice in choices])
    records = np.bincount(blocks, sizes * buckets)[blocks]
    (most, fewest) = pieces
    many = np.maximum(fewest, most * (sizes * buckets) // np.maximum(records, 1).astype(np.int64))
    whole = BucketParts(blocks, sizes, buckets, counts)
    return Mixed(whole, allowed_by_part(whole, limits), many, draws.child("mixed"), gathered=True)


def two_sizes(counts: IntArray, limits: Limits, max_size: int) -> Choice | None:
    """The best setting with two sizes (F'-privacy paper, Section 5.1): the fastest to plan."""
    setting = best_two_size(counts, limits, max_size)
    if setting is None:
        return None
    return Choice(setting, partition_pair(setting, counts, limits))


# the best setting of each kind up to a size, None where there is none
SETTINGS: dict[str, Callable[[IntArray, Limits, int], Choice | None]] = {
    "error": optimal_setting,
    "loss": optimal_setting,
    "two-size": two_sizes,
    "multi-size": recursive_multi_size,
}


@dataclass(frozen=True)
class OptimalBuckets(Mechanism):
    """Buckets of at most `max_size` records, each listing `fakes` values that nobody in it has.

    Without `max_size` it is 50, or as large as the ceilings need. With `association` fakes are
    ruled out by records of the bucket as often as real values: x is, by a quasi value whose holders
    have it at most `association` times as often as everybody (see `association`).

    `objective` says how sizes are chosen: any number of them, with the smallest predicted error of
    counts (see `sizes`), or as the F'-privacy paper does: "loss" by the least loss, to a proven gap
    (see `optimal`), "two-size" by its search for the two best, "multi-size" by its rule of thumb.
    Several sensitive columns share their buckets (see `exchange`).

    >>> counts = Histogram("s", tuple("abcde"), np.array([4, 4, 3, 2, 1]))
    >>> from sfumato.guarantees import LDiversity
    >>> plan = OptimalBuckets().plan(
    ...     Profile(14, {"s": counts}), LDiversity(3), Draws.from_seed(1))
    >>> plan.setting
    (SizedBuckets(size=3, buckets=2), SizedBuckets(size=4, buckets=2))
    """

    max_size: int | None = None
    fakes: int = 0
    association: Fraction | None = None
    objective: str = "error"

    name: ClassVar[str] = "optimal"
    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (CeilingGuarantee,)
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("max_size", least=1, whole=True),
        Parameter("fakes", least=0, whole=True),
        Parameter("association", above=0, below=1),
        Parameter("objective", options=tuple(SETTINGS)),
    )
    needs_holdings: ClassVar[bool] = True
    sentence: ClassVar[str] = (
        "Shows records in buckets, of the sizes that answer best, with the values beside."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.association is not None and not self.fakes:
            raise UsageError(
                f"The 'association' parameter of {self.name} needs fakes: write "
                f"{self.name}(fakes=2, association=0.1)."
            )

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> BucketPlan:
        if len(profile.histograms) == 1:
            return self._of_one(profile, guarantee, draws)
        if self.fakes or self.objective != "error":
            raise UsageError(
                f"'{self}' hides one sensitive column: fakes and the papers' searches are defined "
                "for one. Leave the parameters out."
            )
        holdings = holdings_of(self.name, profile, guarantee)
        limits = limits_of(holdings, guarantee)
        filling = fill(holdings, limits, self.max_size, draws.child("people"))
        if filling is None:
            raise too_large(
                guarantee, self.name, holdings, limits, self.max_size or holdings.people
            )
        return BucketPlan(holdings, limits, filling, draws.permutation("slots", holdings.counts))

    def _of_one(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> BucketPlan:
        holdings = holdings_of(self.name, profile, guarantee, most=1)
        (histogram,) = holdings.views
        limits = limits_of(holdings, guarantee, distinct=self.fakes > 0)
        choice = self._choice(histogram, limits)
        if choice is None:
            raise self._infeasible(holdings, limits, guarantee)
        check_parts(choice.setting, choice.shares, histogram.counts, limits)
        return BucketPlan(
            holdings,
            limits,
            mixed([choice], [limits], draws, PIECES),
            draws.permutation("slots", histogram.counts),
            fakes=self._fakes(histogram, limits, choice.setting, draws),
            association=self.association,
        )

    def _fakes(
        self, histogram: Histogram, limits: Limits, setting: Setting, draws: Draws
    ) -> Fakes | None:
        if not self.fakes:
            return None
        buckets = sum(part.buckets for part in setting)
        fakes = Fakes(self.fakes, histogram.counts, buckets, draws.child("fakes"), limits.ceilings)
        for part in setting:
            listable = int(fakes.listable(np.array([part.size])).sum())
            if listable < part.size + self.fakes:
                present = [code for code, count in enumerate(histogram.counts) if count > 0]
                rarest = min(present, key=lambda code: limits.ceilings[code])
                raise InfeasibleGuarantee(
                    f"Buckets of {part.size} records with {self.fakes} fake values would list "
                    f"{part.size + self.fakes} values of column {histogram.column!r}, but only "
                    f"{listable} have a ceiling that allows it. Use fewer fakes.",
                    witness=value_text(histogram.values[rarest]),
                )
        return fakes

    def _choice(self, histogram: Histogram, limits: Limits) -> Choice | None:
        """The setting that is foreseen to answer best, by counts alone: what anything is called and
        how it happens to be mixed decide nothing. Where none can be filled, or another objective is
        named, its own setting, evenly filled within the maximum size; where none is said, sizes are
        doubled until there is one."""
        largest = self._largest(histogram, limits)
        if self.objective == "error":
            within = largest if self.max_size or self.fakes else histogram.rows
            if best := best_foreseen([(histogram.counts, limits)], within):
                return Choice(best[0], best[1][0])
        best_setting = SETTINGS[self.objective]
        choice = best_setting(histogram.counts, limits, largest) if largest > 0 else None
        while choice is None and self.max_size is None and not self.fakes:
            if largest >= min(LARGEST_TRIED, histogram.rows):
                break
            largest = min(2 * largest, max(LARGEST_TRIED, largest), histogram.rows)
            choice = best_setting(histogram.counts, limits, largest)
        if choice is None:
            return None
        shares = spread_evenly(choice.setting, histogram.counts, limits)
        return choice if shares is None else replace(choice, shares=shares)

    def _largest(self, histogram: Histogram, limits: Limits) -> int:
        largest = self.max_size or max(USUAL_LARGEST, limits.needed_size(histogram.counts))
        # fakes need values of their own: |g| + σ different ones (errata F15)
        present = int((histogram.counts > 0).sum())
        return min(largest, present - self.fakes) if self.fakes else largest

    def _infeasible(
        self, holdings: Holdings, limits: Limits, guarantee: Guarantee
    ) -> InfeasibleGuarantee:
        (histogram,) = holdings.views
        largest = self._largest(histogram, limits)
        if not self.fakes:
            return too_large(guarantee, self.name, holdings, limits, largest)
        present = int((histogram.counts > 0).sum())
        common = int(np.argmax(histogram.counts))
        return InfeasibleGuarantee(
            f"'{guarantee}' cannot be kept on column {histogram.column!r} with {self.fakes} "
            f"fake values per bucket: buckets may hold each value once and at most "
            f"{max(largest, 0)} records, because {present} different values are there. "
            f"The commonest value, {value_text(histogram.values[common])}, has a share of "
            f"{float(histogram.shares[common]):.4g}. Use fewer fakes, or merge rare values.",
            witness=value_text(histogram.values[common]),
        )
