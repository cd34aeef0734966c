"""Entropies as whole numbers, the same on every machine: n·log₂ n is looked up, never computed in
floats. Everything is in units of 2⁻³², and summed over people: n·H for n people."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal
from functools import cache

import numpy as np

from sfumato.draws import IntArray

UNIT = 1 << 32
_BITS = 128  # after the point; n·log₂ n is irrational but for powers of two: no floor is near
_EXACT = Context(prec=50)
_LOG_2 = _EXACT.ln(Decimal(2))
_TWICE = int(_EXACT.divide(Decimal(2 << _BITS), _LOG_2))  # 2/ln 2


@cache
def times_log(n: int) -> int:
    """L(n) = ⌊2³²·n·log₂ n⌋, and 0 for nobody.

    >>> times_log(8) == 24 * UNIT, times_log(3)
    (True, 20422086317)
    """
    if n & (n - 1) == 0:
        return max(n, 1) * max(n.bit_length() - 1, 0) * UNIT
    shift = max(n.bit_length() - 10, 0)
    low = n >> shift << shift
    power = ((n - low) << _BITS) // (n + low)
    square, above = power * power >> _BITS, 0
    for odd in range(1, 14, 2):  # log n = log low + 2·artanh((n − low)/(n + low))
        above += power // odd
        power = power * square >> _BITS
    log = _log(n >> shift) + (shift << _BITS) + (above * _TWICE >> _BITS)
    return n * log >> (_BITS - 32)


@cache
def _log(n: int) -> int:
    """log₂ n in units of 2⁻¹²⁸, of the few numbers of ten bits."""
    return int(_EXACT.divide(_EXACT.multiply(_EXACT.ln(Decimal(n)), 1 << _BITS), _LOG_2))


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
