"""The largest share of a value among what belongs to one person, row or group: exactly.

Counted over everybody and every value, in integers; compared with the ceilings as fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.draws import IntArray

_AT_ONCE = 1 << 22  # values that are counted together


@dataclass(frozen=True)
class LargestShare:
    """Where a value is largest against its ceiling, and how many owners are above one."""

    share: Fraction
    ceiling: Fraction
    value: int
    owner: int
    broken: int  # owners with some value above its ceiling
    differ: int  # owners whose values all differ

    @property
    def ratio(self) -> Fraction | None:
        """The share over its ceiling; None for a value that may not occur at all."""
        return self.share / self.ceiling if self.ceiling else None


def largest_share(starts: IntArray, values: IntArray, ceilings: Sequence[Fraction]) -> LargestShare:
    """Owner i has `values[starts[i]:starts[i + 1]]`; a negative value is never allowed.

    >>> found = largest_share(np.array([0, 3, 5]), np.array([0, 1, 1, 0, 1]), [Fraction(1, 2)] * 2)
    >>> found.share, found.value, found.owner, found.broken, found.differ
    (Fraction(2, 3), 1, 0, 1, 1)
    """
    limits = [*ceilings, Fraction(0)]
    codes = np.where(values < 0, len(ceilings), values)
    worst: LargestShare | None = None
    broken = differ = 0
    first = 0
    while first < len(starts) - 1:
        last = int(np.searchsorted(starts, starts[first] + _AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), len(starts) - 1)
        sizes = np.diff(starts[first : last + 1])
        owner = np.repeat(np.arange(last - first), sizes)
        pairs = owner * len(limits) + codes[starts[first] : starts[last]]
        pair, count = np.unique(pairs, return_counts=True)
        owner, value = np.divmod(pair, len(limits))
        differ += int((sizes == np.bincount(owner, minlength=len(sizes))).sum())
        # few combinations of count, size and value come up: those are compared as fractions
        kinds, where, kind = np.unique(
            np.stack([count, sizes[owner], value]), axis=1, return_index=True, return_inverse=True
        )
        above = np.zeros(kinds.shape[1], np.bool_)
        for place, (times, size, code) in enumerate(kinds.T.tolist()):
            share = Fraction(times, size)
            above[place] = share > limits[code]
            if worst is None or share * worst.ceiling > worst.share * limits[code]:
                at = first + int(owner[where[place]])
                worst = LargestShare(share, limits[code], code, at, 0, 0)
        broken += len(np.unique(owner[above[kind.reshape(-1)]]))
        first = last
    if worst is None:
        return LargestShare(Fraction(0), Fraction(1), 0, 0, 0, 0)
    return LargestShare(worst.share, worst.ceiling, worst.value, worst.owner, broken, differ)
