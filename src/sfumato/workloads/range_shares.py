"""Counts from ranges and sets, condition by condition, with what they are off by.

The same sums that `query` makes of a release (`queries.ranges`), for many conditions at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Estimated, Moments
from sfumato.operators.ranges import RangeEstimator, ShareSums, misreading, multiplied
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
        sums = np.stack([self._sums(question) for question in questions], axis=1)
        counts, _, _, _, _, possible = sums
        of, value = np.nonzero((counts > 0) | (possible > 0))
        number, *shares = sums[:, of, value]
        moments = Moments(
            len(questions), of, (value,), {(weight,): number, (weight, weight): number}
        )
        found = {weight: ShareSums(*shares)}
        return RangeEstimator(self._shown.values, found).estimate(moments)

    def _sums(self, question: CountQuestion) -> FloatArray:
        """By value: the count, and the fields of `ShareSums` in their order."""
        readings, summed = self._quasi.readings(question), self._shown.summed
        rows = len(self._shown.codes)
        people = multiplied([each.people for each in readings], rows)
        even = multiplied([each.even for each in readings], rows)
        drawn, off = summed(people * (1 - people)), misreading(readings, self._shown)
        certain, possible = (summed(each.astype(np.float64)) for each in (even >= 1, even > 0))
        return np.stack(
            [summed(people), drawn, off.common * drawn, off.own * drawn, certain, possible]
        )
