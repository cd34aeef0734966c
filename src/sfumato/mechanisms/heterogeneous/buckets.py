"""Buckets of equal size, from the sensitive histogram alone (Algorithms 1 and 3, corrected).

A record takes one match from every bucket, so a value that lies in |B_x| of μ buckets is at most
|B_x|/μ of anybody's matches. All decisions are exact: integers and fractions, no floats.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.heterogeneous.packing import whole_groups

MOST_WITHHELD = Fraction(1, 200)  # of the records, for a packing that splits no value


@dataclass(frozen=True, eq=False)
class Buckets:
    """`counts[b, x]` records with value x go into bucket b; `withheld[x]` are not published."""

    counts: IntArray
    withheld: IntArray

    @property
    def number(self) -> int:
        """μ: how many matches every record gets."""
        return len(self.counts)

    @property
    def size(self) -> int:
        """c: records in each bucket."""
        return int(self.counts[0].sum())

    @property
    def spread(self) -> IntArray:
        """|B_x|: in how many buckets each value lies."""
        return np.asarray((self.counts > 0).sum(axis=0), np.int64)

    def attained_beta(self) -> Fraction:
        """max |B_x|·n/(μ·n_x) − 1 over the values, n with and without what is withheld (H9, H10).

        >>> three = likeness_fill(np.array([6, 7, 12]), 5)
        >>> three.attained_beta()
        Fraction(2, 3)
        """
        published = self.counts.sum(axis=0)
        worst = Fraction(0)
        for totals in (published, published + self.withheld):
            rows = int(totals.sum())
            for spread, total in zip(self.spread.tolist(), totals.tolist(), strict=True):
                if spread:
                    worst = max(worst, Fraction(spread * rows, self.number * total))
        return worst - 1

    def check(self) -> None:
        assert (self.counts >= 0).all(), self.counts
        assert (self.counts.sum(axis=1) == self.size).all(), self.counts.sum(axis=1)


def withhold(counts: IntArray, number: int) -> IntArray:
    """How many records of each value to leave out: always one of the commonest (H9).

    >>> withhold(np.array([6, 7, 12]), 1).tolist()
    [0, 0, 1]
    """
    taken = np.zeros(len(counts), np.int64)
    heap = [(-int(count), code) for code, count in enumerate(counts) if count]
    heapq.heapify(heap)
    for _ in range(number):
        negative, code = heapq.heappop(heap)
        taken[code] += 1
        heapq.heappush(heap, (negative + 1, code))
    return taken


# -- ℓ-diversity ----------------------------------------------------------------------------


def diversity_buckets(counts: IntArray, number: int) -> Buckets:
    """ℓ buckets for a histogram whose commonest value has at most ⌊N/ℓ⌋ records.

    First the packing that keeps every value in one bucket: then no match set can show a value
    twice. Where it would withhold more than `MOST_WITHHELD` of the records, Algorithm 1 splits
    some values over two buckets instead.
    """
    rows = int(counts.sum())
    assert int(counts.max()) <= rows // number, "not eligible"
    packed = whole_packing(counts, number)
    if packed is not None and packed.withheld.sum() <= max(number - 1, MOST_WITHHELD * rows):
        return packed
    withheld = withhold(counts, rows % number)
    return Buckets(diversity_fill(counts - withheld, number), withheld)


def diversity_fill(counts: IntArray, number: int) -> IntArray:
    """Algorithm 1: the ℓ commonest values one bucket each, the rest into the emptiest (H6).

    Table 4 of the paper:

    >>> diversity_fill(np.array([3, 3, 3, 2, 2, 2]), 5)[3:].tolist()
    [[0, 0, 0, 2, 0, 1], [0, 0, 0, 0, 2, 1]]
    """
    size = int(counts.sum()) // number
    table = np.zeros((number, len(counts)), np.int64)
    order = np.argsort(-counts, kind="stable")
    for bucket, code in enumerate(order[:number]):
        table[bucket, code] = counts[code]
    room = size - table.sum(axis=1)
    for code in order[number:]:
        left = int(counts[code])
        while left:
            bucket = int(np.argmax(room))
            placed = min(left, int(room[bucket]))
            table[bucket, code] += placed
            room[bucket] -= placed
            left -= placed
    return table


def whole_packing(counts: IntArray, number: int) -> Buckets | None:
    """Every value whole in one bucket; what a bucket has above the smallest is withheld.

    None where some bucket would stay empty.

    >>> whole_packing(np.array([5, 4, 3, 3, 3]), 2).counts.tolist()
    [[5, 4, 0, 0, 0], [0, 0, 3, 3, 3]]
    """
    groups = whole_groups(counts, number)
    sums = [int(counts[group].sum()) for group in groups]
    if min(sums) == 0:
        return None
    table = np.zeros((number, len(counts)), np.int64)
    withheld = np.zeros(len(counts), np.int64)
    for bucket, group in enumerate(groups):
        table[bucket, group] = counts[group]
        surplus = withhold(table[bucket], sums[bucket] - min(sums))
        table[bucket] -= surplus
        withheld += surplus
    return Buckets(table, withheld)


# -- β-likeness -----------------------------------------------------------------------------


def likeness_buckets(counts: IntArray, beta: Fraction) -> Buckets:
    """The fewest matches that keep β-likeness: ℓ-diversity where it suffices (Theorem 4 as
    corrected in H17), else the largest bucket size whose fill keeps |B_x| ≤ (1+β) f_x μ.

    The search ends at the GCD of the counts at the latest: its buckets are pure, β = 0.

    >>> likeness_buckets(np.array([6, 7, 12]), Fraction(2, 3)).size
    5
    """
    present = counts[counts > 0]
    divisor = math.gcd(*present.tolist())
    if beta > 0:
        short = _shortcut(counts, beta)
        if short is not None:
            return short
        # no size above (1+β)·min n_x can work: a value needs one bucket at least
        largest = min(int(present.max()), math.floor((1 + beta) * int(present.min())))
        for size in range(largest, divisor, -1):
            for fill in (likeness_fill, descending_fill, frequent_split_fill):
                buckets = fill(counts, size, beta)
                if buckets is not None:
                    return buckets
    return Buckets(_sequential(counts, range(len(counts)), divisor), np.zeros_like(counts))


def _shortcut(counts: IntArray, beta: Fraction) -> Buckets | None:
    present = counts[counts > 0]
    rows = int(counts.sum())
    fewest = max(1, math.ceil(Fraction(rows) / ((1 + beta) * int(present.min()))))
    most = rows // int(present.max())
    for number in range(fewest, min(most, fewest + 3) + 1):
        buckets = diversity_buckets(counts, number)
        if buckets.attained_beta() <= beta:
            return buckets
    return None


def sequential_spread(ordered: IntArray, size: int) -> IntArray:
    """|B_x| when the values fill buckets of `size` one after the other (H14).

    >>> sequential_spread(np.array([6, 7, 12]), 5).tolist()
    [2, 2, 3]
    """
    before = np.cumsum(ordered) - ordered
    return np.where(ordered > 0, (before + ordered - 1) // size - before // size + 1, 0)


def equation_7(ordered: IntArray, size: int) -> Fraction:
    """The beta that this order attains with buckets of `size`: c / min(n_x / |B_x|) − 1, without
    the ceiling that Algorithm 3 takes (H10).

    >>> [str(equation_7(np.array([6, 7, 12]), size)) for size in (4, 5, 6)]
    ['5/7', '2/3', '5/7']
    """
    spread = sequential_spread(ordered, size)
    pairs = zip(ordered.tolist(), spread.tolist(), strict=True)
    return size / min(Fraction(count, buckets) for count, buckets in pairs) - 1


def likeness_fill(
    counts: IntArray, size: int, beta: Fraction | None = None, *, descending: bool = False
) -> Buckets | None:
    """Values in ascending order of support, one bucket filled after the other (H12).

    None where that does not keep `beta` (None asks for the buckets as they come). O(m) to refuse
    (H14), so that every size can be tried.
    """
    withheld = withhold(counts, int(counts.sum()) % size)
    left = counts - withheld
    order = np.argsort(-left if descending else left, kind="stable")
    ordered = left[order]
    spread = sequential_spread(ordered, size)
    if beta is not None and not _plausible(counts[order], ordered, spread, size, beta):
        return None
    return _kept(Buckets(_sequential(left, order.tolist(), size), withheld), beta)


def descending_fill(counts: IntArray, size: int, beta: Fraction | None = None) -> Buckets | None:
    """The order that the paper's text names (H12)."""
    return likeness_fill(counts, size, beta, descending=True)


