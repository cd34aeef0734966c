"""Several sensitive columns, or several rows of a person: in the same buckets, or dealt apart.

Shared buckets keep the promise about every column for whoever sees all of them. Buckets apart are
smaller, so they answer better, but whoever knows how the columns hang together concludes from one
to another. So by itself the choice is the smaller predicted error among those whose promise holds
for who sees all columns.
"""

from __future__ import annotations

from typing import Protocol

from sfumato.draws import Draws
from sfumato.errors import UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.mechanisms.buckets.apart import ApartPlan
from sfumato.mechanisms.buckets.plan import BucketedPlan
from sfumato.mechanisms.buckets.shared import SharedPlan, plan_shared
from sfumato.profile import Profile

BUCKETS = ("shared", "apart")


class ColumnMechanism(Protocol):
    """What is asked of a mechanism that plans for one column."""

    @property
    def max_size(self) -> int | None: ...

    @property
    def buckets(self) -> str | None: ...

    def plan_column(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> BucketedPlan: ...


def plan_several(
    mechanism: ColumnMechanism, profile: Profile, guarantee: Guarantee, draws: Draws
) -> SharedPlan | ApartPlan:
    """The buckets that are asked for; without a word those that answer better, if they may."""
    possible = len(profile.histograms) > 1 and guarantee.looks == 1
    if mechanism.buckets == "apart":
        if not possible:
            raise UsageError(
                f"'{mechanism}' deals every sensitive column by itself, so it promises nothing "
                "about what columns, or rows of a person, tell together. Use buckets=shared, or "
                "leave out --joint and publish one row of a person (--rows-per-person 1)."
            )
        return plan_apart(mechanism, profile, guarantee, draws)
    shared = plan_shared(str(mechanism), profile, guarantee, mechanism.max_size, draws)
    if mechanism.buckets == "shared" or not possible:
        return shared
    apart = plan_apart(mechanism, profile, guarantee, draws)
    better = apart.predicted_error() < shared.predicted_error()
    return apart if better and not apart.narrower else shared


def plan_apart(
    mechanism: ColumnMechanism, profile: Profile, guarantee: Guarantee, draws: Draws
) -> ApartPlan:
    """A plan for every column, each with draws of its own: the deals are independent."""
    plans = [
        mechanism.plan_column(
            Profile(profile.rows, {name: histogram}), guarantee, draws.child(f"buckets of {name}")
        )
        for name, histogram in profile.histograms.items()
    ]
    return ApartPlan(tuple(plans), profile.kinds)
