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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.blocks import BlockTree, Cut
from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.buckets.settings import Limits
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts, ColumnBins

CellArray = npt.NDArray[np.int32]

_NONE: CellArray = np.empty(0, np.int32)
ROUNDED = 10  # people: counts are rounded to multiples before room is judged
_AT_ONCE = 1 << 19  # counts of sides that are looked at together
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
        return np.asarray((people >= self.least) & self.fits(counts, people))

    def fits(self, counts: IntArray, people: IntArray) -> BoolArray:
        """By row, whether so many of these people may have each value; some may have several."""
        if self._alike:  # the commonest value decides
            counts = counts.max(axis=1, keepdims=True)
        tight, loose = self._bounds
        return np.asarray(
            (self._rounded(counts) <= tight.table(self._rounded(people))).all(axis=1)
            & (counts <= loose.table(people)).all(axis=1)
        )

    def taken(self, counts: IntArray) -> FloatArray:
        """By row: −log of the share of a value's room that is left, summed over people.

        >>> room = Room(Limits((Fraction(1, 2),) * 3), Fraction(1), 1)
        >>> room.taken(np.array([[30, 40, 50]])).round(1).tolist()
        [154.3]
        """
        return self.taken_of(counts, counts.sum(axis=1))

    def taken_of(self, counts: IntArray, people: IntArray) -> FloatArray:
        """The same of these people, of whom some may have several values."""
        held = counts.astype(np.float64)
        most = self._allowed * np.maximum(people, 1.0)[:, None]
        taken = np.divide(held, most, out=np.zeros_like(held), where=most > 0)  # nobody has others
        left = np.maximum(1 - taken, _LEAST_LEFT)
        return -np.asarray((held * np.log(left)).sum(axis=1))

    def _rounded(self, counts: IntArray) -> IntArray:
        return np.asarray((counts + self.to // 2) // self.to * self.to)


@dataclass(frozen=True, eq=False)
class Node:
    """People of one branch: their counts by value, and the cells that they stand in."""

    counts: IntArray
    own: CellArray  # of a block; where it is cut, those of its sides are its cells
    cut: Cut | None = None
    sides: tuple[Node, Node] | None = None

    @property
    def cells(self) -> CellArray:
        return np.concatenate([node.own for node in self.blocks()])

    def uncut(self) -> Node:
        """All of its people as one block."""
        return Node(self.counts, self.cells)

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

    cells: CellArray
    keys: list[IntArray]
    counts: FloatArray

    def split(self, inside: BoolArray) -> tuple[_People, _People]:
        """Those inside, then the others, in the place of all: a tree is grown in what its root has.

        Whoever holds all of them holds the same people afterwards, in another order.
        """
        many = int(np.count_nonzero(inside))
        every: list[npt.NDArray[Any]] = [self.cells, self.counts, *self.keys]
        for each in every:
            first, second = each[inside], each[~inside]
            each[:many], each[many:] = first, second
        one, other = slice(None, many), slice(many, None)
        return self._view(one), self._view(other)

    def _view(self, some: slice) -> _People:
        return _People(self.cells[some], [key[some] for key in self.keys], self.counts[some])


def _grown(
    columns: list[ColumnBins],
    people: _People,
    counts: IntArray,
    room: Room,
    cares: Mapping[int, float],
) -> dict[int, Node]:
    """The branch of these people for every care, by its number."""
    values = len(counts)
    found: dict[int, Node] = {}
    best: dict[int, _Found] = {}
    if int(counts.sum()) >= 2 * room.least:
        together = max(1, _AT_ONCE // (max((each.number for each in columns), default=1) * values))
        for begin in range(0, len(columns), together):
            places = range(begin, min(begin + together, len(columns)))
            for number, each in _best_cuts(columns, people, places, counts, room, cares).items():
                if number not in best or each.worth > best[number].worth:
                    best[number] = each
    alike: dict[tuple[int, bytes], list[int]] = {}
    for number, each in best.items():
        alike.setdefault((each.place, each.first.tobytes()), []).append(number)
    for (place, _), numbers in alike.items():
        first = best[numbers[0]].first
        inside = np.repeat(first, values)[people.keys[place]]
        own, others = people.split(inside)
        held = np.bincount(own.keys[place] % values, own.counts, minlength=values).astype(np.int64)
        some = {number: cares[number] for number in numbers}
        one = _grown(columns, own, held, room, some)
        other = _grown(columns, others, counts - held, room, some)
        cut = _cut(columns[place], first)
        found |= {n: Node(counts, _NONE, cut, (one[n], other[n])) for n in numbers}
    if len(found) < len(cares):
        block = Node(counts, people.cells.copy())
        found |= {number: block for number in cares if number not in found}
    return found


@dataclass(frozen=True, eq=False)
class _Found:
    """What a cut is worth, the place of its column, and the bins of its first side."""

    worth: float
    place: int
    first: BoolArray


def _best_cuts(
    columns: list[ColumnBins],
    people: _People,
    places: range,
    whole: IntArray,
    room: Room,
    cares: Mapping[int, float],
) -> dict[int, _Found]:
    """For every care the best possible cut of these columns; nothing where there is no room.

    `whole` are the counts of all people by value.
    """
    lines, tables, owners = [], [], []
    for place in places:
        line, below = _sides(columns[place], people, place, room, whole)
        lines.append(line)
        tables.append(below)
        owners.append(np.full(len(below), place))
    sides = np.concatenate(tables)
    possible = np.flatnonzero(room.left(sides))
    possible = possible[room.left(whole - sides[possible])]
    if not len(possible):
        return {}
    owner = np.concatenate(owners)[possible]
    both = np.concatenate([sides[possible], whole - sides[possible], whole[None, :]])

    def added(measured: FloatArray) -> FloatArray:
        """What the sides have together, over what all have."""
        return np.asarray(measured[:-1].reshape(2, -1).sum(axis=0) - measured[-1])

    told = -added(_entropy(both))
    taken = added(room.taken(both)) if any(cares.values()) else np.zeros(len(possible))
    found = {}
    for number, care in cares.items():
        worth = told - care * taken
        best = int(np.argmax(worth))
        place = int(owner[best])
        reached = int(possible[best]) - sum(map(len, tables[: place - places.start]))
        first = np.zeros(columns[place].number, np.bool_)
        first[lines[place - places.start].upto(reached)] = True
        # what the bins do not name goes to the second side
        if columns[place].values is not None and first[-1]:
            first = ~first
        found[number] = _Found(float(worth[best]), place, first)
    return found


@dataclass(frozen=True, eq=False)
class _Line:
    """The bins of a column in the order in which they may be cut; `start` ends the first cut."""

    order: IntArray
    start: int

    def upto(self, cut: int) -> IntArray:
        """The bins of the first side."""
        return self.order[: self.start + cut + 1]


def _sides(
    bins: ColumnBins, people: _People, place: int, room: Room, whole: IntArray
) -> tuple[_Line, IntArray]:
    """A column's bins in line, and the counts of first sides that leave both sides large enough."""
    values = len(whole)
    joint = np.bincount(people.keys[place], people.counts, minlength=bins.number * values)
    held = joint.astype(np.int64).reshape(bins.number, values)  # exact: sums below 2⁵³
    order = np.arange(bins.number) if bins.values is None else _line(held)
    below = np.cumsum(held[order], axis=0)[:-1]
    size = below.sum(axis=1)  # rising
    start = int(np.searchsorted(size, room.least))
    stop = int(np.searchsorted(size, int(whole.sum()) - room.least, side="right"))
    return _Line(order, start), below[start : max(stop, start)]


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
