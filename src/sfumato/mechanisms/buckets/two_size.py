"""The best setting with at most two bucket sizes (F'-privacy paper, Section 5.1).

For sizes S₁ < S₂ the settings that hold N records form a list along which the loss grows (Lemma
4, Lemma 5). The privacy constraint of each value is one linear inequality in the position, and a
part can be filled up to a largest number of buckets, so the valid positions are one interval
(errata F8): the first of them is found in O(m) per pair of sizes, whatever N is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.buckets.settings import Limits, Setting, SizedBuckets, loss, setting_of


@dataclass(frozen=True)
class PairList:
    """Γ(S₁, S₂): the pairs (b₁, b₂) with S₁b₁ + S₂b₂ = N, the smallest b₂ first (Lemma 4).

    >>> pairs = PairList.of(2, 4, 28)
    >>> [pairs.at(i) for i in range(pairs.last + 1)]
    [(14, 0), (12, 1), (10, 2), (8, 3), (6, 4), (4, 5), (2, 6), (0, 7)]
    """

    small: int
    large: int
    small_buckets: int
    large_buckets: int
    small_step: int
    large_step: int
    last: int

    @classmethod
    def of(cls, small: int, large: int, rows: int) -> PairList | None:
        """None where the sizes cannot add up to `rows` (errata F6)."""
        divisor = math.gcd(small, large)
        if rows % divisor:
            return None
        small_step, large_step = large // divisor, small // divisor
        inverse = pow(large // divisor, -1, small // divisor) if small > divisor else 0
        large_buckets = rows // divisor * inverse % (small // divisor)
        rest = rows - large * large_buckets
        if rest < 0:
            return None
        first = rest // small
        return cls(small, large, first, large_buckets, small_step, large_step, first // small_step)

    def at(self, position: int) -> tuple[int, int]:
        return (
            self.small_buckets - position * self.small_step,
            self.large_buckets + position * self.large_step,
        )

    @property
    def first_loss(self) -> int:
        return (
            self.small_buckets * (self.small - 1) ** 2 + self.large_buckets * (self.large - 1) ** 2
        )

    @property
    def loss_step(self) -> int:
        return self.large_step * (self.large - 1) ** 2 - self.small_step * (self.small - 1) ** 2


def best_two_size(counts: IntArray, limits: Limits, max_size: int) -> Setting | None:
    """The valid setting of least loss with one or two sizes up to `max_size`; None if none is.

    Cost: O(m · max_size²), independent of the number of records (Algorithm 1); where there are more
    than 200 sizes, some are looked at (`Limits.sizes`).

    >>> from fractions import Fraction as F
    >>> best_two_size(np.array([4, 4, 3, 2, 1]), Limits((F(1, 3),) * 5), 5)
    (SizedBuckets(size=3, buckets=2), SizedBuckets(size=4, buckets=2))
    """
    rows = int(counts.sum())
    if rows == 0 or limits.smallest_size > max_size:
        return () if rows == 0 else None
    sizes = limits.sizes(counts, max_size)
    allowed = limits.table(sizes)
    fillable = [most_buckets(int(s), row, counts) for s, row in zip(sizes, allowed, strict=True)]
    best: Setting | None = None
    best_loss: int | None = None
    for i, small in enumerate(sizes.tolist()):
        # even buckets of one size S cost N (S−1)²/S, and larger sizes cost more (errata F7)
        if best_loss is not None and rows * (small - 1) ** 2 >= best_loss * small:
            break
        if _single_is_valid(small, allowed[i], counts, rows):
            single = (SizedBuckets(small, rows // small),)
            if best_loss is None or loss(single) < best_loss:
                best, best_loss = single, loss(single)
        for j in range(i + 1, len(sizes)):
            large = int(sizes[j])
            pairs = PairList.of(small, large, rows)
            if pairs is None:
                continue
            last = pairs.last
            if best_loss is not None:  # errata F7: only strictly smaller losses are of use
                last = min(last, (best_loss - pairs.first_loss - 1) // pairs.loss_step)
            position = _first_valid(
                pairs, last, counts, allowed[i], allowed[j], fillable[i], fillable[j]
            )
            if position is not None:
                best = setting_of((small, large), pairs.at(position))
                best_loss = loss(best)
    return best


def most_buckets(size: int, allowed: IntArray, counts: IntArray) -> int:
    """The largest b with Σ_x min(⌊f'_x S⌋ b, o_x) ≥ S b: concave in b, so every smaller b fills.

    >>> most_buckets(4, np.array([1, 1, 2]), np.array([1, 3, 9]))
    1
    """
    low, high = 0, int(counts.sum()) // size
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.minimum(allowed * middle, counts).sum()) >= size * middle:
            low = middle
        else:
            high = middle - 1
    return low


def _single_is_valid(size: int, allowed: IntArray, counts: IntArray, rows: int) -> bool:
    return rows % size == 0 and bool((counts <= allowed * (rows // size)).all())  # Lemma 2 (4)


def _first_valid(
    pairs: PairList,
    last: int,
    counts: IntArray,
    small_allowed: IntArray,
    large_allowed: IntArray,
    small_most: int,
    large_most: int,
) -> int | None:
    """The first position up to `last` that Theorem 3 accepts (Theorem 4, errata F8)."""
    # fill constraints: b₁ ≤ small_most, b₂ ≤ large_most
    first = max(0, -(-(pairs.small_buckets - small_most) // pairs.small_step))
    last = min(last, pairs.last, (large_most - pairs.large_buckets) // pairs.large_step)
    if first > last:
        return None
    # privacy of x at position i: need_x ≤ i · gain_x
    need = counts - small_allowed * pairs.small_buckets - large_allowed * pairs.large_buckets
    gain = large_allowed * pairs.large_step - small_allowed * pairs.small_step
    if bool(((gain == 0) & (need > 0)).any()):
        return None
    up, down = gain > 0, gain < 0
    if up.any():
        first = max(first, int((-(-need[up] // gain[up])).max()))
    if down.any():
        last = min(last, int((-need[down] // -gain[down]).min()))
    return first if first <= last else None
