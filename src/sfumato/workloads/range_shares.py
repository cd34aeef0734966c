"""Counts from ranges and sets, condition by condition, with what they are off by.

The same sums that `query` makes of a release (`queries.ranges`), for many conditions at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import fields

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.estimator import Estimated, Moments
from sfumato.operators.ranges import RangeEstimator, ShareSums
from sfumato.queries.ranges import shown_beside
from sfumato.release import GeneralizedRelease
from sfumato.workloads.questions import CountQuestion
from sfumato.workloads.shown import ShownQuasi


class RangeShares:
    """The records of a release by the codes of the values that they show."""

    def __init__(
        self, release: GeneralizedRelease, codes: IntArray, values: int, quasi: ShownQuasi
    ) -> None:
        self._shown, self._quasi = shown_beside(release, codes, values), quasi

    def estimated(self, questions: Sequence[CountQuestion], weight: Hashable) -> Estimated:
        """A class for the conditions of every question; `weight` names the count of records."""
        sums = [self._sums(question) for question in questions]
        by_field = {
            each.name: np.stack([getattr(of, each.name) for of in sums])
            for each in fields(ShareSums)
        }
        of, value = np.nonzero((by_field["number"] > 0) | (by_field["possible"] > 0))
        found = ShareSums(**{name: each[of, value] for name, each in by_field.items()})
        counts = {(weight,): found.number, (weight, weight): found.number}
        moments = Moments(len(questions), of, (value,), counts)
        return RangeEstimator(self._shown.values, {weight: found}).estimate(moments)

    def _sums(self, question: CountQuestion) -> ShareSums:
        """By value."""
        return ShareSums.of(self._quasi.readings(question), self._shown, self._shown.summed)
