"""Which record goes into which bucket: by value, and at random within a value."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.heterogeneous.buckets import Layers


def deal(layers: Layers, codes: IntArray, draws: Draws) -> list[IntArray]:
    """`records[b, j]` for every layer: the records of its buckets, in random order.

    >>> from sfumato.mechanisms.heterogeneous.buckets import Buckets
    >>> layers = Buckets(np.array([[2, 0], [0, 2]])), Buckets(np.array([[1, 0]]))
    >>> first, second = deal(layers, np.array([0, 1, 0, 1, 0]), Draws.from_seed(1))
    >>> sorted(first[1].tolist()), sorted([*first[0].tolist(), *second[0].tolist()])
    ([1, 3], [0, 2, 4])
    """
    order = draws.order("deal", len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    held = np.concatenate([layer.counts for layer in layers])
    counts = held.sum(axis=0)
    # slots of a value: layer after layer, bucket after bucket
    ends = np.cumsum(counts) - counts + np.cumsum(held, axis=0)
    begins = ends - held
    buckets = [
        np.concatenate([order[a:b] for a, b in zip(low, high, strict=True)])
        for low, high in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    shuffled = [
        records[draws.order(f"bucket {bucket}", len(records))]
        for bucket, records in enumerate(buckets)
    ]
    starts = np.cumsum([0, *(layer.number for layer in layers)]).tolist()
    return [np.stack(shuffled[a:b]) for a, b in pairwise(starts)]
