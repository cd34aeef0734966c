"""What the tree of local buckets tells a reader who knows how it grows: by going through all tables.

Four groups of `people` each, told apart by two quasi columns; three sensitive values; every table
equally likely, so the reader knows no link. l = 2. The release shows the tree and the buckets, pairs
with two different values each; who of a pair has which is a coin. So without knowing how trees grow,
each of the two is believed with 1/2, the ceiling. Whoever knows it leaves out the tables that would
have been cut otherwise.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from sfumato.mechanisms.buckets.settings import Limits
from sfumato.mechanisms.buckets.tree import Room, grow
from sfumato.profile import BinnedCounts, ColumnBins

VALUES = 3
CEILING = Fraction(1, 2)
CELLS = ((0, 0), (0, 1), (1, 0), (1, 1))
COLUMNS = (ColumnBins("a", edges=(1.0,)), ColumnBins("b", edges=(1.0,)))

Table = tuple[tuple[int, ...], ...]  # by cell, the values of its people in order


@dataclass(frozen=True)
class Told:
    """Over all tables and deals: how many are cut, and what is believed of people's own values."""

    cut: float
    believed: float  # on average over people and deals, the larger of the two chances
    above: float  # the share of people of whom a value is believed above its ceiling

    def shares(self) -> tuple[str, str, str]:
        return f"{self.believed:.4f}", f"{float(CEILING):.4f}", f"{self.above:.1%}"


def what_the_tree_tells(people: int, rounded: int, deals: int = 300) -> Told:
    """The tables that are looked at are drawn, every deal's possible tables gone through."""

    @cache
    def tree(cells: Table) -> tuple[object, ...]:
        counted = [Counter(cell) for cell in cells]
        entries = [
            (*CELLS[place], value, number)
            for place, cell in enumerate(counted)
            for value, number in sorted(cell.items())
        ]
        a, b, value, number = (np.array(column) for column in zip(*entries, strict=True))
        codes = (a.astype(np.uint8), b.astype(np.uint8))
        binned = BinnedCounts(COLUMNS, codes, value, number)
        room = Room(Limits((CEILING,) * VALUES), Fraction(17, 20), 2 * people, rounded)
        return grow(binned, VALUES, room).tree().cuts

    rng = np.random.default_rng(people)
    cut = looked = above = 0
    believed = 0.0
    while looked < deals:
        held = rng.integers(0, VALUES, (4, people))
        cuts = tree(_table(held))
        cut += len(cuts) > 1
        pairs = _pairs(held, cuts, rng)
        if pairs is None:  # no two different values for everybody: the promise cannot be kept
            cut -= len(cuts) > 1
            continue
        looked += 1
        possible = np.zeros(len(pairs))
        tables = 0
        for swapped in itertools.product((False, True), repeat=len(pairs)):
            other = held.copy()
            for (one, two), swap in zip(pairs, swapped, strict=True):
                if swap:
                    other[one], other[two] = held[two], held[one]
            if tree(_table(other)) == cuts:
                tables += 1
                possible += swapped
        chance = np.maximum(possible / tables, 1 - possible / tables)
        believed += float(chance.mean())
        above += float((chance > float(CEILING)).mean())
    return Told(cut / looked, believed / looked, above / looked)


def _table(held: np.ndarray) -> Table:
    return tuple(tuple(sorted(cell)) for cell in held.tolist())


def _pairs(
    held: np.ndarray, cuts: tuple[object, ...], rng: np.random.Generator
) -> list[tuple[tuple[int, int], tuple[int, int]]] | None:
    """Everybody in pairs with two different values, inside blocks: dealt as buckets are."""
    blocks: dict[int, list[tuple[int, int]]] = {}
    for cell in range(4):
        block = _block(cell, cuts)
        blocks.setdefault(block, []).extend((cell, n) for n in range(held.shape[1]))
    found = []
    for members in blocks.values():
        mixed = [members[n] for n in rng.permutation(len(members))]
        # by value, the commonest first: the k-th meets the one half the line on
        line = sorted(
            mixed, key=lambda m: (-int((_values(held, members) == held[m]).sum()), held[m])
        )
        half = len(line) // 2
        pairs = list(zip(line[:half], line[half:], strict=False))
        if len(line) % 2 or any(held[one] == held[two] for one, two in pairs):
            return None
        found += pairs
    return found


def _values(held: np.ndarray, members: list[tuple[int, int]]) -> np.ndarray:
    return np.array([held[m] for m in members])


def _block(cell: int, cuts: tuple[object, ...]) -> int:
    from sfumato.blocks import BlockTree, Cut

    tree = BlockTree(tuple(cut if isinstance(cut, Cut) else None for cut in cuts))
    codes = {name: np.array([CELLS[cell][n]]) for n, name in enumerate("ab")}
    return int(tree.walk(1, codes, lambda cut: np.array([True, False]))[0])
