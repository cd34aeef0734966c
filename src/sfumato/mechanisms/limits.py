"""What plans by operator look at: limits from the guarantee, counts no finer than they need be.

A plan is published, so objectives look at the shares that a guarantee states. Where it states none
they look at rounded counts: an operator then tells roughly how common each value is, and to who
knows all others often what one record was (two values of one of 1,000 people make different ones in
a fifth of the pairs).
"""

from __future__ import annotations

import numpy as np

from sfumato.guarantees.odds import OddsGuarantee
from sfumato.operators.base import FloatArray
from sfumato.profile import Histogram

COUNT_BITS = 4  # significant binary digits of counts in objectives


def planning_counts(guarantee: OddsGuarantee, histogram: Histogram) -> FloatArray:
    """Counts to plan for: by the shares that the guarantee states, or rounded ones; 0 stays 0.

    >>> from sfumato.guarantees import FineRhoPrivacy
    >>> counts = Histogram("s", ("a", "b", "c"), np.array([1001, 5, 0]))
    >>> planning_counts(FineRhoPrivacy(theta=2), counts).tolist()
    [1024.0, 5.0, 0.0]
    >>> planning_counts(FineRhoPrivacy(limits="a:0.2:0.5;*:0.1:0.3"), counts).tolist()
    [503.0, 251.5, 251.5]
    """
    stated = guarantee.planning_shares(histogram.column, histogram.values)
    if stated is not None:
        return np.array([float(share * histogram.rows) for share in stated])
    counts = histogram.counts.astype(np.float64)
    step = 2.0 ** (np.floor(np.log2(np.maximum(counts, 1))) + 1 - COUNT_BITS)
    return np.asarray(np.round(counts / step) * step)
