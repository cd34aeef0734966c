"""Growing a tree of cuts on quasi-identifiers alone, and testing its cuts (methods, section 7).

`grow` sees no value: every node has one candidate cut, that of the column with the best score. A
tree may then be published as it is, but where the test of a cut, which looks at values, refuses it:
the node is a block then. Two tables that differ by exchanging the values of two people of one block
differ in at most that block's own test, by at most `ODDS` in its probability.

Scores are whole numbers (`entropy`), so every engine and every machine grows the same tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.blocks import BlockTree, ColumnBins, Cut
from sfumato.draws import BoolArray, Draws, IntArray, Positions
from sfumato.mechanisms.buckets.entropy import UNIT, entropy, floored, times_log
from sfumato.mechanisms.buckets.settings import Limits
from sfumato.operators.base import FloatArray
from sfumato.profile import Holdings, QuasiCells

ODDS = Fraction(11, 10)  # r: what a refused cut may do to the odds of a value, at most
USUAL_LEAST = 100
MOST_BLOCKS = 1000
_ROOM = 10  # people of a block for every one that the ceilings need together
_ENOUGH, _MOST = 45, 55  # % of the people: what values make on one side


def inside_blocks(limits: Limits) -> Limits:
    """f'' = f'/(f' + r·(1 − f')): r times its odds are those of f'.

    >>> inside_blocks(Limits((Fraction(1, 5), Fraction(1)))).ceilings
    (Fraction(5, 27), Fraction(1, 1))
    """
    return Limits(tuple(top / (top + ODDS * (1 - top)) if top else top for top in limits.ceilings))


def fewest_people(holdings: Holdings, limits: Limits) -> int:
    """Of both sides of a cut: a hundred, a thousandth of all, and ten for each of Σ_x f_x/f'_x."""
    marks, needed = holdings.by_mark(holdings.counts).tolist(), [0]
    for low, high in zip(holdings.starts[:-1], holdings.starts[1:], strict=True):
        pairs = zip(marks[low:high], limits.ceilings[low:high], strict=True)
        needed.append(
            sum(
                floored(n * top.denominator, holdings.people * top.numerator)
                for n, top in pairs
                if n
            )
        )
    thousandth = -(-holdings.people // MOST_BLOCKS)
    return max(USUAL_LEAST, thousandth, -(-_ROOM * max(needed) // UNIT))


@dataclass(frozen=True, eq=False)
class Node:
    """A branch: the blocks that it has in the unrefused tree, and its cut, if one is made."""

    path: str
    first: int
    after: int
    cut: Cut | None = None
    sides: tuple[Node, Node] | None = None
    refused: bool = False

    def nodes(self) -> Iterator[Node]:
        """This one and all below, first sides before second."""
        yield self
        for side in self.sides or ():
            yield from side.nodes()

    def blocks(self) -> list[Node]:
        return [node for node in self.nodes() if node.sides is None]

    def tree(self) -> BlockTree:
        return BlockTree(tuple(node.cut for node in self.nodes()))

    def tested(self, marks: IntArray, people: IntArray, limits: Limits, draws: Draws) -> Node:
        """The same without the cuts that are refused; `marks` and `people` are by block of the
        unrefused tree.

        A cut after which a side breaks its limits is refused; one that is s exchanges away from
        that with probability r⁻ˢ.
        """
        if self.sides is None:
            return self
        held = np.stack([marks[side.first : side.after].sum(axis=0) for side in self.sides])
        sizes = np.array([people[side.first : side.after].sum() for side in self.sides])
        away = exchanges(held, sizes, limits)
        if away is not None and (away <= 0 or refused(away, self.path, draws)):
            return replace(self, cut=None, sides=None, refused=True)
        one, other = (side.tested(marks, people, limits, draws) for side in self.sides)
        return replace(self, sides=(one, other))


def exchanges(marks: IntArray, people: IntArray, limits: Limits) -> int | None:
    """s: the fewest exchanges of two people's values between two sides after which one breaks a
    limit; None where none can. `marks` are by side and mark.

    >>> half = Limits((Fraction(1, 2),) * 3)
    >>> exchanges(np.array([[4, 3, 3], [2, 5, 3]]), np.array([10, 10]), half)
    1
    >>> exchanges(np.array([[4, 3, 3], [0, 2, 2]]), np.array([10, 4]), half)
    1
    """
    allowed = limits.table(people)
    possible = np.minimum(marks.sum(axis=0), people[:, None]) > allowed
    return int((allowed - marks + 1)[possible].min()) if possible.any() else None


def refused(away: int, path: str, draws: Draws) -> bool:
    """Whether a cut that is so many exchanges away from breaking a limit is refused."""
    return bool(draws.bernoulli(f"refuse {path}", Positions(0, away), 1 / ODDS).all())


# -- the unrefused tree ----------------------------------------------------------------------------


def grow(cells: QuasiCells, least: int, columns: Sequence[str] = ()) -> tuple[Node, IntArray]:
    """The unrefused tree and the block of every cell; `columns` are those to cut, or all.

    O(cells · columns · depth), and little per node, column and bin.
    """
    chosen = [n for n, bins in enumerate(cells.columns) if not columns or bins.column in columns]
    block = np.zeros(len(cells.people), np.int64)
    everybody = _People(
        np.arange(len(block), dtype=np.int32),
        [cells.codes[n].copy() for n in chosen],
        cells.people.astype(np.float64),
    )
    by_bin = everybody.by_bin([cells.columns[n] for n in chosen])
    scored = [
        _Column(cells.columns[n], cells.weights[n], entropy(counts))
        for n, counts in zip(chosen, by_bin, strict=True)
    ]
    growing = _Growing(scored, int(cells.people.sum()), least, block)
    return growing.node(everybody, by_bin, ""), block


@dataclass(frozen=True, eq=False)
class _Column:
    bins: ColumnBins
    weight: int
    entropy: int  # N·H0, over the whole table


@dataclass(frozen=True, eq=False)
class _People:
    """Those of one branch, by cell: the bins of every column, and how many they are."""

    cells: npt.NDArray[np.int32]
    codes: list[npt.NDArray[np.uint8]]
    counts: FloatArray

    def split(self, inside: BoolArray) -> tuple[_People, _People]:
        """Those inside, then the others, in the place of all: a tree grows in what its root has."""
        first = np.flatnonzero(inside)
        order, many = np.concatenate([first, np.flatnonzero(~inside)]), len(first)
        every: list[npt.NDArray[Any]] = [self.cells, self.counts, *self.codes]
        for array in every:
            array[:] = array.take(order)
        return self._view(slice(None, many)), self._view(slice(many, None))

    def _view(self, some: slice) -> _People:
        return _People(self.cells[some], [code[some] for code in self.codes], self.counts[some])

    def by_bin(self, columns: Sequence[ColumnBins]) -> list[IntArray]:
        """People by the bins of every column, exactly: there are fewer than 2⁵³."""
        return [
            np.bincount(codes, self.counts, bins.number).astype(np.int64)
            for codes, bins in zip(self.codes, columns, strict=True)
        ]


@dataclass(eq=False)
class _Growing:
    columns: list[_Column]
    everybody: int
    least: int
    block: IntArray  # by cell, filled as blocks are found
    blocks: int = 0

    def node(self, people: _People, by_bin: list[IntArray], path: str) -> Node:
        first_block, best = self.blocks, self._best(by_bin, int(people.counts.sum()))
        if best is None:
            self.block[people.cells] = first_block
            self.blocks += 1
            return Node(path, first_block, self.blocks)
        column, first = best
        one, other = people.split(first[people.codes[column]])
        small = one if len(one.cells) < len(other.cells) else other
        counted = small.by_bin([column.bins for column in self.columns])
        rest = [whole - part for whole, part in zip(by_bin, counted, strict=True)]
        pair = (counted, rest) if small is one else (rest, counted)
        sides = self.node(one, pair[0], path + "0"), self.node(other, pair[1], path + "1")
        return Node(path, first_block, self.blocks, _cut(self.columns[column].bins, first), sides)

    def _best(self, by_bin: list[IntArray], people: int) -> tuple[int, BoolArray] | None:
        """The candidate: its column, and the bins of its first side."""
        best, highest = None, -1
        if people < 2 * self.least:
            return None
        for number, (column, counts) in enumerate(zip(self.columns, by_bin, strict=True)):
            first = _ordered_side(counts) if column.bins.values is None else _valued_side(counts)
            size = int(counts[first].sum())
            if min(size, people - size) < self.least:
                continue
            spread = floored(entropy(counts) * self.everybody, people * column.entropy)
            halved = (times_log(people) - times_log(size) - times_log(people - size)) // people
            if (score := column.weight * spread * halved) > highest:  # ties: the first column
                best, highest = (number, first), score
        return best


def _ordered_side(counts: IntArray) -> BoolArray:
    """The bins below the edge that comes nearest to halving people, the lower of two.

    >>> _ordered_side(np.array([1, 1, 0, 2])).tolist()
    [True, True, False, False]
    """
    below = np.cumsum(counts)[:-1]
    return np.arange(len(counts)) <= int(np.argmin(np.abs(2 * below - counts.sum())))


def _valued_side(counts: IntArray) -> BoolArray:
    """The commonest values, while they make at most 55 % of the people, until they make 45 %; the
    first always; what has no name, in the last bin, never.

    >>> _valued_side(np.array([5, 40, 15, 15, 25])).tolist()
    [False, True, True, False, False]
    """
    people, first, size = int(counts.sum()), np.zeros(len(counts), np.bool_), 0
    for value in np.argsort(-counts[:-1], kind="stable").tolist():
        many = int(counts[value])
        full = 100 * size >= _ENOUGH * people or 100 * (size + many) > _MOST * people
        if first.any() and full:
            break
        first[value] = True
        size += many
    return first


def _cut(bins: ColumnBins, first: BoolArray) -> Cut:
    if bins.values is None:
        return Cut(bins.column, below=bins.edges[int(first.sum()) - 1])
    return Cut(bins.column, values=tuple(bins.values[n] for n in np.flatnonzero(first).tolist()))
