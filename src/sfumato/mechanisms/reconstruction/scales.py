"""Parts: groups in which about as many published records stand for one perturbed record.

The analyst needs that number for honest standard errors, and counting copies would tell it to
anybody (errata R2), so the release says it: each record's `part` points to a scale that is at
least |g|/n of its group, on a ladder, so that variances come out a little too large.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.draws import IntArray

_STEP = 1.1


def part_scales(sizes: IntArray, samples: IntArray) -> tuple[float, ...]:
    """The scale of each part: 1 for whole groups, then 1.1, 1.21 … up to what is needed.

    >>> part_scales(np.array([3, 10, 4]), np.array([3, 8, 0]))
    (1.0, 1.1, 1.21, 1.331)
    """
    kept = samples > 0
    largest = float((sizes[kept] / samples[kept]).max(initial=1.0))
    steps = math.ceil(math.log(largest) / math.log(_STEP)) if largest > 1 else 0
    scales = [1.0] + [round(_STEP**step * (1 + 1e-12), 6) for step in range(1, steps + 1)]
    while scales[-1] < largest:  # rounding must not make a variance too small
        scales.append(round(_STEP ** len(scales), 6))
    return tuple(scales)


def parts_of(sizes: IntArray, samples: IntArray, parts: int) -> IntArray:
    """The part of each published group: 0 for whole groups, else the least sufficient scale.

    >>> parts_of(np.array([3, 10]), np.array([3, 8]), 4)
    array([0, 3])
    """
    ladder = np.array([1.0] + [round(_STEP**step * (1 + 1e-12), 6) for step in range(1, parts)])
    return np.asarray(np.searchsorted(ladder, sizes / samples, side="left"))
