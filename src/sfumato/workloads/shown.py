"""The quasi columns of a release, as it shows them: values, merged values, ranges or sets.

A record *fits* a condition by a share: 0 or 1 where the release shows the value, between them where
it shows several values that are taken as equally likely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Column
from sfumato.draws import Draws, IntArray, Positions
from sfumato.errors import UsageError
from sfumato.operators.base import FloatArray
from sfumato.operators.matched import MatchedRanges, MatchedSets, share_of_people
from sfumato.operators.overlap import share_of_intervals, share_of_sets, share_of_whole_numbers
from sfumato.operators.ranges import Reading
from sfumato.queries.overlap import stored
from sfumato.release import GeneralizedRelease, PerturbedRelease, Release
from sfumato.release.marginals import whole_numbers
from sfumato.workloads.bitmaps import Bitmaps, Bits
from sfumato.workloads.conditions import Condition, OneOf
from sfumato.workloads.questions import CountQuestion


@dataclass(frozen=True, eq=False)
class ShownColumn:
    """`codes` number what the records show; `fits` says how much of each satisfies a condition.

    Ranges and sets are read as the people that they span; `even` tells how much satisfies it if
    they are evenly filled, `cut` how sure the number of these people is, where that is told.
    """

    codes: IntArray
    fits: Callable[[Condition], FloatArray]
    even: Callable[[Condition], FloatArray] | None = None
    cut: Callable[[Condition], float | None] = lambda _: None

    def reading(self, condition: Condition) -> Reading:
        """Both ways to read ranges and sets, by record."""
        even = self.even or self.fits
        fits = self.fits(condition)[self.codes]
        return Reading(even(condition)[self.codes], fits, self.cut(condition))


class ShownQuasi:
    """The quasi columns of a release, each read on first use."""

    def __init__(self, release: Release, *, even: bool = False) -> None:
        """`even` takes ranges and sets as evenly filled, not as the people that they span."""
        self._release, self.is_even = release, even
        self._columns: dict[str, ShownColumn] = {}
        self.bitmaps = Bitmaps(release.rows)

    def _column(self, name: str) -> ShownColumn:
        if name not in self._columns:
            column = _read(self._release, name)
            if self.is_even and column.even is not None:
                column = ShownColumn(column.codes, column.even)
            self._columns[name] = column
        return self._columns[name]

    def readings(self, question: CountQuestion) -> list[Reading]:
        """What the records show of each condition, read both ways."""
        return [self._column(name).reading(asked) for name, asked in question.conditions.items()]

    def matching(self, question: CountQuestion) -> tuple[IntArray, FloatArray | None]:
        """The records that can satisfy the conditions, and how far; None where all do wholly."""
        partial: list[tuple[ShownColumn, FloatArray]] = []
        bitmaps: list[Bits] = []
        for name, condition in question.conditions.items():
            column = self._column(name)
            fits = column.fits(condition)
            if bool(((fits > 0) & (fits < 1)).any()):
                partial.append((column, fits))
            bitmaps.append(self._bits(name, condition, column, fits))
        rows = self.bitmaps.rows_of(bitmaps)
        if not partial:
            return rows, None
        weights = np.ones(len(rows))
        for column, fits in partial:
            weights *= fits[column.codes[rows]]
        return rows, weights

    def _bits(self, name: str, condition: Condition, column: ShownColumn, fits: FloatArray) -> Bits:
        return self.bitmaps.get((name, condition), lambda: (fits > 0)[column.codes])


def coded(column: pa.Array) -> tuple[IntArray, pa.Array]:
    """Codes and the different values, a missing one among them."""
    found = pc.dictionary_encode(column, null_encoding="encode")
    return np.asarray(found.indices.to_numpy(), np.int64), found.dictionary


def _read(release: Release, name: str) -> ShownColumn:
    column = release.column(name)
    if column.role != "quasi":
        raise UsageError(f"The workload asks about {name!r}, which is no quasi-identifier.")
    if isinstance(release, GeneralizedRelease):
        made = _ranges if column.kind == "numeric" else _sets
        return made(release, column)
    codes, values = coded(stored(release, name))
    merged = release.merges.get(name) if isinstance(release, PerturbedRelease) else None
    if merged is None:
        return ShownColumn(codes, lambda condition: condition.holds(values).astype(np.float64))
    members = {each.label: each.values for each in merged}
    listed = [members[label] for label in values.to_pylist()]

    def fits(condition: Condition) -> FloatArray:
        return np.array([np.mean([condition.holds_json(v) for v in inside]) for inside in listed])

    return ShownColumn(codes, fits)


def _ranges(release: GeneralizedRelease, column: Column) -> ShownColumn:
    parts = release.shown_as(column)
    ends = [stored(release, part).cast(pa.float64(), safe=False) for part in parts]
    pairs = np.stack([end.to_numpy() for end in ends], axis=1)
    different, first, codes = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    low, high = different.T
    whole = whole_numbers(column)
    if whole is not None:
        inside = (pairs - whole[0]).astype(np.int64)
        matched = MatchedRanges(
            inside[:, 0],
            inside[:, 1],
            len(whole),
            release.spans,
            release.marginals.get(column.name),
        )

    def fits(condition: Condition) -> FloatArray:
        if whole is None:
            return share_of_people(low, high, *_ends(column.name, condition), release.spans)
        return np.asarray(matched.share(condition.holds(pa.array(whole, pa.float64())))[first])

    def even(condition: Condition) -> FloatArray:
        if whole is None:
            return share_of_intervals(low, high, *_ends(column.name, condition))
        satisfied = condition.holds(pa.array(whole, pa.float64()))
        return share_of_whole_numbers(low, high, satisfied, int(whole[0]))

    def cut(condition: Condition) -> float | None:
        if whole is None:
            return None
        return matched.cut(condition.holds(pa.array(whole, pa.float64())))

    return ShownColumn(codes.reshape(-1), fits, even, cut)


def _ends(name: str, condition: Condition) -> tuple[float, float]:
    if isinstance(condition, OneOf) and len(condition.values) > 1:
        raise UsageError(
            f"The list of values asked for in column {name!r} cannot be weighed against ranges of "
            "numbers that are not whole. Ask for ranges."
        )
    if isinstance(condition, OneOf):
        return float(condition.values[0]), float(condition.values[0])
    return float(condition.low), float(condition.high)


def _sets(release: GeneralizedRelease, column: Column) -> ShownColumn:
    lists = stored(release, column.name)
    inside, values = coded(_decoded(lists.flatten()))
    starts = np.asarray(lists.offsets.to_numpy(), np.int64)
    starts = starts - starts[0]
    owner = np.repeat(np.arange(len(lists)), np.diff(starts))
    # equal sets have equal sums of random words, members in any order
    words = Draws.from_seed(0).words("sets", Positions(0, len(values)))
    marks = np.zeros(len(lists), np.uint64)
    np.add.at(marks, owner, words[inside])
    _, first, codes = np.unique(marks, return_index=True, return_inverse=True)
    sizes = np.diff(starts)[first]
    ends = np.cumsum(sizes)
    place = np.arange(int(sizes.sum())) + np.repeat(starts[first] - ends + sizes, sizes)
    members, bounds = inside[place], np.concatenate([[0], ends])
    told = release.marginal_of(column, values)
    matched = MatchedSets(inside, starts, len(values), release.spans, told)

    return ShownColumn(
        codes.reshape(-1),
        lambda condition: np.asarray(matched.share(condition.holds(values))[first]),
        lambda condition: share_of_sets(members, bounds, condition.holds(values)),
        lambda condition: matched.cut(condition.holds(values)),
    )


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
