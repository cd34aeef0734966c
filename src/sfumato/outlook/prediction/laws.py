"""How far estimates will be off, for every kind of plan, in closed form and before publishing.

A law answers two questions. `within`: given how many records of a condition have each value, what
is E|estimate − truth| for sets of values? `by_size`: for every value and size of count, the same
under the condition that a histogram alone suggests, where the value is as common as in the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from sfumato.draws import IntArray
from sfumato.operators import Decoy, Operator, Parts
from sfumato.operators.absolute import expected_absolute
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator
from sfumato.operators.decoy import DecoyForm
from sfumato.outlook.prediction.absolute import lattice_absolute
from sfumato.workloads.questions import CountQuestion

Asked = Sequence[IntArray]  # for each question, the codes of its values


class ErrorLaw(ABC):
    """The expected absolute errors of one sensitive column under one plan."""

    @abstractmethod
    def within(self, question: CountQuestion, counts: FloatArray, asked: Asked) -> FloatArray:
        """For a condition with these true counts by value."""

    @abstractmethod
    def by_size(self, sizes: FloatArray) -> FloatArray:
        """By (size of count, value); not a number where nobody has the value."""


# of a count: the weight of a record that shows what is asked for, and how many of those with it and
# of those without it do
Showing = tuple[float, tuple[float, float], tuple[float, float]]


class PerturbedLaw(ErrorLaw):
    """One operator: records are drawn one by one (`Operator.expected`)."""

    def __init__(self, operator: Operator, histogram: FloatArray) -> None:
        self.operator, self.histogram = operator, histogram

    def within(self, question: CountQuestion, counts: FloatArray, asked: Asked) -> FloatArray:
        errors = []
        for values in asked:
            variance, showing = self.noise(counts, values)
            errors.append(lattice_absolute(*showing, variance))
        return np.array(errors)

    def noise(self, counts: FloatArray, values: IntArray) -> tuple[float, Showing]:
        """The variance of a count of some values, and the law of the records that show them."""
        marked = np.zeros(len(counts))
        marked[values] = 1.0
        variance = float(self.operator.expected(counts, marked))
        total, own = float(counts.sum()), float(counts[values].sum())
        stays = self.operator.pull(marked)
        hits, seen = float(counts[values] @ stays[values]), float(counts @ stays)
        inside = hits / own if own else 0.0
        outside = (seen - hits) / (total - own) if total > own else 0.0
        z = self.operator.inverse().weigh(marked)
        other = np.delete(z, values)
        jump = float(z[values].mean() - (other.mean() if len(other) else 0.0))
        others = (total - own, min(max(outside, 0.0), 1.0))
        return variance, (jump, (own, min(inside, 1.0)), others)

    def by_size(self, sizes: FloatArray) -> FloatArray:
        # n_A·share records of every value: the variance grows with n_A = size / share
        shares = self.histogram / max(self.histogram.sum(), 1.0)
        return _by_size(sizes, shares, self.operator.variances(shares))


class PartsLaw(ErrorLaw):
    """Sub-tables: a record's part is published, so only the draws inside the parts are noise.

    Which records of a condition stand in which part is chance, and the estimate is unbiased
    whatever it is: the variance is that of the expected numbers.
    """

    def __init__(self, operator: Parts, quotas: IntArray, histogram: FloatArray) -> None:
        self.histogram = histogram
        self._operator = operator
        held = np.maximum(histogram, 1.0)
        self._spread = quotas / held  # by (part, value): where a record with the value stands
        self._laws = []
        for number, part in enumerate(operator.parts):
            codes = np.array(part.codes, np.int64)
            place = np.full(operator.domain, -1, np.int64)
            place[codes] = np.arange(len(codes))
            law = PerturbedLaw(part.operator, quotas[number][codes].astype(np.float64))
            self._laws.append((number, codes, place, law))

    def within(self, question: CountQuestion, counts: FloatArray, asked: Asked) -> FloatArray:
        parts = [
            (place, law, counts[codes] * self._spread[number][codes])
            for number, codes, place, law in self._laws
        ]
        return np.array([self._error(parts, values) for values in asked])

    @staticmethod
    def _error(
        parts: Sequence[tuple[IntArray, PerturbedLaw, FloatArray]], values: IntArray
    ) -> float:
        """The part that matters most by its law, the noise of the others as normal."""
        inside = [(law, counts, place[values][place[values] >= 0]) for place, law, counts in parts]
        noises = [law.noise(counts, own) for law, counts, own in inside if len(own)]
        if not noises:
            return 0.0
        _, leading = max(noises, key=lambda noise: noise[0])
        return lattice_absolute(*leading, sum(variance for variance, _ in noises))

    def by_size(self, sizes: FloatArray) -> FloatArray:
        shares = self.histogram / max(self.histogram.sum(), 1.0)
        each = np.zeros(len(shares))
        for number, codes, _, law in self._laws:
            inside = shares[codes] * self._spread[number][codes]
            each[codes] += law.operator.variances(inside)
        return _by_size(sizes, shares, each)


class DecoyLaw(ErrorLaw):
    """Decoys: hidden groups, so others show a value by a hypergeometric number.

    `groups` knows how values meet in the groups. The estimate takes them to meet as evenly as they
    can (errata S5), which is a bias where they do not, and so does this law without `groups`.
    """

    def __init__(self, operator: Decoy, groups: BucketOperator | None) -> None:
        assert operator.counts is not None
        self.operator = operator
        self.histogram = np.array(operator.counts, np.float64)
        self._groups = groups
        self._rates = operator.decoy_rates
        self._weights, self._whole = operator.inverse().own, operator.whole_inverse()

    def within(self, question: CountQuestion, counts: FloatArray, asked: Asked) -> FloatArray:
        meetings = self.operator.whole_matrix() if self._groups is None else self._groups.matrix()
        return np.array([self._error(counts, values, meetings) for values in asked])

    def _error(self, counts: FloatArray, values: IntArray, meetings: FloatArray) -> float:
        others = np.setdiff1d(np.arange(len(counts)), values)
        if len(others) <= 1 < len(values):  # all values but one are the total without that one
            return self._error(counts, others, meetings) if len(others) else 0.0
        if np.isin(values, self.operator.at_the_limit()).any():
            return np.nan
        own, total, shown = float(counts[values].sum()), float(counts.sum()), counts @ meetings
        hits = float(counts[values] @ meetings[np.ix_(values, values)].sum(axis=1))
        if len(values) == 1:
            weights = self._weights[values]
            bias = float(weights @ (shown[values] - total * self._rates[values])) - own
            variance = float(self.operator.variances_within(values, counts[values], total)[0])
            jump = float(weights[0])
        else:
            marked = np.zeros((1, len(counts)))
            marked[0, values] = 1.0
            z = np.asarray(self._whole.weigh(marked))
            bias = float(z[0] @ shown) - own
            form = DecoyForm(marked, z, counts[None, :])
            variance = max(float(self.operator.set_covariance(form.sums, form, form)[0]), 0.0)
            jump = float(z[0, values].mean() - z[0, others].mean())
        inside = (own, min(hits / own, 1.0) if own else 0.0)
        rate = (float(shown[values].sum()) - hits) / max(total - own, 1e-300)
        outside = (total - own, min(max(rate, 0.0), 1.0))
        return lattice_absolute(jump, inside, outside, variance, bias)

    def by_size(self, sizes: FloatArray) -> FloatArray:
        shares = self.histogram / max(self.histogram.sum(), 1.0)
        every = np.arange(len(shares))
        matching = sizes[:, None] / np.where(shares > 0, shares, np.nan)[None, :]
        counts = np.broadcast_to(sizes[:, None], matching.shape)
        spread = self.operator.variances_within(every, counts, matching)
        spread[:, self.operator.at_the_limit()] = np.inf
        return np.asarray(np.sqrt(spread * (2 / np.pi)))


class UnknownLaw(ErrorLaw):
    """Ranges and sets are known only once they are made."""

    def __init__(self, values: int) -> None:
        self._values = values

    def within(self, question: CountQuestion, counts: FloatArray, asked: Asked) -> FloatArray:
        return np.full(len(asked), np.nan)

    def by_size(self, sizes: FloatArray) -> FloatArray:
        return np.full((len(sizes), self._values), np.nan)


def _by_size(sizes: FloatArray, shares: FloatArray, variances: FloatArray) -> FloatArray:
    """For variances per record of a condition: n_A = size / share."""
    each = np.divide(variances, shares, out=np.full(len(shares), np.nan), where=shares > 0)
    return expected_absolute(0.0, sizes[:, None] * each[None, :])
