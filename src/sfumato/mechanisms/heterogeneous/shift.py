"""Handing out the sensitive values by one bucket shift per block (errata H1).

Every row of class b takes the value of its match in bucket b + x. The μ shifts are μ disjoint
perfect matchings, each edge lies in exactly one of them, so each match is equally likely; and the
rows that any one record matches carry one value out of every bucket.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.draws import Draws, IntArray, Positions


def shifted(blocks: Sequence[IntArray], draws: Draws) -> IntArray:
    """The record whose value each row shows, for blocks of `members[b, r, k]`.

    >>> members = np.array([[[0, 2], [1, 3]], [[1, 2], [0, 3]]])
    >>> sorted(shifted([members], Draws.from_seed(1)).tolist())
    [0, 1, 2, 3]
    """
    shown = []
    for place, members in enumerate(blocks):
        number = len(members)
        (shift,) = draws.below("shift", Positions(place, 1), number)
        classes = np.arange(number)
        shown.append(members[classes, :, (classes + shift) % number].ravel())
    return np.concatenate(shown)
