"""A Hilbert order of records with several small integer columns (Skilling's transform, 2004)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.heterogeneous.ncp import Axis, NumericAxis

BITS = 7  # resolution per column


def hilbert_order(axes: Sequence[Axis], records: IntArray) -> IntArray:
    """The given records along a space-filling curve: neighbours on it are near in all columns.

    Every column is stretched to 2⁷ steps; categories stand in domain order.
    """
    if not axes:
        return records
    columns = []
    for axis in axes:
        codes = axis.codes[records]
        position = axis.positions[codes] if isinstance(axis, NumericAxis) else codes
        top = int(axis.positions[-1]) if isinstance(axis, NumericAxis) else axis.values - 1
        columns.append((position * ((1 << BITS) - 1) // max(top, 1)).astype(np.int64))
    transposed = _to_transposed(np.stack(columns))
    # the curve's index read bit by bit, the highest bits of all columns first
    words = [
        (transposed[column] >> bit) & 1
        for bit in range(BITS - 1, -1, -1)
        for column in range(len(columns))
    ]
    keys = []
    for start in range(0, len(words), 62):
        key = np.zeros(len(records), np.int64)
        for word in words[start : start + 62]:
            key = (key << 1) | word
        keys.append(key)
    return records[np.lexsort(keys[::-1])]


def _to_transposed(point: IntArray) -> IntArray:
    """Axes to the transposed Hilbert index, in place of Skilling's `AxestoTranspose`.

    The four quarters of a square are visited one after the other:

    >>> quarters = _to_transposed(np.array([[0, 0, 1, 1], [0, 1, 1, 0]]) << (BITS - 1)) >> BITS - 1
    >>> (2 * quarters[0] + quarters[1]).tolist()
    [0, 1, 2, 3]
    """
    x = point.copy()
    dimensions = len(x)
    bit = 1 << (BITS - 1)
    while bit > 1:
        low = bit - 1
        for i in range(dimensions):
            high = (x[i] & bit) != 0
            x[0] = np.where(high, x[0] ^ low, x[0])
            change = np.where(high, 0, (x[0] ^ x[i]) & low)
            x[0] ^= change
            x[i] ^= change
        bit >>= 1
    for i in range(1, dimensions):
        x[i] ^= x[i - 1]
    flip = np.zeros(x.shape[1], np.int64)
    bit = 1 << (BITS - 1)
    while bit > 1:
        flip = np.where((x[-1] & bit) != 0, flip ^ (bit - 1), flip)
        bit >>= 1
    return np.asarray(x ^ flip)
