"""Buckets for several sensitive columns, or for people with several rows: one bucket for all.

The release lists what people hold *together*: of several columns the combinations, of several rows
of a person the rows. A person is anybody of the bucket, so the chance of a value is the share of
those who have it there (in any row), exactly, and that share has the ceiling. People with different
numbers of rows never share a bucket: who has two rows would have a value twice as likely as a
bucket's share says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.columns import list_some, value_text
from sfumato.draws import Draws, IntArray, Permutation
from sfumato.errors import DataError, InfeasibleGuarantee, UsageError
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.people_ceilings import CeilingsOfPeople
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

_TAKEN = ("bucket", "holder", "count")  # columns that the release adds


@dataclass(frozen=True, eq=False)
class View:
    """One thing that has ceilings: a column, or the combination of all of them."""

    names: tuple[str, ...]
    of: IntArray  # the value of every kind, by row; −1 where it has no such row
    values: tuple[Any, ...]
    limits: Limits


@dataclass(frozen=True, eq=False)
class SharedPlan(RecordPlan):
    """Buckets of people, whose kinds (see `Kinds`) the sensitive table lists.

    `strata` hold the people of one number of rows each; their buckets are numbered one after the
    other. A person's slot is a keyed permutation of their rank among the people of their kind.
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

    @property
    def several_rows(self) -> bool:
        """Whether a person may have several rows: then the sensitive table tells them apart."""
        return int(self.kinds.held.shape[1]) > 1

    @cached_property
    def row_sizes(self) -> IntArray:
        """How many records stand in every bucket."""
        rows = np.bincount(self._buckets, self.kinds.rows[self._kinds], len(self.sizes))
        return rows.astype(np.int64)

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
        """Rows (bucket, values, count), or (bucket, holder, values, count), in that order."""
        import pyarrow as pa

        for entries in self.listed():
            arrays = {name: entries[name].astype(np.int32) for name in entries}
            yield pa.table(arrays)

    def listed(self) -> Iterator[dict[str, IntArray]]:
        """What the sensitive table lists, in codes; holders are numbered within their bucket."""
        columns = self.kinds.columns
        order = np.lexsort((self._kinds, self._buckets))
        kinds, buckets = self._kinds[order], self._buckets[order]
        first = np.cumsum(self.sizes) - self.sizes
        holder = np.arange(len(kinds)) - np.repeat(first, self.sizes)
        if not self.several_rows:
            holder = np.zeros_like(holder)  # people of one kind are listed together
        held = self.kinds.held[kinds]
        person, row = np.nonzero(held[:, :, 0] >= 0)
        keys = [buckets[person], holder[person], *(held[person, row].T)]
        table, counts = np.unique(np.stack(keys, axis=1), axis=0, return_counts=True)
        names = ["bucket", "holder", *columns]
        found = {name: table[:, place] for place, name in enumerate(names)}
        if not self.several_rows:
            del found["holder"]
        yield {**found, "count": counts}

    @cached_property
    def setting(self) -> Setting:
        """Records, not people: how many buckets of which size."""
        sizes, buckets = np.unique(self.row_sizes, return_counts=True)
        return tuple(Part(int(s), int(b)) for s, b in zip(sizes, buckets, strict=True))

    def public(self) -> dict[str, Any]:
        described: dict[str, Any] = {
            "buckets": len(self.sizes),
            "sizes": [{"size": part.size, "buckets": part.buckets} for part in self.setting],
            "mean_squared_error": round(float(mean_squared_error(self.setting)), 6),
            "fakes": 0,
        }
        if self.several_rows:
            described["people"] = self.kinds.people
        return described

    def statement(self, guarantee: Guarantee, histogram: Histogram) -> str:
        held = self.kinds.holders(histogram) if self.several_rows else histogram
        return f"{guarantee.left_out_text(held)} {guarantee.statement(histogram)}".lstrip()

    def caveats(self) -> list[str]:
        found = []
        if len(self.kinds.columns) > 1:
            named = ", ".join(self.kinds.columns)
            found.append(
                f"The release shows how many people have each combination of {named}, exactly, and "
                "which combinations stand in a bucket. Whoever knows one of these values of a "
                "person often finds the others beside it."
            )
        if self.several_rows:
            found.append(
                "A bucket lists what the rows of each of its people hold together, and people with "
                "the same number of rows share a bucket. Whoever knows what one row of a person "
                "holds often finds beside it what the others hold."
            )
        if not found:
            found.append("The release shows how many people have each value, exactly.")
        found.append(
            "Whoever knows the values of others in a bucket is surer of the rest: knowing all but "
            f"one of the {int(self.sizes.min())} people of the smallest bucket tells the last."
        )
        return found

    # -- what it is worth ----------------------------------------------------------------------

    def held(self, column: str) -> IntArray:
        """Records by bucket and value of a column."""
        place = self.kinds.columns.index(column)
        values = len(self.histograms[place].values)
        codes = self.kinds.held[:, :, place][self._kinds]
        slot, row = np.nonzero(codes >= 0)
        flat = self._buckets[slot] * values + codes[slot, row]
        counts = np.bincount(flat, minlength=len(self.sizes) * values)
        return counts.reshape(len(self.sizes), values).astype(np.int64)

    def variances(self, histogram: Histogram) -> FloatArray:
        """Of the counts of all values, for as many records as the table has, drawn anew."""
        held = self.held(histogram.column)
        together = np.asarray((held / self.row_sizes[:, None]).T @ held)
        operator = BucketOperator(held.sum(axis=0).astype(np.float64), together, None)
        return told_variances(operator)

    @cached_property
    def _error(self) -> float:
        return max(error_of(self.variances(each), each.counts) for each in self.histograms)

    def predicted_error(self) -> float:
        """That of the column which is told worst."""
        return self._error

    def check(self) -> None:
        """Every bucket within all ceilings, exactly; every person in one slot; strata apart."""
        found = np.bincount(self._kinds, minlength=len(self.kinds.counts))
        assert bool((found == self.kinds.counts).all()), found
        rows = self.kinds.rows[self._kinds]
        assert bool((rows * self.sizes[self._buckets] == self.row_sizes[self._buckets]).all())
        for view in self.views:
            held = np.zeros((len(self.sizes), len(view.values)), np.int64)
            for slot, kind in enumerate(self._kinds):
                for value in set(view.of[kind].tolist()) - {-1}:
                    held[self._buckets[slot], value] += 1
            allowed = view.limits.table(self.sizes)
            broken = np.argwhere(held > allowed)
            assert not len(broken), (view.names, broken[:1])


