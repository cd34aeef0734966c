"""Growing a tree of cuts: blocks of people who are alike, each with room under the ceilings.

A node is cut where the cut tells most about the sensitive column (n times the mutual information of
side and value), as long as both sides have `least` people and room: of every value at most `slack`
times what the table's ceiling allows. At the ceiling itself a value would stand in every bucket of
the block, and values that always stand together cannot be told apart (methods, section 7). So what
a cut takes of the room counts against it, by `care`: with none the few cuts that tell most use the
room up, with much of it people are cut by what hardly goes with the value, which keeps answers.

Room is judged on counts rounded to tens, so that near the limit nine people in ten cannot decide a
cut by being in the table or not; that the ceiling itself holds is judged on the counts as they are.
All of it is in integers; only which of the possible cuts tells most is decided in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato.blocks import BlockTree, Cut
from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.buckets.settings import Limits
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts, ColumnBins

ROUNDED = 10  # people: counts are rounded to multiples before room is judged
_LEAST_LEFT = 1e-3  # of a value's room: with less, there is none


@dataclass(frozen=True, eq=False)
class Room:
    """Which counts leave room: c_x ≤ slack·f'_x·n for rounded counts, c_x ≤ f'_x·n for all."""

    limits: Limits
    slack: Fraction
    least: int
    to: int = ROUNDED  # what counts are rounded to

    @cached_property
    def _bounds(self) -> tuple[Limits, Limits]:
        """Of rounded counts, and of counts; a single one of each where all ceilings are alike."""
        ceilings = self.limits.ceilings[:1] if self._alike else self.limits.ceilings
        return Limits(tuple(min(self.slack * c, Fraction(1)) for c in ceilings)), Limits(ceilings)

    @cached_property
    def _alike(self) -> bool:
        return len(set(self.limits.ceilings)) == 1

    @cached_property
    def _allowed(self) -> FloatArray:
        return np.minimum([float(each) for each in self.limits.ceilings], 1.0)

    def left(self, counts: IntArray) -> BoolArray:
        """By row of counts.

        >>> room = Room(Limits((Fraction(1, 2),) * 3), Fraction(17, 20), 100)
        >>> room.left(np.array([[104, 100, 46], [110, 90, 50], [20, 20, 20]])).tolist()
        [True, False, False]
        """
        people = counts.sum(axis=1)
        if self._alike:  # the commonest value decides
            counts = counts.max(axis=1, keepdims=True)
        tight, loose = self._bounds
        return np.asarray(
            (people >= self.least)
            & (self._rounded(counts) <= tight.table(self._rounded(people))).all(axis=1)
            & (counts <= loose.table(people)).all(axis=1)
        )

    def taken(self, counts: IntArray) -> FloatArray:
        """By row: −log of the share of a value's room that is left, summed over people.

        >>> room = Room(Limits((Fraction(1, 2),) * 3), Fraction(1), 1)
        >>> room.taken(np.array([[30, 40, 50]])).round(1).tolist()
        [153.4]
        """
        held = counts.astype(np.float64)
        most = self._allowed * np.maximum(held.sum(axis=1), 1.0)[:, None]
        left = np.maximum(1 - held / most, _LEAST_LEFT)
        return -np.asarray((held * np.log(left)).sum(axis=1))

    def _rounded(self, counts: IntArray) -> IntArray:
        return np.asarray((counts + self.to // 2) // self.to * self.to)


@dataclass(frozen=True, eq=False)
class Node:
    """People of one branch: the cells they stand in, and their counts by value."""

    cells: IntArray
    counts: IntArray
    cut: Cut | None = None
    sides: tuple[Node, Node] | None = None

    def nodes(self) -> Iterator[Node]:
        """This one and all below, first sides before second."""
        yield self
        for side in self.sides or ():
            yield from side.nodes()

    def blocks(self) -> Iterator[Node]:
        return (node for node in self.nodes() if node.sides is None)

    def tree(self) -> BlockTree:
        return BlockTree(tuple(node.cut for node in self.nodes()))


def grow(binned: BinnedCounts, values: int, room: Room, columns: tuple[str, ...] = ()) -> Node:
    """The tree of all people, cut as far as there is room; `columns` are those to cut, or all."""
    (root,) = grow_all(binned, values, room, (0.0,), columns)
    return root


def grow_all(
    binned: BinnedCounts,
    values: int,
    room: Room,
    cares: Sequence[float],
    columns: tuple[str, ...] = (),
) -> list[Node]:
    """A tree for every care. People are counted once for all that cut them alike so far.

    O(cells · columns · depth), and O(bins · values) per node and column.
    """
    chosen = [n for n, bins in enumerate(binned.columns) if not columns or bins.column in columns]
    bins = [binned.columns[n] for n in chosen]
    kind = np.min_scalar_type(max((each.number for each in bins), default=1) * values)
    own = binned.values.astype(kind)
    people = _People(
        np.arange(len(binned.counts), dtype=np.int32),
        [binned.codes[n].astype(kind) * kind.type(values) + own for n in chosen],
        binned.counts.astype(np.float64),
    )
    counts = np.bincount(binned.values, people.counts, minlength=values).astype(np.int64)
    found = _grown(bins, people, counts, room, dict(enumerate(cares)))
    return [found[number] for number in range(len(cares))]


@dataclass(frozen=True, eq=False)
class _People:
    """Those of one branch, by cell; `keys` has bin · values + value for every column."""

    cells: IntArray
    keys: list[IntArray]
    counts: FloatArray

    def part(self, inside: BoolArray) -> _People:
        keys = [key[inside] for key in self.keys]
        return _People(self.cells[inside], keys, self.counts[inside])


def _grown(
    columns: list[ColumnBins],
    people: _People,
    counts: IntArray,
    room: Room,
    cares: Mapping[int, float],
) -> dict[int, Node]:
    """The branch of these people for every care, by its number."""
    cells, values = people.cells.astype(np.int64), len(counts)
    found = {number: Node(cells, counts) for number in cares}
    large = int(counts.sum()) >= 2 * room.least
    best: dict[int, tuple[float, int, BoolArray]] = {}
    for place, (bins, key) in enumerate(zip(columns, people.keys, strict=True) if large else ()):
        joint = np.bincount(key, people.counts, minlength=bins.number * values)
        whole = joint.astype(np.int64).reshape(bins.number, values)  # exact: sums below 2⁵³
        for number, (worth, first) in _best_cuts(bins, whole, room, cares).items():
            if number not in best or worth > best[number][0]:
                best[number] = worth, place, first
    alike: dict[tuple[int, bytes], list[int]] = {}
    for number, (_, place, first) in best.items():
        alike.setdefault((place, first.tobytes()), []).append(number)
    for (place, _), numbers in alike.items():
        first = best[numbers[0]][2]
        inside = np.repeat(first, values)[people.keys[place]]
        own = people.part(inside)
        held = np.bincount(own.keys[place] % values, own.counts, minlength=values).astype(np.int64)
        some = {number: cares[number] for number in numbers}
        one = _grown(columns, own, held, room, some)
        other = _grown(columns, people.part(~inside), counts - held, room, some)
        cut = _cut(columns[place], first)
        found |= {n: Node(cells, counts, cut, (one[n], other[n])) for n in numbers}
    return found


def _best_cuts(
    bins: ColumnBins, joint: IntArray, room: Room, cares: Mapping[int, float]
) -> dict[int, tuple[float, BoolArray]]:
    """For every care: what the best possible cut of a column is worth, and the bins of its first
    side; nothing where there is no room."""
    order = np.arange(len(joint)) if bins.values is None else _line(joint)
    below = np.cumsum(joint[order], axis=0)[:-1]
    whole = joint.sum(axis=0)
    people, size = int(whole.sum()), below.sum(axis=1)
    # only these leave both sides large enough; sizes rise
    start = int(np.searchsorted(size, room.least))
    below = below[start : int(np.searchsorted(size, people - room.least, side="right"))]
    sides = np.stack([below, whole - below])
    possible = room.left(sides.reshape(-1, len(whole))).reshape(2, -1).all(axis=0)
    places = start + np.flatnonzero(possible)
    if not len(places):
        return {}

    def added(measure: Callable[[IntArray], FloatArray]) -> FloatArray:
        """What the sides have together, over what all have."""
        both = np.concatenate([sides[:, possible].reshape(-1, len(whole)), whole[None, :]])
        measured = measure(both)
        return np.asarray(measured[:-1].reshape(2, -1).sum(axis=0) - measured[-1])

    told = -added(_entropy)
    taken = added(room.taken) if any(cares.values()) else np.zeros(len(places))
    found = {}
    for number, care in cares.items():
        worth = told - care * taken
        best = int(np.argmax(worth))
        first = np.zeros(len(joint), np.bool_)
        first[order[: places[best] + 1]] = True
        # what the bins do not name goes to the second side
        if bins.values is not None and first[-1]:
            first = ~first
        found[number] = float(worth[best]), first
    return found


def _entropy(counts: IntArray) -> FloatArray:
    """n times the entropy, by row."""
    held, people = counts.astype(np.float64), counts.sum(axis=1).astype(np.float64)
    return np.asarray(_times_log(people) - _times_log(held).sum(axis=1))


def _times_log(counts: FloatArray) -> FloatArray:
    return np.asarray(counts * np.log(np.maximum(counts, 1.0)))


def _line(joint: IntArray) -> IntArray:
    """Values of a column in the order of what goes with them, along the main direction.

    With two sensitive values, neighbours in this line make the best groups (Breiman); with more,
    nearly (Coppersmith, Hong and Hosking 1999).
    """
    people = joint.sum(axis=1)
    present = np.flatnonzero(people)
    if len(present) > 2:
        held, size = joint[present], people[present]
        away = held / size[:, None] - held.sum(axis=0) / size.sum()
        away *= np.sqrt(size)[:, None]
        _, vectors = np.linalg.eigh(away @ away.T)
        along = vectors[:, -1] / np.sqrt(size)
        if along[int(np.argmax(np.abs(along)))] < 0:
            along = -along
        present = present[np.argsort(along, kind="stable")]
    return np.concatenate([present, np.flatnonzero(people == 0)])


def _cut(bins: ColumnBins, first: BoolArray) -> Cut:
    if bins.values is None:
        edge = bins.edges[int(first.sum()) - 1]
        return Cut(bins.column, below=int(edge) if edge.is_integer() else edge)
    named = np.flatnonzero(first).tolist()
    return Cut(bins.column, values=tuple(bins.values[n] for n in named))
