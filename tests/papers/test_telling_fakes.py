"""Fakes hold against an adversary who knows all but one record of a bucket."""

from __future__ import annotations

import numpy as np

from papers.telling_fakes import tell_fakes
from sfumato.draws import Draws
from sfumato.guarantees import LDiversity
from sfumato.mechanisms.buckets import OptimalBuckets
from sfumato.profile import Histogram, Profile

COUNTS = np.array([900, 800, 700, 600, 500, 400, 300, 200, 200, 200, 100, 100])


def attacked(fakes):
    histogram = Histogram("s", tuple(range(12)), COUNTS)
    draws = Draws.from_seed(4)
    plan = OptimalBuckets(fakes=fakes).plan(
        Profile(int(COUNTS.sum()), {"s": histogram}), LDiversity(4), draws
    )
    return tell_fakes(plan, 1200, draws)


def test_without_fakes_the_last_record_is_known():
    assert attacked(0).success == 1


def test_fakes_keep_success_near_the_stated_certainty():
    outcome = attacked(2)
    assert outcome.low <= outcome.success <= outcome.high
    assert float(outcome.stated) == 1 / 3
    assert outcome.success <= 1 / 3 + 0.12  # indistinguishable up to a few points