def _plausible(
    counts: IntArray, left: IntArray, spread: IntArray, size: int, beta: Fraction
) -> bool:
    """A quick look in floats that never refuses what is exactly right; `_kept` decides."""
    number = left.sum() / size
    limit = (1 + float(beta)) * (1 + 1e-9) * number
    shares = np.minimum(counts / counts.sum(), left / left.sum())
    return bool((spread <= limit * shares).all())


def _kept(buckets: Buckets, beta: Fraction | None) -> Buckets | None:
    return buckets if beta is None or buckets.attained_beta() <= beta else None


def _sequential(counts: IntArray, order: Sequence[int], size: int) -> IntArray:
    table = np.zeros((int(counts.sum()) // size, len(counts)), np.int64)
    start = 0
    for code in order:
        end = start + int(counts[code])
        for bucket in range(start // size, -(-end // size)):
            table[bucket, code] = min(end, (bucket + 1) * size) - max(start, bucket * size)
        start = end
    return table


def frequent_split_fill(counts: IntArray, size: int, beta: Fraction) -> Buckets | None:
    """Values that can afford no further bucket go in whole pieces, best fit, largest first; the
    others fill the gaps in turn (H12, end). None where that does not keep `beta`.
    """
    withheld = withhold(counts, int(counts.sum()) % size)
    left = counts - withheld
    number = int(left.sum()) // size
    share = [
        min(Fraction(int(o), int(counts.sum())), Fraction(int(p), int(left.sum())))
        for o, p in zip(counts, left, strict=True)
    ]
    allowed = [math.floor((1 + beta) * f * number) for f in share]
    order = [code for code in np.argsort(left, kind="stable").tolist() if left[code]]
    if any(allowed[code] * size < left[code] for code in order):
        return None
    table = np.zeros((number, len(counts)), np.int64)
    room = np.full(number, size, np.int64)
    tight = [code for code in order if allowed[code] * size <= left[code] + size]
    for code in reversed(tight):
        whole, rest = divmod(int(left[code]), size)
        for piece in [size] * whole + [rest] * (rest > 0):
            fitting = np.flatnonzero(room >= piece)
            if not len(fitting):
                return None
            bucket = fitting[np.argmin(room[fitting])]
            table[bucket, code] += piece
            room[bucket] -= piece
    gaps = [bucket for bucket in np.argsort(room, kind="stable").tolist() if room[bucket]]
    place = 0
    for code in (code for code in order if code not in set(tight)):
        need = int(left[code])
        while need:
            bucket = gaps[place]
            placed = min(need, int(room[bucket]))
            table[bucket, code] += placed
            room[bucket] -= placed
            need -= placed
            place += int(room[bucket] == 0)
    return _kept(Buckets(table, withheld), beta)
