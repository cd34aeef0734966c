"""Which record goes into which bucket: by value, and at random within a value."""

from __future__ import annotations

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.heterogeneous.buckets import Buckets


def deal(buckets: Buckets, codes: IntArray, draws: Draws) -> IntArray:
    """`records[b, j]`: the records of every bucket, in random order; withheld ones are left out.

    >>> sizes = Buckets(np.array([[2, 0], [0, 2]]), np.array([1, 0]))
    >>> records = deal(sizes, np.array([0, 1, 0, 1, 0]), Draws.from_seed(1))
    >>> sorted(records[1].tolist()), set(records[0].tolist()) < {0, 2, 4}
    ([1, 3], True)
    """
    order = draws.order("deal", len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    counts = np.bincount(codes, minlength=len(buckets.withheld))
    starts = np.cumsum(counts) - counts
    # slots of a value: first those withheld, then bucket after bucket
    ends = starts + buckets.withheld + np.cumsum(buckets.counts, axis=0)
    begins = ends - buckets.counts
    records = np.stack(
        [
            np.concatenate([order[a:b] for a, b in zip(low, high, strict=True)])
            for low, high in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
    )
    for bucket in range(len(records)):
        shuffled = draws.order(f"bucket {bucket}", records.shape[1])
        records[bucket] = records[bucket][shuffled]
    return records
