"""Several sensitive columns in the same buckets: every bucket lists combinations of their values.

A person is anybody of the bucket, so the chance of a value is the share of those who have it there,
exactly, and that share has the ceiling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.columns import list_some
from sfumato.draws import Draws, IntArray, Permutation
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.joint_ceilings import JointCeilings
from sfumato.mechanisms.buckets.accuracy import error_of, told_variances
from sfumato.mechanisms.buckets.exchange import Marks
from sfumato.mechanisms.buckets.settings import Limits, Part, Setting, mean_squared_error
from sfumato.mechanisms.buckets.shared_setting import FilledBuckets, fill_shared
from sfumato.mechanisms.protocol import Batch, Published, RecordPlan
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator
from sfumato.profile import Histogram, Kinds, Profile

if TYPE_CHECKING:
    import pyarrow as pa

_TAKEN = ("bucket", "count")  # columns that the release adds


@dataclass(frozen=True, eq=False)
class View:
    """One thing that has ceilings: a column, or the combination of all of them."""

    names: tuple[str, ...]
    of: IntArray  # the value of every kind
    values: tuple[Any, ...]
    limits: Limits


@dataclass(frozen=True, eq=False)
class SharedPlan(RecordPlan):
    """Buckets of people, whose kinds (see `Kinds`) the sensitive table lists.

    `strata` are numbered one after the other. A person's slot is a keyed permutation of their rank
    among the people of their kind.
    """

    histograms: tuple[Histogram, ...]
    kinds: Kinds
    views: tuple[View, ...]
    strata: tuple[FilledBuckets, ...]
    slots: Permutation
    joint: bool = False
    _slot_bucket: IntArray = field(init=False, repr=False)  # by kind, and slot of the kind
    _begins: IntArray = field(init=False, repr=False)

    kind: ClassVar[str] = "bucketed"
    needs_kinds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        order = np.argsort(self._kinds, kind="stable")
        object.__setattr__(self, "_slot_bucket", self._buckets[order])
        begins = np.cumsum(self.kinds.counts) - self.kinds.counts
        object.__setattr__(self, "_begins", begins)

    @cached_property
    def _kinds(self) -> IntArray:
        """The kind of every slot, bucket after bucket."""
        return np.concatenate([stratum.kinds for stratum in self.strata])

    @cached_property
    def sizes(self) -> IntArray:
        """How many people stand in every bucket."""
        return np.concatenate([stratum.sizes for stratum in self.strata])

    @cached_property
    def _buckets(self) -> IntArray:
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def holds_for_columns(self) -> bool:
        return True

    # -- records -------------------------------------------------------------------------------

    def apply(self, batch: Batch, draws: Draws) -> Published:
        assert batch.people is not None
        return Published({}, {"bucket": self.bucket_of(*batch.people)})

    def bucket_of(self, kinds: IntArray, ranks: IntArray) -> IntArray:
        """The bucket of every (kind, rank)."""
        return np.asarray(self._slot_bucket[self._begins[kinds] + self.slots(kinds, ranks)])

    # -- what is published besides -------------------------------------------------------------

    def side_tables(self, records: Any) -> Mapping[str, Iterator[pa.Table]]:
        return {"sensitive": self._sensitive()}

    def _sensitive(self) -> Iterator[pa.Table]:
        """Rows (bucket, values, count), in that order."""
        import pyarrow as pa

        for entries in self.listed():
            yield pa.table({name: entries[name].astype(np.int32) for name in entries})

    def listed(self) -> Iterator[dict[str, IntArray]]:
        """What the sensitive table lists, in codes."""
        keys = np.c_[self._buckets, self.kinds.held[self._kinds]]
        table, counts = np.unique(keys, axis=0, return_counts=True)
        names = ["bucket", *self.kinds.columns]
        yield {**{name: table[:, place] for place, name in enumerate(names)}, "count": counts}

    @cached_property
    def setting(self) -> Setting:
        """How many buckets of which size."""
        sizes, buckets = np.unique(self.sizes, return_counts=True)
        return tuple(Part(int(s), int(b)) for s, b in zip(sizes, buckets, strict=True))

    def public(self) -> dict[str, Any]:
        return {
            "buckets": len(self.sizes),
            "sizes": [{"size": part.size, "buckets": part.buckets} for part in self.setting],
            "mean_squared_error": round(float(mean_squared_error(self.setting)), 6),
            "fakes": 0,
        }

    def statement(self, guarantee: Guarantee, histogram: Histogram) -> str:
        return f"{guarantee.left_out_text(histogram)} {guarantee.statement(histogram)}".lstrip()

    def caveats(self) -> list[str]:
        named = ", ".join(self.kinds.columns)
        return [
            f"The release shows how many people have each combination of {named}, exactly, and "
            "which combinations stand in a bucket. Whoever knows one of these values of a "
            "person often finds the others beside it.",
            "Whoever knows the values of others in a bucket is surer of the rest: knowing all but "
            f"one of the {int(self.sizes.min())} people of the smallest bucket tells the last.",
        ]

    # -- what it is worth ----------------------------------------------------------------------

    def held(self, column: str) -> IntArray:
        """Records by bucket and value of a column."""
        place = self.kinds.columns.index(column)
        values = len(self.histograms[place].values)
        flat = self._buckets * values + self.kinds.held[self._kinds, place]
        counts = np.bincount(flat, minlength=len(self.sizes) * values)
        return counts.reshape(len(self.sizes), values).astype(np.int64)

    def variances(self, histogram: Histogram) -> FloatArray:
        """Of the counts of all values, for as many records as the table has, drawn anew."""
        held = self.held(histogram.column)
        together = np.asarray((held / self.sizes[:, None]).T @ held)
        operator = BucketOperator(held.sum(axis=0).astype(np.float64), together, None)
        return told_variances(operator)

    @cached_property
    def _error(self) -> float:
        return max(error_of(self.variances(each), each.counts) for each in self.histograms)

    def predicted_error(self) -> float:
        """That of the column which is told worst."""
        return self._error

    def check(self) -> None:
        """Every bucket within all ceilings, exactly; every person in one slot."""
        found = np.bincount(self._kinds, minlength=len(self.kinds.counts))
        assert bool((found == self.kinds.counts).all()), found
        for view in self.views:
            held = np.zeros((len(self.sizes), len(view.values)), np.int64)
            np.add.at(held, (self._buckets, view.of[self._kinds]), 1)
            allowed = view.limits.table(self.sizes)
            broken = np.argwhere(held > allowed)
            assert not len(broken), (view.names, broken[:1])


def plan_shared(
    name: str, profile: Profile, guarantee: Guarantee, max_size: int | None, draws: Draws
) -> SharedPlan:
    """Buckets for all sensitive columns at once."""
    kinds, histograms = profile.kinds, tuple(profile.histograms.values())
    if kinds is None:
        raise UsageError(
            f"'{name}' looks at what people hold in all sensitive columns: count that first."
        )
    taken = sorted(set(_TAKEN) & set(kinds.columns))
    if taken:
        raise DataError(
            f"The sensitive column {taken[0]!r} has the name of a column that the release adds. "
            "Rename it."
        )
    for histogram in histograms:
        guarantee.require_feasible(histogram)
    joint = isinstance(guarantee, JointCeilings)
    views = tuple(views_of(kinds, histograms, guarantee, joint))
    limits = Limits(tuple(c for view in views for c in view.limits.ceilings))
    filled = fill_shared(marks_of(views, kinds.counts), limits, max_size, draws.child("people"))
    if filled is None:
        raise InfeasibleGuarantee(
            f"'{guarantee}' cannot be kept by buckets of at most {max_size} people in which "
            f"{list_some([' and '.join(view.names) for view in views])} have ceilings at once. "
            f"Leave max_size out, or raise it.",
            witness=views[0].names[0],
        )
    slots = draws.permutation("slots", kinds.counts)
    return SharedPlan(histograms, kinds, views, (filled,), slots, joint)


def views_of(
    kinds: Kinds, histograms: Sequence[Histogram], guarantee: Guarantee, joint: bool
) -> Iterator[View]:
    """Every column; for a joint promise the combinations that occur as well, in their order."""
    for place, histogram in enumerate(histograms):
        limits = Limits(tuple(guarantee.ceilings(histogram)))
        yield View((histogram.column,), kinds.held[:, place], histogram.values, limits)
    if not joint:
        return
    listed, of = np.unique(kinds.held, axis=0, return_inverse=True)
    texts = tuple(
        tuple(histograms[place].values[value] for place, value in enumerate(each))
        for each in listed.tolist()
    )
    counts = np.bincount(of.reshape(-1), kinds.counts).astype(np.int64)
    whole = Histogram(" and ".join(kinds.columns), texts, counts)
    guarantee.require_feasible(whole)
    yield View(kinds.columns, of.reshape(-1), texts, Limits(tuple(guarantee.ceilings(whole))))


def marks_of(views: Sequence[View], counts: IntArray, chosen: IntArray | None = None) -> Marks:
    """All values of all views as marks, numbered one view after the other, of all kinds or of the
    chosen ones, which so many people have."""
    firsts = np.cumsum([0, *(len(view.values) for view in views)])
    own = [view.of + first for view, first in zip(views, firsts[:-1], strict=True)]
    of = np.stack(own, axis=1)
    return Marks(of if chosen is None else of[chosen], int(firsts[-1]), counts, tuple(firsts[:-1]))
