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
from sfumato.mechanisms.buckets.association import BucketContents, Records, barred_values
from sfumato.mechanisms.buckets.fakes import Fakes, certainty
from sfumato.mechanisms.buckets.filling import Filling, kinds_of
from sfumato.mechanisms.buckets.settings import Limits, Setting, loss, mean_squared_error
from sfumato.mechanisms.protocol import Batch, Published, RecordPlan
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator
from sfumato.profile import Histogram

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1 << 20  # rows of the sensitive table that are written at once
_CELLS = 1 << 22  # buckets times values that fakes are drawn for at once


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
    association: Fraction | None = None  # fakes avoid what is ruled out at this threshold
    _edges: IntArray = field(init=False, repr=False)  # flat slots at which fillings begin
    _guess: IntArray = field(init=False, repr=False)  # coarse index of those
    _width: int = field(init=False, repr=False)  # flat slots per cell of the index
    _starts: IntArray = field(init=False, repr=False)  # flat slots at which values begin
    _first: IntArray = field(init=False, repr=False)  # first bucket of each filling

    kind: ClassVar[str] = "bucketed"
    needs_rank: ClassVar[bool] = True

    def __post_init__(self) -> None:
        shares = np.stack([filling.counts for filling in self.fillings])
        buckets = [filling.buckets for filling in self.fillings]
        starts = np.concatenate([[0], np.cumsum(self.histogram.counts)])
        # values by fillings: where each filling's slots of each value begin
        edges = starts[:-1, None] + np.cumsum(shares.T, axis=1) - shares.T
        object.__setattr__(self, "_starts", starts[:-1])
        # one edge beyond the last record ends every search
        flat = np.append(edges.reshape(-1), self.histogram.rows + 1)
        width = max(1, self.histogram.rows // (16 * len(flat)))
        cells = np.arange(0, self.histogram.rows + width, width)
        object.__setattr__(self, "_edges", flat)
        object.__setattr__(self, "_width", width)
        object.__setattr__(self, "_guess", np.searchsorted(flat, cells, side="right") - 1)
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

    def bucket_of(self, codes: IntArray, ranks: IntArray) -> IntArray:
        """The bucket of every (value, rank). About 0.3 µs a record."""
        slots = self.slots(codes, ranks)
        if len(self.fillings) == 1:
            return self.fillings[0].place(codes, slots)[0]
        many = len(self.fillings)
        flat = self._starts[codes] + slots
        owner = self._owner(flat)
        which = owner - codes * many
        slots = flat - self._edges[owner]
        bucket = np.empty(len(codes), np.int64)
        order = np.argsort(which.astype(np.uint8 if many <= 256 else np.int64), kind="stable")
        cuts = np.searchsorted(which[order], np.arange(many + 1))
        for number, filling in enumerate(self.fillings):
            chosen = order[cuts[number] : cuts[number + 1]]
            if len(chosen):
                bucket[chosen] = (
                    filling.place(codes[chosen], slots[chosen])[0] + self._first[number]
                )
        return bucket

    def _owner(self, flat: IntArray) -> IntArray:
        """The last place of `_edges` that is not beyond: a coarse table, and a step or two."""
        owner = self._guess[flat // self._width]
        late = np.flatnonzero(self._edges[owner + 1] <= flat)
        while late.size:
            owner[late] += 1
            late = late[self._edges[owner[late] + 1] <= flat[late]]
        return owner

    # -- what is published besides -------------------------------------------------------------

    def contents(self) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Runs of buckets with equal contents: (first bucket, lengths, values by place)."""
        for first, filling in zip(self._first, self.fillings, strict=False):
            for begin, lengths, held in filling.runs():
                yield int(first) + begin, lengths, held.astype(np.int64)

    def listed(self, barred: BoolArray | None = None) -> Iterator[tuple[int, IntArray, IntArray]]:
        """What the sensitive table lists, as runs like `contents`, fakes among the values."""
        if self.fakes is None:
            yield from self.contents()
            return
        most = max(1, _CELLS // max(len(self.histogram.values), 1))
        for first, lengths, held in self.contents():
            rows = np.repeat(np.arange(len(held)), lengths)
            for low in range(0, len(rows), most):
                begin, piece = first + low, held[rows[low : low + most]]
                here = None if barred is None else barred[begin : begin + len(piece)]
                ones = np.ones(len(piece), np.int64)
                yield begin, ones, self.fakes.add(begin, piece, here)

    def side_tables(self, records: Records) -> Mapping[str, Iterator[pa.Table]]:
        return {"sensitive": self._sensitive(records)}

    def _barred(self, records: Records) -> BoolArray | None:
        if self.association is None or self.fakes is None:
            return None
        sizes, values = [], []
        for _, lengths, held in self.contents():
            sizes.append(np.full(int(lengths.sum()), held.shape[1]))
            values.append(np.repeat(held, lengths, axis=0).reshape(-1))
        starts = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
        contents = BucketContents(starts, np.concatenate(values))
        return barred_values(records, contents, self.operator, self.association)

    def _sensitive(self, records: Records) -> Iterator[pa.Table]:
        """Rows (bucket, value, count), in the order of buckets and codes."""
        import pyarrow as pa

        waiting: list[pa.Table] = []
        size = 0
        for first, lengths, held in self.listed(self._barred(records)):
            waiting.append(_rows(first, lengths, held, self.histogram))
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
        condition = self.operator.condition
        described["condition"] = round(condition, 3) if math.isfinite(condition) else None
        if self.bound is not None:
            found = loss(self.setting)
            described["gap"] = float((found - self.bound) / found) if found else 0.0
        if self.fakes:
            # the certainty below is stated for an adversary who has it, so the analyst may too
            described["histogram"] = self.histogram.counts.tolist()
        if self.association is not None:
            described["association"] = str(self.association)
        return described

    def caveats(self) -> list[str]:
        found = [
            f"Column {self.histogram.column!r}: the release shows how many people have each value, "
            "exactly. Whoever knows the values of others in a bucket is surer of the "
            "rest: in a bucket of " + "; of ".join(self._certainties()) + ".",
        ]
        if self.association is not None:
            found.append(
                "Fake values follow the quasi columns of their bucket, because those that a record "
                "rules out are left out; so answers are corrected for fakes only approximately."
            )
        confused = self.operator.confused()
        if len(confused):
            names = [value_text(self.histogram.values[code]) for code in confused]
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
        runs = ((lengths, held.astype(np.int32)) for _, lengths, held in self.contents())
        return BucketOperator.of(kinds_of(runs), len(self.histogram.values))

    def predicted_error(self) -> float:
        """√(m·Σ Var(n̂_x))/N, for as many records as the table has, drawn anew.

        Var is that of the shrunk estimate with deviations as large as the counts themselves, so
        it is finite also where the operator is singular.
        """
        counts = self.histogram.counts.astype(np.float64)
        variance = shrunk_variance(self.operator, counts)
        return math.sqrt(len(counts) * variance) / max(float(counts.sum()), 1.0)

    def check(self) -> None:
        """Every bucket within its ceilings, exactly; every slot used once."""
        shares = np.stack([filling.counts for filling in self.fillings])
        assert bool((shares.sum(axis=0) == self.histogram.counts).all()), shares
        sizes: dict[int, int] = {}
        for filling in self.fillings:
            filling.check()
        for first, lengths, held in self.contents():
            size = held.shape[1]
            sizes[size] = sizes.get(size, 0) + int(lengths.sum())
            allowed = self.limits.table([size])[0]
            keys = np.arange(len(held))[:, None] * len(allowed) + held
            found, most = np.unique(keys, return_counts=True)
            broken = np.flatnonzero(most > allowed[found % len(allowed)])
            assert not len(broken), (first, size, found[broken] % len(allowed))
        assert sizes == {part.size: part.buckets for part in self.setting}, (sizes, self.setting)


def shrunk_variance(operator: BucketOperator, counts: FloatArray) -> float:
    """Σ_x of the posterior variance with a prior deviation of n_x, the sum being known."""
    prior = np.diag(counts**2) - np.outer(counts**2, counts**2) / max((counts**2).sum(), 1e-300)
    matrix = operator.matrix()
    carried = prior @ matrix
    whole = matrix.T @ carried + operator.scatter
    posterior = prior - carried @ np.linalg.pinv(whole, hermitian=True) @ carried.T
    return float(max(np.trace(posterior), 0.0))


def _rows(first: int, lengths: IntArray, held: IntArray, histogram: Histogram) -> pa.Table:
    """A run of buckets as rows (bucket, code, count): counted once per run, then repeated."""
    import pyarrow as pa

    values = len(histogram.values)
    keys = np.arange(len(held))[:, None] * values + held
    found, counts = np.unique(keys, return_counts=True)
    entries = np.bincount(found // values, minlength=len(held))  # different values of each run
    starts = np.cumsum(entries) - entries
    run = np.repeat(np.arange(len(held)), lengths)  # of each bucket
    many = entries[run]
    offset = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
    entry = np.repeat(starts[run], many) + offset
    bucket = np.repeat(np.arange(first, first + len(run)), many)
    return pa.table(
        {
            "bucket": pa.array(bucket.astype(np.int32)),
            histogram.column: pa.array((found % values)[entry].astype(np.int32)),
            "count": pa.array(counts[entry].astype(np.int32)),
        }
    )
