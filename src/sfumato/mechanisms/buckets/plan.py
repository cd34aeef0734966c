"""The plan of every bucket mechanism: which slot of which value stands in which bucket."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.columns import list_some, value_text
from sfumato.draws import BoolArray, Draws, IntArray, Permutation
from sfumato.guarantees.base import Guarantee
from sfumato.mechanisms.buckets.accuracy import (
    error_of,
    least_variances,
    told_by_parts,
    told_variances,
    variances_of,
)
from sfumato.mechanisms.buckets.association import BucketContents, Records, barred_values
from sfumato.mechanisms.buckets.fakes import Fakes, certainty, odds_weights
from sfumato.mechanisms.buckets.filling import Filling, in_pieces, kinds_of_rows, places
from sfumato.mechanisms.buckets.settings import Limits, Part, Setting, loss, mean_squared_error
from sfumato.mechanisms.protocol import Batch, Published, RecordPlan
from sfumato.mechanisms.steps import SlotBuckets, SlotRuns, every_slot
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import NEARLY_SINGULAR, BucketKinds, BucketOperator
from sfumato.profile import Histogram

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1 << 20  # rows of the sensitive table that are written at once
_CELLS = 1 << 22  # buckets times values that fakes are drawn for at once
MOST_EXACT = 500  # values: with more, eigenvalues take too long

Told = tuple[FloatArray, float, IntArray]


@dataclass(frozen=True, eq=False)
class BucketedPlan(RecordPlan):
    """Buckets for one sensitive column.

    A record's slot is a keyed permutation of its rank among the records with its value. Slots are
    dealt to the fillings in order: the first `counts[x]` to the first, and so on. Buckets are
    numbered filling by filling; the numbers follow from the setting and from which value stands
    where, both of which the sensitive table shows: they tell nothing about who holds which slot.
    """

    histogram: Histogram
    limits: Limits
    setting: Setting
    fillings: tuple[Filling, ...]
    slots: Permutation
    fakes: Fakes | None = None
    bound: Fraction | None = None  # a proven lower bound on the loss, where there is one
    association: Fraction | None = None  # fakes are ruled out as reals are, at this threshold
    _first: IntArray = field(init=False, repr=False)  # first bucket of each filling

    kind: ClassVar[str] = "bucketed"
    needs_rank: ClassVar[bool] = True

    def __post_init__(self) -> None:
        buckets = [filling.buckets for filling in self.fillings]
        object.__setattr__(self, "_first", np.concatenate([[0], np.cumsum(buckets)]))

    @property
    def buckets(self) -> int:
        return int(self._first[-1])

    @property
    def fake_values(self) -> int:
        return self.fakes.number if self.fakes else 0

    # -- records -------------------------------------------------------------------------------

    def apply(self, batch: Batch, draws: Draws) -> Published:
        column = self.histogram.column
        return Published({}, {"bucket": self.bucket_of(batch.codes[column], batch.ranks[column])})

    def bucket_in(self, blocks: IntArray, codes: IntArray, ranks: IntArray) -> IntArray:
        """The bucket of every (block, value, rank); here all people are one block."""
        return self.bucket_of(codes, ranks)

    def bucket_of(self, codes: IntArray, ranks: IntArray) -> IntArray:
        """The bucket of every (value, rank). About 0.1 µs a record."""
        return self.bucket_at(codes, self.slots(codes, ranks))

    def bucket_at(self, codes: IntArray, slots: IntArray) -> IntArray:
        """The bucket of every (value, slot)."""
        return self._slot_buckets(codes, slots)

    @cached_property
    def _slot_buckets(self) -> SlotBuckets:
        """Dealt when the first record asks."""
        return SlotBuckets(*self._slot_runs())

    def every_slot(self) -> IntArray:
        """The buckets of all slots, value by value."""
        return every_slot(*self._slot_runs())

    def _slot_runs(self) -> tuple[list[SlotRuns], list[int]]:
        return [filling.slot_runs() for filling in self.fillings], self._first[:-1].tolist()

    # -- what is published besides -------------------------------------------------------------

    def contents(self) -> Iterator[tuple[int, BucketKinds]]:
        """Runs of buckets with equal contents: (first bucket, kinds), one size at a time."""
        for first, filling in zip(self._first, self.fillings, strict=False):
            for begin, kinds in filling.runs():
                yield int(first) + begin, kinds

    def listed(self, barred: BoolArray | None = None) -> Iterator[tuple[int, BucketKinds]]:
        """What the sensitive table lists, as runs like `contents`, fakes among the values.

        `barred` marks what some record of a bucket rules out (buckets by values). Fakes are then
        ruled out as often as real values are: in proportion to the odds that a bucket holds the
        value among those where it is ruled out, or among those where it is not. If fakes avoided
        what is ruled out, a listed value that is ruled out would be a real one.
        """
        if self.fakes is None:
            yield from self.contents()
            return
        odds = None if barred is None else self._odds(barred)
        most = max(1, _CELLS // max(len(self.histogram.values), 1))
        for first, kinds in self.contents():
            held = np.repeat(places(kinds), kinds.times, axis=0)
            for low in range(0, len(held), most):
                begin, piece = first + low, held[low : low + most]
                here = None
                if odds is not None and barred is not None:
                    here = np.where(barred[begin : begin + len(piece)], *odds)
                ones = np.ones(len(piece), np.int64)
                yield begin, kinds_of_rows(ones, self.fakes.add(begin, piece, here))

    def _odds(self, barred: BoolArray) -> tuple[IntArray, IntArray]:
        """The odds that a bucket holds each value: where it is ruled out, and where it is not."""
        held = np.zeros_like(barred)
        for first, kinds in self.contents():
            rows = np.repeat(places(kinds), kinds.times, axis=0).astype(np.int64)
            np.put_along_axis(held[first : first + len(rows)], rows, True, axis=1)
        ruled_out = odds_weights((held & barred).sum(axis=0), (~held & barred).sum(axis=0))
        return ruled_out, odds_weights((held & ~barred).sum(axis=0), (~held & ~barred).sum(axis=0))

    def side_tables(self, records: Records) -> Mapping[str, Iterator[pa.Table]]:
        return {"sensitive": self._sensitive(records)}

    def _barred(self, records: Records) -> BoolArray | None:
        if self.association is None or self.fakes is None:
            return None
        sizes, values = [], []
        for _, kinds in self.contents():
            held = np.repeat(places(kinds), kinds.times, axis=0)
            sizes.append(np.full(len(held), held.shape[1]))
            values.append(held.reshape(-1))
        starts = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
        contents = BucketContents(starts, np.concatenate(values))
        return barred_values(records, contents, self.operator, self.association)

    def _sensitive(self, records: Records) -> Iterator[pa.Table]:
        """Rows (bucket, value, count), in the order of buckets and codes."""
        import pyarrow as pa

        waiting: list[pa.Table] = []
        size = 0
        for first, kinds in self.listed(self._barred(records)):
            waiting.append(_rows(first, kinds, self.histogram))
            size += waiting[-1].num_rows
            if size >= _ROWS:
                yield pa.concat_tables(waiting).combine_chunks()
                waiting, size = [], 0
        if waiting:
            yield pa.concat_tables(waiting).combine_chunks()

    def public(self) -> dict[str, Any]:
        described: dict[str, Any] = {
            "buckets": self.buckets,
            "sizes": [{"size": part.size, "buckets": part.buckets} for part in self.setting],
            "mean_squared_error": round(float(mean_squared_error(self.setting)), 6),
            "fakes": self.fake_values,
        }
        if self.fakes:
            # the certainty below is stated for an adversary who has it, so the analyst may too
            described["histogram"] = self.histogram.counts.tolist()
        if self.association is not None:
            described["association"] = str(self.association)
        return described

    def _gap(self) -> float | None:
        """How much smaller the loss, or the error, could be at the most; None where unknown."""
        if self.bound is not None:
            found = loss(self.setting)
            return float((found - self.bound) / found) if found else 0.0
        if (error := self.predicted_error()) > 0:
            counts = self.histogram.counts
            return max(0.0, 1 - error_of(least_variances(counts, self.limits), counts) / error)
        return None

    def statement(self, guarantee: Guarantee, histogram: Histogram) -> str:
        # the sensitive table shows the histogram, so the manifest may
        return f"{guarantee.left_out_text(histogram)} {guarantee.statement(histogram)}".lstrip()

    def caveats(self) -> list[str]:
        found = [
            f"Column {self.histogram.column!r}: the release shows how many people have each value, "
            "exactly. Whoever knows the values of others in a bucket is surer of the "
            "rest: in a bucket of " + "; of ".join(self._certainties()) + ".",
        ]
        if self.association is not None:
            found.append(
                "Fake values follow the quasi columns of their bucket: they are ruled out by a "
                "record as often as real values are, so answers are corrected for fakes only "
                "approximately. The certainties above are those of a reader who rules nothing out "
                "by the person's own columns; one who does is surer."
            )
        if len(self.confused):
            names = [value_text(self.histogram.values[code]) for code in self.confused]
            found.append(
                f"The buckets cannot tell these values of column {self.histogram.column!r} apart "
                f"within a condition: {list_some(names, most=50)}. Counts of them are drawn "
                "towards their shares in the table."
            )
        return found

    def _certainties(self) -> list[str]:
        sizes = sorted({self.setting[0].size, self.setting[-1].size}) if self.setting else []
        return [
            f"{size} records, knowing all but one leaves a certainty of "
            f"{certainty(size, self.fake_values, size - 1)}"
            for size in sizes
        ]

    # -- what it is worth ----------------------------------------------------------------------

    @cached_property
    def operator(self) -> BucketOperator:
        """How values meet in the buckets, fakes left out."""
        runs = (kinds for _, kinds in self.contents())
        return BucketOperator.of(in_pieces(runs), len(self.histogram.values))

    @cached_property
    def _told(self) -> Told:
        """Variances of counts, the condition, and the values that cannot be told apart.

        Of many values what mixing comes close to is taken instead of the buckets themselves.
        """
        counts = self.histogram.counts
        if len(counts) > MOST_EXACT:
            return self.nearly_told
        operator = BucketOperator(counts.astype(np.float64), self.together, None)
        return told_variances(operator), operator.condition, operator.confused()

    @cached_property
    def nearly_told(self) -> Told:
        """The same as mixing comes close to it, without a look at the buckets: nothing is dealt."""
        counts, parts = self.histogram.counts, self._parts()
        shares = np.stack([filling.counts for filling in self.fillings])
        allowed = self.limits.table([part.size for part in parts])
        told = told_by_parts(parts, shares, counts, allowed)
        smallest = float(told[counts > 0].min(initial=1.0))
        confused = np.flatnonzero((counts > 0) & (told < NEARLY_SINGULAR))
        condition = 1 / smallest if smallest > 0 else math.inf
        return variances_of(counts, told), condition, confused

    def _parts(self) -> Setting:
        """The setting, a part for each filling: round robin fills two sizes at once."""
        if len(self.fillings) == len(self.setting):
            return self.setting
        return (Part(self.setting[0].size, self.buckets),)

    @property
    def variances(self) -> FloatArray:
        """Of the counts of all values, for as many records as the table has, drawn anew."""
        return self._told[0]

    @property
    def condition(self) -> float:
        return self._told[1]

    @property
    def confused(self) -> IntArray:
        """Codes of the values that the buckets cannot tell apart, or hardly can."""
        return self._told[2]

    @cached_property
    def together(self) -> FloatArray:
        """C[x, y] = Σ_g c_x(g)·c_y(g)/|g|."""
        values = len(self.histogram.values)
        together = np.zeros((values, values))
        for kinds in in_pieces(kinds for _, kinds in self.contents()):
            together += kinds.together(values)
        return together

    def predicted_error(self) -> float:
        """√(m·Σ Var(n̂_x))/N, for as many records as the table has, drawn anew (see `accuracy`)."""
        return error_of(self.variances, self.histogram.counts)

    def check(self) -> None:
        """Every bucket within its ceilings, exactly; every slot used once."""
        shares = np.stack([filling.counts for filling in self.fillings])
        assert bool((shares.sum(axis=0) == self.histogram.counts).all()), shares
        sizes: dict[int, int] = {}
        for filling in self.fillings:
            filling.check()
        for first, kinds in self.contents():
            held = np.bincount(kinds.kinds, kinds.counts)
            size = int(held[0])
            assert bool((held == size).all()), (first, held)
            sizes[size] = sizes.get(size, 0) + int(kinds.times.sum())
            allowed = self.limits.table([size])[0]
            broken = np.flatnonzero(kinds.counts > allowed[kinds.values])
            assert not len(broken), (first, size, kinds.values[broken])
        assert sizes == {part.size: part.buckets for part in self.setting}, (sizes, self.setting)


def _rows(first: int, kinds: BucketKinds, histogram: Histogram) -> pa.Table:
    """A run of buckets as rows (bucket, code, count): looked at once per kind, then repeated."""
    import pyarrow as pa

    ordered = np.lexsort((kinds.values, kinds.kinds))
    entries = np.bincount(kinds.kinds, minlength=len(kinds.times))  # different values of each kind
    starts = np.cumsum(entries) - entries
    kind = np.repeat(np.arange(len(entries)), kinds.times)  # of each bucket
    many = entries[kind]
    offset = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
    entry = ordered[np.repeat(starts[kind], many) + offset]
    bucket = np.repeat(np.arange(first, first + len(kind)), many)
    return pa.table(
        {
            "bucket": pa.array(bucket.astype(np.int32)),
            histogram.column: pa.array(kinds.values[entry].astype(np.int32)),
            "count": pa.array(kinds.counts[entry].astype(np.int32)),
        }
    )