def plan_shared(
    name: str, profile: Profile, guarantee: Guarantee, max_size: int | None, draws: Draws
) -> SharedPlan:
    """Buckets for all sensitive columns and all rows of people at once."""
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
    joint = isinstance(guarantee, CeilingsOfPeople) and guarantee.columns > 1
    views = tuple(views_of(kinds, histograms, guarantee, joint))
    strata = []
    for rows in np.unique(kinds.rows):
        chosen = np.flatnonzero(kinds.rows == rows)
        marks = marks_of(views, kinds.counts[chosen], chosen)
        limits = Limits(tuple(c for view in views for c in view.limits.ceilings))
        _require_room(name, views, limits, marks, int(rows), guarantee)
        filled = fill_shared(marks, limits, max_size, draws.child(f"people with {rows} rows"))
        if filled is None:
            raise InfeasibleGuarantee(
                f"'{guarantee}' cannot be kept by buckets of at most {max_size} people in which "
                f"{list_some([' and '.join(view.names) for view in views])} have ceilings at once. "
                f"Leave max_size out, or raise it.",
                witness=views[0].names[0],
            )
        strata.append(FilledBuckets(filled.sizes, chosen[filled.kinds]))
    slots = draws.permutation("slots", kinds.counts)
    return SharedPlan(histograms, kinds, views, tuple(strata), slots, joint)


def views_of(
    kinds: Kinds, histograms: Sequence[Histogram], guarantee: Guarantee, joint: bool
) -> Iterator[View]:
    """Every column; for a joint promise the combinations that occur as well, in their order."""
    for place, histogram in enumerate(histograms):
        limits = Limits(tuple(guarantee.ceilings(histogram)))
        yield View((histogram.column,), kinds.held[:, :, place], histogram.values, limits)
    if not joint:
        return
    rows = kinds.held.reshape(-1, kinds.held.shape[2])
    listed, code = np.unique(rows, axis=0, return_inverse=True)
    there = listed[:, 0] >= 0  # rows that are none come first
    first = int((~there).sum())
    of = code.reshape(kinds.held.shape[:2]) - first
    of[of < 0] = -1
    texts = tuple(
        tuple(histograms[place].values[value] for place, value in enumerate(each))
        for each in listed[there].tolist()
    )
    named = " and ".join(kinds.columns)
    combined = Kinds((named,), of[:, :, None], kinds.counts)
    whole = combined.holders(Histogram(named, texts, np.zeros(len(texts), np.int64)))
    guarantee.require_feasible(whole)
    yield View(kinds.columns, of, texts, Limits(tuple(guarantee.ceilings(whole))))


def marks_of(views: Sequence[View], counts: IntArray, chosen: IntArray) -> Marks:
    """All values of all views as marks, numbered one view after the other, each once per kind, of
    the chosen kinds, which so many people have."""
    found, first, starts = [], 0, []
    for view in views:
        own = np.sort(view.of[chosen], axis=1)
        repeated = np.diff(own, axis=1, prepend=-2) == 0
        found.append(np.where(repeated | (own < 0), -1, own + first))
        starts.append(first)
        first += len(view.values)
    return Marks(np.concatenate(found, axis=1), first, counts, tuple(starts))


def _require_room(
    name: str,
    views: Sequence[View],
    limits: Limits,
    marks: Marks,
    rows: int,
    guarantee: Guarantee,
) -> None:
    """No bucket can do where all people of a number of rows together hold too much of a value."""
    people = int(marks.counts.sum())
    allowed = limits.table([people])[0]
    broken = np.flatnonzero(marks.people > allowed)
    if not len(broken):
        return
    mark, first = int(broken[0]), 0
    for view in views:
        if mark < first + len(view.values):
            break
        first += len(view.values)
    value = view.values[mark - first]
    text = value_text(value) if not isinstance(value, tuple) else str(value)
    raise InfeasibleGuarantee(
        f"'{guarantee}' cannot be kept by '{name}': {int(marks.people[mark]):,} of the {people:,} "
        f"people with {rows} {'row' if rows == 1 else 'rows'} have {text} in "
        f"{' and '.join(view.names)}, and at most {int(allowed[mark]):,} may. Publish fewer rows "
        "of a person (--rows-per-person 1 is possible more often), or choose a weaker promise.",
        witness=text,
    )
