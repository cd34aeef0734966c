"""Chances of everybody in buckets, for tests of who weighs them some buckets at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.dealt import Dealt, PairChances
from sfumato.operators.links import Links


def dealt_given(dealt: Dealt, rule: Links, codes: Sequence[IntArray]) -> PairChances:
    """The chances of (record, value) under a rule."""
    pieces = [pairs for _, pairs in dealt.assigned(partial(rule.pair_scores, codes))]
    parts = ((pairs.record, pairs.value, pairs.chance) for pairs in pieces)
    return PairChances(*(np.concatenate(part) for part in zip(*parts, strict=True)))
