"""Growing a tree of cuts: blocks of people who are alike, each with room under the limits.

One measure decides where to cut, whether to, and what is taken back: `Room.worth`, in nats, summed
over blocks. A cut gains what it tells about the sensitive columns (n times the mutual information
of side and value). It loses room: of every value a block may have at most `slack` times what its
limit allows, and the nearer a value comes to its limit the less its buckets tell it from others,
1 − D/(f'·N) of what they could (methods, section 7), which counts by its logarithm for everybody
who has the value. A block more costs `CUT` for every value, half of what chance alone would seem to
tell (answers are about these people, so what chance did to a block is told, too), and has people
for `FEWEST` buckets at least: fewer cannot tell values apart.

Room is judged on counts rounded to tens, so that near the limit nine people in ten cannot decide a
cut by being in the table or not; that the limit itself holds is judged on the counts as they are.
All of it is in integers; only which of the possible cuts is worth most is decided in floats.
Nothing depends on how values are written, nor on their order or that of columns, but ties.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.blocks import BlockTree, ColumnBins, Cut
from sfumato.draws import BoolArray, IntArray
from sfumato.mechanisms.buckets.settings import Limits
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts, Holdings

CellArray = npt.NDArray[np.int32]

_NONE: CellArray = np.empty(0, np.int32)
ROUNDED = 10  # people: counts are rounded to multiples before room is judged
CUT = 0.25  # nats, for every value: what a block more costs
CARE = 0.3  # what room weighs, beside what is told
FEWEST = 20  # buckets of a block, as people need them on average
_LEAST_LEFT = 1e-3  # of a value's room: with less, there is none
_SQUARED = 60  # times: eigenvalues that are nearer to each other than 2⁻⁶⁰ are one
_SAME = 1e-9  # relative: cuts that are worth as much


@dataclass(frozen=True, eq=False)
class Room:
    """Which counts by mark leave room: c ≤ slack·f'·n for rounded counts, c ≤ f'·n for all."""

    holdings: Holdings
    limits: Limits
    slack: Fraction
    least: int
    to: int = ROUNDED  # what counts are rounded to

    @cached_property
    def _tight(self) -> Limits:
        return Limits(tuple(min(self.slack * c, Fraction(1)) for c in self.limits.ceilings))

    @cached_property
    def _allowed(self) -> FloatArray:
        return np.clip(self.limits.nearly, 1e-9, 1.0)

    def left(self, marks: IntArray, people: IntArray) -> BoolArray:
        """By row of counts by mark, of so many people.

        >>> from sfumato.profile import Histogram
        >>> three = Holdings.one(Histogram("s", tuple("abc"), np.ones(3, np.int64)))
        >>> room = Room(three, Limits((Fraction(1, 2),) * 3), Fraction(17, 20), 100)
        >>> counts = np.array([[104, 100, 46], [110, 90, 50], [20, 20, 20]])
        >>> room.left(counts, counts.sum(axis=1)).tolist()
        [True, False, False]
        """
        fits = (self._rounded(marks) <= self._tight.table(self._rounded(people))).all(axis=1)
        fits &= (marks <= self.limits.table(people)).all(axis=1)
        needed = (marks / self._allowed).sum(axis=1) / len(self.holdings.views)
        return np.asarray(fits & (people >= self.least) & (people**2 >= FEWEST * needed))

    def _rounded(self, counts: IntArray) -> IntArray:
        return np.asarray((counts + self.to // 2) // self.to * self.to)

    def worth(self, marks: IntArray, people: IntArray) -> FloatArray:
        """By row: what a block of such people is worth (see the module)."""
        mark_counts, many = marks.astype(np.float64), np.maximum(people, 1).astype(np.float64)
        gain = -len(self.holdings.views) * _times_log(many) + _times_log(mark_counts).sum(axis=1)
        rest = 1 - mark_counts / (self._allowed * many[:, None])
        gain += CARE * (mark_counts * np.log(np.maximum(rest, _LEAST_LEFT))).sum(axis=1)
        return np.asarray(gain - CUT * (mark_counts > 0).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Node:
    """People of one branch: how many have each combination, and the cells that they stand in."""

    counts: IntArray
    own: CellArray  # of a block; where it is cut, those of its sides are its cells
    worth: float
    cut: Cut | None = None
    sides: tuple[Node, Node] | None = None

    @property
    def cells(self) -> CellArray:
        return np.concatenate([node.own for node in self.blocks()])

    def uncut(self) -> Node:
        """All of its people as one block."""
        return Node(self.counts, self.cells, self.worth)

    def nodes(self) -> Iterator[Node]:
        """This one and all below, first sides before second."""
        yield self
        for side in self.sides or ():
            yield from side.nodes()

    def blocks(self) -> Iterator[Node]:
        return (node for node in self.nodes() if node.sides is None)

    def tree(self) -> BlockTree:
        return BlockTree(tuple(node.cut for node in self.nodes()))


def grow(binned: BinnedCounts, room: Room, columns: tuple[str, ...] = ()) -> Node:
    """The tree of all people that is worth most; `columns` are those to cut, or all.

    Grown as far as there is room, then cuts are taken back whose sides, with all that is below
    them, are worth no more than the branch as one block. O(cells · columns · depth), and O(bins ·
    combinations) per node and column.
    """
    chosen = [n for n, bins in enumerate(binned.columns) if not columns or bins.column in columns]
    values = len(room.holdings.counts)
    bins = [binned.columns[n] for n in chosen]
    kind = np.min_scalar_type(max((column_bins.number for column_bins in bins), default=1) * values)
    coded_values = binned.values.astype(kind)
    people = _People(
        np.arange(len(binned.counts), dtype=np.int32),
        [binned.codes[n].astype(kind) * kind.type(values) + coded_values for n in chosen],
        binned.counts.astype(np.float64),
    )
    counts = np.bincount(binned.values, people.counts, minlength=values).astype(np.int64)
    return _grown(bins, people, counts, room)


@dataclass(frozen=True, eq=False)
class _People:
    """Those of one branch, by cell; `keys` has bin · combinations + combination by column."""

    cells: CellArray
    keys: list[IntArray]
    counts: FloatArray

    def split(self, inside: BoolArray) -> tuple[_People, _People]:
        """Those inside, then the others, in the place of all: a tree grows in what its root has."""
        many = int(np.count_nonzero(inside))
        every: list[npt.NDArray[Any]] = [self.cells, self.counts, *self.keys]
        for array in every:
            first, second = array[inside], array[~inside]
            array[:many], array[many:] = first, second
        return self._view(slice(None, many)), self._view(slice(many, None))

    def _view(self, some: slice) -> _People:
        return _People(self.cells[some], [key[some] for key in self.keys], self.counts[some])


def _grown(columns: list[ColumnBins], people: _People, counts: IntArray, room: Room) -> Node:
    """The branch of these people."""
    mark_counts = room.holdings.by_mark(counts)[None, :]
    worth = float(room.worth(mark_counts, counts.sum(keepdims=True))[0])
    best = None
    if int(counts.sum()) >= 2 * room.least:
        for column, bins in enumerate(columns):
            candidate = _best_cut(bins, people, column, counts, room)
            # of cuts that are worth as much the first column's: ties alone follow the order
            if candidate is not None and (
                best is None or candidate[0] > best[0] + _SAME * abs(best[0])
            ):
                best = (*candidate, column)
    if best is None:
        return Node(counts, people.cells.copy(), worth)
    _, first, column = best
    inside = np.repeat(first, len(counts))[people.keys[column]]
    one, other = people.split(inside)
    here = np.bincount(one.keys[column] % len(counts), one.counts, minlength=len(counts))
    mine = here.astype(np.int64)
    sides = (_grown(columns, one, mine, room), _grown(columns, other, counts - mine, room))
    below = sides[0].worth + sides[1].worth
    if below <= worth:
        return Node(counts, np.concatenate([side.cells for side in sides]), worth)
    return Node(counts, _NONE, below, _cut(columns[column], first), sides)


def _best_cut(
    bins: ColumnBins, people: _People, place: int, whole: IntArray, room: Room
) -> tuple[float, BoolArray] | None:
    """What the best possible cut of a column leaves worth, and the bins of its first side."""
    values = len(whole)
    joint = np.bincount(people.keys[place], people.counts, minlength=bins.number * values)
    cells = joint.astype(np.int64).reshape(bins.number, values)  # exact: sums below 2⁵³
    order = np.arange(bins.number) if bins.values is None else _line(cells)
    below = np.cumsum(cells[order], axis=0)[:-1]
    size, total = below.sum(axis=1), int(whole.sum())
    some = np.flatnonzero((size >= room.least) & (total - size >= room.least))
    if not len(some):
        return None
    marks = room.holdings.by_mark(below[some])
    rest = room.holdings.by_mark(whole) - marks
    fits = room.left(marks, size[some]) & room.left(rest, total - size[some])
    if not fits.any():
        return None
    some, marks, rest = some[fits], marks[fits], rest[fits]
    worth = room.worth(marks, size[some]) + room.worth(rest, total - size[some])
    best = int(np.argmax(worth))
    first = np.zeros(bins.number, np.bool_)
    first[order[: some[best] + 1]] = True
    # what the bins do not name goes to the second side
    if bins.values is not None and first[-1]:
        first = ~first
    return float(worth[best]), first


def _times_log(counts: FloatArray) -> FloatArray:
    return np.asarray(counts * np.log(np.maximum(counts, 1.0)))


def _line(joint: IntArray) -> IntArray:
    """Values of a column in the order of what goes with them, along the main direction.

    With two sensitive values, neighbours in this line make the best groups (Breiman); with more,
    nearly (Coppersmith, Hong and Hosking 1999). The direction's sign is that in which more people
    lie ahead, so that it follows from people and not from how values are written.
    """
    people = joint.sum(axis=1)
    present = np.flatnonzero(people)
    if len(present) > 2:
        mark_counts, size = joint[present], people[present]
        away = mark_counts / size[:, None] - mark_counts.sum(axis=0) / size.sum()
        away *= np.sqrt(size)[:, None]
        along = main_direction(away @ away.T) / np.sqrt(size)
        if float((size * along**3).sum()) < 0:
            along = -along
        present = present[np.argsort(along.round(9), kind="stable")]
    elif len(present) == 2 and people[present[0]] > people[present[1]]:
        present = present[::-1]
    return np.concatenate([present, np.flatnonzero(people == 0)])


def main_direction(matrix: FloatArray) -> FloatArray:
    """The eigenvector of the largest eigenvalue of a positive matrix, by repeated squaring.

    Thousands of small ones are asked for, each of which `eigh` would share out among threads that
    wait for one another: eight tenths of the time that planning blocks took.

    >>> main_direction(np.array([[2.0, 1.0], [1.0, 2.0]])).round(6).tolist()
    [0.707107, 0.707107]
    """
    power = matrix / max(float(np.trace(matrix)), 1e-300)
    for _ in range(_SQUARED):
        power = power @ power
        left = float(np.trace(power))  # 1 where one direction is left
        power /= max(left, 1e-300)
        if left > 1 - 1e-15:
            break
    column = power[:, int(np.argmax(np.diag(power)))]
    return np.asarray(column / max(float(np.linalg.norm(column)), 1e-300))


def _cut(bins: ColumnBins, first: BoolArray) -> Cut:
    if bins.values is None:
        edge = bins.edges[int(first.sum()) - 1]
        return Cut(bins.column, below=int(edge) if edge.is_integer() else edge)
    named = np.flatnonzero(first).tolist()
    return Cut(bins.column, values=tuple(bins.values[n] for n in named))
