"""What the tree of local buckets tells a reader who knows how it grows: all tables gone through.

Four groups of `people` each, told apart by two quasi columns; three sensitive values; every table
equally likely, so the reader knows no link. l = 2. The release shows the tree and the buckets,
pairs with two different values each; who of a pair has which is a coin. So without knowing how
trees grow, each of the two is believed with 1/2, the ceiling. Whoever knows it leaves out the
tables that would have been cut otherwise. Tables that are cut are looked at, with slack 1.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from unittest import mock

import numpy as np
import pyarrow as pa

from sfumato.blocks import BlockTree, ColumnBins, Cut
from sfumato.mechanisms.buckets import tree as growing
from sfumato.mechanisms.buckets.settings import Limits
from sfumato.mechanisms.buckets.tree import Room, grow
from sfumato.profile import BinnedCounts, Histogram, Holdings

VALUES = 3
CEILING = Fraction(1, 2)
CELLS = ((0, 0), (0, 1), (1, 0), (1, 1))
COLUMNS = (ColumnBins("a", edges=(1.0,)), ColumnBins("b", edges=(1.0,)))

Table = tuple[tuple[int, ...], ...]  # by cell, the values of its people in order


@dataclass(frozen=True)
class Told:
    """What is believed of people in tables that are cut."""

    cut: float  # the share of tables that are
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
            (*CELLS[index], value, number)
            for index, cell in enumerate(counted)
            for value, number in sorted(cell.items())
        ]
        a, b, value, number = (np.array(column) for column in zip(*entries, strict=True))
        codes = (a.astype(np.uint8), b.astype(np.uint8))
        binned = BinnedCounts(COLUMNS, codes, value, number)
        whole = Histogram("s", tuple(range(VALUES)), np.bincount(value, number, VALUES).astype(int))
        limits = Limits((CEILING,) * VALUES)
        room = Room(Holdings.one(whole), limits, Fraction(1), 2 * people, rounded)
        # so few people fill few buckets, and cuts are worth little to them
        with mock.patch.multiple(growing, FEWEST=1, CUT=0.0, CARE=0.0):
            return grow(binned, room).tree().cuts

    rng = np.random.default_rng(people)
    cut = tried = 0
    above = believed = 0.0
    while cut < deals and tried < 100 * deals:
        held = rng.integers(0, VALUES, (4, people))
        cuts = tree(_table(held))
        pairs = _pairs(held, cuts, rng)
        if pairs is None:  # no two different values for everybody: the promise cannot be kept
            continue
        tried += 1
        if len(cuts) == 1:
            continue
        cut += 1
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
    return Told(cut / tried, believed / max(cut, 1), above / max(cut, 1))


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
        common = Counter(int(held[m]) for m in members)
        line = sorted(mixed, key=lambda m: (-common[int(held[m])], held[m]))
        half = len(line) // 2
        pairs = list(zip(line[:half], line[half:], strict=False))
        if len(line) % 2 or any(held[one] == held[two] for one, two in pairs):
            return None
        found += pairs
    return found


def _block(cell: int, cuts: tuple[object, ...]) -> int:
    tree = BlockTree(tuple(cut if isinstance(cut, Cut) else None for cut in cuts))
    return int(tree.numbers(pa.table({name: [CELLS[cell][n]] for n, name in enumerate("ab")}))[0])
