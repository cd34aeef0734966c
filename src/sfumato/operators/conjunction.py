"""Conditions on several columns of ranges and sets: how columns hang together inside records.

A record shows every column by itself, so the product of its shares takes columns as independent
inside it. Over the records they are not: with a and b the shares of two conditions, Σab, Σa(1 − b)
… are a table with an odds ratio ψ. Inside a record columns are taken to hang together as much: of
its people the share p satisfies both, with p(1 − a − b + p) = ψ(a − p)(b − p) (Plackett). The table
is counted again with p, until ψ stands. Of more than two conditions the product is multiplied by
p/(ab) of every pair, and ends where pairs and single conditions end.

Records of one group show the same, and groups are cut out along columns: what lies between them is
how they were cut. There the product stays.

The guess is off. A unit of log odds ratio between two columns moves the count by Σ a(1 − a)b(1 − b)
inside records. And the share of one column inside what is shown may depend on the other, which
between records moves the count by Σ a(1 − a)(b − b̄)b; by as much of a unit as the column is blurred
(`blur`), since what is shown narrowly leaves little to depend. Each pair is off by one unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from sfumato.operators.base import FloatArray

_ROUNDS = 15
_SETTLED = 1e-3
_MOST = 6.0  # log odds: beyond, columns determine each other
_TINY = 1e-12


def multiplied(shares: Sequence[FloatArray], number: int) -> FloatArray:
    """The product of shares, by record; 1 where there are none."""
    found = np.ones(number)
    for each in shares:
        found = found * each
    return found


def both(first: FloatArray, second: FloatArray, log_odds: float) -> FloatArray:
    """The share that satisfies both of two conditions, by record.

    >>> half = np.array([0.5])
    >>> [round(float(both(half, half, lam)[0]), 3) for lam in (-2.0, 0.0, 2.0)]
    [0.134, 0.25, 0.366]
    """
    ratio = float(np.exp(log_odds))
    if abs(ratio - 1) < 1e-6:
        return first * second
    middle = 1 + (first + second) * (ratio - 1)
    root = np.sqrt(np.maximum(middle**2 - 4 * ratio * (ratio - 1) * first * second, 0.0))
    return np.asarray((middle - root) / (2 * (ratio - 1)))


def log_odds_between(first: FloatArray, second: FloatArray) -> float:
    """The log odds ratio of two conditions over the records, if it is the same inside them."""
    open_ = (first > 0) & (first < 1) & (second > 0) & (second < 1)
    a, b = first[open_], second[open_]
    settled = float((first[~open_] * second[~open_]).sum())
    number, one, other = len(first), float(first.sum()), float(second.sum())

    def counted(log_odds: float) -> float:
        """The log odds ratio of the table, if it is so inside records."""
        with_both = settled + float(both(a, b, log_odds).sum())
        table = (with_both, number - one - other + with_both, one - with_both, other - with_both)
        # half a person more in each, as ever with odds ratios of counts
        yes, no, first_only, second_only = np.log(np.maximum(table, 0.0) + 0.5)
        return float(np.clip(yes + no - first_only - second_only, -_MOST, _MOST))

    found = 0.0
    for _ in range(_ROUNDS):  # two steps, and where they lead to (Aitken)
        step = counted(found)
        if abs(step - found) < _SETTLED:
            return step
        second_step = counted(step)
        bend = second_step - 2 * step + found
        ahead = found - (step - found) ** 2 / bend if abs(bend) > _TINY else second_step
        found = float(np.clip(ahead, -_MOST, _MOST))
    return found


def conjunction(shares: Sequence[FloatArray], number: int, *, grouped: bool) -> FloatArray:
    """The share of each of `number` records that satisfies all conditions.

    >>> a = np.array([0.9, 0.5, 0.1])
    >>> conjunction([a, a], 3, grouped=True).round(2).tolist()
    [0.81, 0.25, 0.01]
    >>> conjunction([a, a], 3, grouped=False).round(2).tolist()
    [0.83, 0.34, 0.03]
    """
    product = multiplied(shares, number)
    if grouped or len(shares) < 2:
        return product
    most = np.min(shares, axis=0)
    least = np.maximum(np.sum(shares, axis=0) - (len(shares) - 1), 0.0)
    found = product
    for first, second in combinations(shares, 2):
        pair = both(first, second, log_odds_between(first, second))
        found = found * np.divide(
            pair, first * second, out=np.ones(number), where=first * second > _TINY
        )
        most = np.minimum(most, pair)
    return np.asarray(np.clip(found, least, np.maximum(most, least)))


def pairs_off(shares: Sequence[FloatArray], number: int) -> float:
    """The variance of a count if every pair of columns is off by a unit of log odds ratio."""
    found = 0.0
    for i, j in combinations(range(len(shares)), 2):
        a, b = shares[i], shares[j]
        rest = multiplied([each for k, each in enumerate(shares) if k not in (i, j)], number)
        inside = float((a * (1 - a) * b * (1 - b) * rest).sum())
        between = _depending(a, b, rest) + _depending(b, a, rest)
        found += inside**2 + between**2
    return found


def _depending(first: FloatArray, second: FloatArray, rest: FloatArray) -> float:
    unsure = first * (1 - first)
    whole = float(unsure.sum())
    if whole <= 0:
        return 0.0
    mean = float((unsure * second).sum()) / whole
    return blur(first) * float((unsure * (second - mean) * second * rest).sum())


def blur(shares: FloatArray) -> float:
    """How much of the variance of a condition stays inside records: 0 nothing, 1 all.

    >>> blur(np.array([0.0, 1.0])), blur(np.array([0.5, 0.5]))
    (0.0, 1.0)
    """
    mean = float(shares.mean())
    return float((shares * (1 - shares)).mean()) / max(mean * (1 - mean), _TINY)
