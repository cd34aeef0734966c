"""Entropies as whole numbers, the same on every machine: n·log₂ n is looked up, never computed in
floats. Everything is in units of 2⁻³², and summed over people: n·H for n people."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal
from functools import cache

import numpy as np

from sfumato.draws import IntArray

UNIT = 1 << 32
_EXACT = Context(prec=40)  # n·log₂ n is irrational but for powers of two: no floor is near
_LOG_2 = _EXACT.ln(Decimal(2))


@cache
def times_log(n: int) -> int:
    """L(n) = ⌊2³²·n·log₂ n⌋, and 0 for nobody.

    >>> times_log(8) == 24 * UNIT, times_log(3)
    (True, 20422086317)
    """
    if n & (n - 1) == 0:
        return max(n, 1) * max(n.bit_length() - 1, 0) * UNIT
    return int(_EXACT.divide(_EXACT.multiply(_EXACT.ln(Decimal(n)), Decimal(n * UNIT)), _LOG_2))


def entropy(counts: Iterable[int] | IntArray) -> int:
    """n·H of people in bins.

    >>> entropy([2, 2]) // UNIT
    4
    """
    people = counts.tolist() if isinstance(counts, np.ndarray) else list(counts)
    return times_log(sum(people)) - sum(map(times_log, people))


def information(joint: IntArray) -> int:
    """n·I of two columns, from people by the bins of both."""
    alone = sum(sum(map(times_log, joint.sum(axis=axis).tolist())) for axis in (0, 1))
    both = sum(map(times_log, joint.reshape(-1).tolist()))
    return max(times_log(int(joint.sum())) + both - alone, 0)


def floored(part: int, whole: int) -> int:
    """A quotient, rounded down to 2⁻³²."""
    return part * UNIT // whole
