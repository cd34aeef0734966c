"""Counts from ranges and sets, condition by condition, with what they are off by.

The same sums that `query` makes of a release (`queries.ranges`), for many conditions at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Estimated, Moments, sum_by
from sfumato.operators.ranges import RangeEstimator, ShareSums
from sfumato.workloads.questions import CountQuestion
from sfumato.workloads.shown import ShownQuasi


class RangeShares:
    """The records of a release by the codes of the values that they show."""

    def __init__(self, codes: IntArray, values: int, quasi: ShownQuasi) -> None:
        self._codes, self._values, self._quasi = codes, values, quasi

    def estimated(self, questions: Sequence[CountQuestion], weight: Hashable) -> Estimated:
        """A class for the conditions of every question; `weight` names the count of records."""
        sums = [self._sums(question) for question in questions]
        number, certain, possible = (
            np.stack(part)
            for part in zip(*((e.number, e.certain, e.possible) for e in sums), strict=True)
        )
        of, value = np.nonzero(possible > 0)
        bounds = tuple(np.concatenate([e.told[k] for e in sums]) for k in (0, 1))
        sums_by_group = ShareSums(
            number[of, value], certain[of, value], possible[of, value], (bounds[0], bounds[1])
        )
        counts = {(weight,): sums_by_group.number, (weight, weight): sums_by_group.number}
        moments = Moments(len(questions), of, (value,), counts, pool=np.arange(len(questions)))
        return RangeEstimator({weight: sums_by_group}).estimate(moments)

    def _sums(self, question: CountQuestion) -> ShareSums:
        """By value."""

        def summed(by_record: FloatArray) -> FloatArray:
            return sum_by(self._codes, by_record, self._values)

        return ShareSums.of(self._quasi.readings(question), len(self._codes), summed)
