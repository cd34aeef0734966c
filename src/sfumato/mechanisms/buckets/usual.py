"""Usual conditions on quasi columns, drawn as the papers draw their questions (`workloads`).

Every other one has one to three columns equal a value each, the others three columns in a range.
What a tree of cuts is worth is what counts within them will be off by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.draws import Draws, IntArray, Positions
from sfumato.mechanisms.buckets.tree import CellArray
from sfumato.operators.base import FloatArray
from sfumato.profile import BinnedCounts, ColumnBins

PartArray = npt.NDArray[np.float32]

_CONDITIONS = 96
_TRIES = 8  # until a condition is met by `_PEOPLE`
_PEOPLE = 50
_CELLS = 1 << 19  # that are looked at
_NUMBERS = 1 << 23  # counts by (block, condition, value) that are held
_COLUMNS = 3  # at most, in a condition
_SELECTED = 0.25  # θ of ranges: the share of records that would qualify, were all uniform


@dataclass(frozen=True, eq=False)
class UsualConditions:
    """`met` has the cells of each condition, of every `step`th cell, and how much of them it takes.

    Every second condition, from the second on, asks for ranges.
    """

    binned: BinnedCounts
    met: tuple[tuple[CellArray, PartArray], ...]
    step: int

    @classmethod
    def of(cls, binned: BinnedCounts) -> UsualConditions:
        """Drawn the same each time: nothing about them is secret, and plans must repeat."""
        step = max(1, -(-len(binned.counts) // _CELLS))
        counts, codes = binned.counts[::step], [each[::step] for each in binned.codes]
        draws = Draws.from_seed(0).child("usual conditions")
        met = []
        for number in range(_CONDITIONS if codes else 0):
            for attempt in range(_TRIES):
                own = draws.child(f"{number} {attempt}")
                cells, part = _drawn(binned.columns, codes, number % 2 == 1, own)
                if step * float(counts[cells] @ part) >= _PEOPLE:
                    break
            met.append(((cells * step).astype(np.int32), part.astype(np.float32)))
        return cls(binned, tuple(met), step)

    def inside(self, block: IntArray, counts: IntArray) -> FloatArray:
        """People by (block, condition, value), for the block of every cell.

        `counts` are all people by (block, value): where some cells are looked at, these stand for
        the others of their block and value.
        """
        blocks, values = counts.shape
        at, size = block * values + self.binned.values, counts.size
        fewer = self.met[: max(1, _NUMBERS // max(size, 1))]
        every = np.arange(0, len(at), self.step)
        looked = np.bincount(at[every], self.binned.counts[every], minlength=size)
        stands = np.divide(counts.reshape(-1), looked, out=np.zeros(size), where=looked > 0)
        found = np.empty((blocks, len(fewer), values))
        for number, (cells, part) in enumerate(fewer):
            held = np.bincount(at[cells], self.binned.counts[cells] * part, minlength=size)
            found[:, number] = (held * stands).reshape(blocks, values)
        return found


def loose(inside: FloatArray, people: FloatArray | float) -> FloatArray:
    """a(1 − a) by condition, a being the share of these people who satisfy it."""
    share = inside.sum(axis=-1) / people
    return np.asarray(np.maximum(share * (1 - share), 0.0))


def let_through(inside: FloatArray, counts: IntArray) -> FloatArray:
    """By block: how much of its variance usual conditions let through, over what they let through
    of buckets that mix all people."""
    whole = loose(inside.sum(axis=0), max(float(counts.sum()), 1.0))
    some = whole > 0
    if not some.any():
        return np.ones(len(counts))
    own = loose(inside, np.maximum(counts.sum(axis=1), 1)[:, None].astype(np.float64))
    return np.asarray((own[:, some] / whole[some]).mean(axis=1))


def _drawn(
    columns: Sequence[ColumnBins],
    codes: Sequence[npt.NDArray[np.uint8]],
    ranges: bool,
    draws: Draws,
) -> tuple[IntArray, FloatArray]:
    """The cells that satisfy a condition, and how much of each does."""
    most = min(_COLUMNS, len(columns))
    many = most if ranges else 1 + int(draws.below("columns", Positions(0, 1), most)[0])
    cells, part = np.empty(0, np.int64), np.empty(0)
    for number, place in enumerate(draws.choose("which", len(columns), many).tolist()):
        asked = _asked(columns[place], ranges, many, draws.child(str(place)))
        code = codes[place][cells] if number else codes[place]
        kept = np.flatnonzero((asked > 0)[code])
        taken = asked[code[kept]]
        cells, part = (cells[kept], part[kept] * taken) if number else (kept, taken)
    return cells, part


def stretch(domain: int, columns: int) -> int:
    """How many of a column's values a range takes, so that a share θ of all would qualify."""
    return max(1, round(domain * float(_SELECTED ** (1 / (columns + 1)))))


def _asked(bins: ColumnBins, ranges: bool, many: int, draws: Draws) -> FloatArray:
    """How much of each bin a condition asks for: a value of one, or a stretch of them.

    A stretch begins and ends somewhere inside a bin of several numbers: half of it, on average.
    """
    number = bins.number if bins.values is None else len(bins.values)
    length = stretch(number, many) if ranges else 1
    first = int(draws.below("first", Positions(0, 1), number - length + 1)[0])
    found, one = np.zeros(bins.number), _one_number(bins)
    found[first : first + length] = 1.0
    if not ranges:
        return np.asarray(found * one)
    for end in (first, first + length - 1):
        found[end] = 1.0 if one[end] == 1 else 0.5
    return found


def _one_number(bins: ColumnBins) -> FloatArray:
    """How much of each bin is a single number or value; halves where numbers are not whole.

    >>> _one_number(ColumnBins("age", edges=(20.0, 21.0, 25.0))).tolist()
    [0.4, 1.0, 0.25, 0.4]
    """
    widths = np.diff(bins.edges)
    if bins.values is not None or not len(widths):
        return np.ones(bins.number)
    if not all(float(edge).is_integer() for edge in bins.edges):
        return np.full(bins.number, 0.5)
    outer = 1 / float(widths.mean())  # the first and the last have no other end
    return np.concatenate([[outer], 1 / widths, [outer]])
