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
from sfumato.operators.base import FloatArray
from sfumato.operators.buckets import BucketOperator
from sfumato.outlook.prediction.absolute import expected_absolute, lattice_absolute
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

    `groups` knows how values meet in the groups. The estimate takes a value's decoys as equally
    common among all others (errata S5), which is a bias where a condition's values differ from the
    table's. Without `groups` values are taken to meet as evenly as they can.
    """

    def __init__(self, operator: Decoy, groups: BucketOperator | None) -> None:
        assert operator.counts is not None
        self.operator = operator
        self.histogram = np.array(operator.counts, np.float64)
        self._groups = groups
        self._rates = operator.decoy_rates
        self._weights = operator.inverse().own

    def within(self, question: CountQuestion, counts: FloatArray, asked: Asked) -> FloatArray:
        meetings = self.operator.matrix() if self._groups is None else self._groups.matrix()
        shown, total = counts @ meetings, float(counts.sum())
        stuck = self.operator.at_the_limit()
        errors = []
        for values in asked:
            if np.isin(values, stuck).any():
                errors.append(np.nan)
                continue
            own, weights = float(counts[values].sum()), self._weights[values]
            bias = float(weights @ (shown[values] - total * self._rates[values])) - own
            if len(values) == 1:
                variance = float(self.operator.variances_within(values, counts[values], total)[0])
            else:
                variance = self._variance(counts, values, meetings)
            inside = (own, 1 / self.operator.groups)
            rate = float((shown[values].sum() - own * inside[1]) / max(total - own, 1e-300))
            outside = (total - own, min(max(rate, 0.0), 1.0))
            errors.append(lattice_absolute(float(weights.mean()), inside, outside, variance, bias))
        return np.array(errors)

    def _variance(self, counts: FloatArray, values: IntArray, meetings: FloatArray) -> float:
        """Of a sum over several values: draws inside the groups, and who stands in which group.

        A draw counts k(1 − t) inside the condition and −kt outside, because the published total
        tells the decoy rate (see `Decoy.variances_within`).
        """
        c, rows = self.operator.groups, float(self.histogram.sum())
        others = counts.sum() - counts[values]
        slope = (c - 1) * rows / (c * np.maximum(rows - self.histogram[values], 1.0) ** 2)
        form, without = np.zeros(len(counts)), np.zeros(len(counts))
        form[values] = self._weights[values] * (1 - slope * others)
        without[values] = -self._weights[values] * slope * others
        left = np.maximum(self.histogram - counts, 0.0)
        spread = counts * left / np.maximum(self.histogram, 1.0)
        drawn = counts @ (meetings @ form**2 - self._squares(form, meetings))
        drawn += left @ (meetings @ without**2 - self._squares(without, meetings))
        moved = form - without
        placed = spread @ (self._squares(moved, meetings) - (meetings @ moved) ** 2)
        return max(float(drawn), 0.0) + max(float(placed), 0.0)

    def _squares(self, form: FloatArray, meetings: FloatArray) -> FloatArray:
        """By true value: the mean over its groups of the square of the group's mean of `form`."""
        if self._groups is None or self._groups.moments is None:
            # as if the other members were drawn one by one
            mean = meetings @ form
            return np.asarray(mean**2 + (meetings @ form**2 - mean**2) / self.operator.groups)
        held = np.maximum(self._groups.counts, 1.0)
        return np.asarray(self._groups.moments @ form @ form / held)

    def by_size(self, sizes: FloatArray) -> FloatArray:
        shares = self.histogram / max(self.histogram.sum(), 1.0)
        every = np.arange(len(shares))
        matching = sizes[:, None] / np.where(shares > 0, shares, np.nan)[None, :]
        counts = np.broadcast_to(sizes[:, None], matching.shape)
        spread = self.operator.variances_within(every, counts, matching)
        spread[:, self.operator.at_the_limit()] = np.inf
        return np.asarray(np.sqrt(spread * (2 / np.pi)))


class ResampledLaw(ErrorLaw):
    """Values drawn anew: the counts of independence, and a draw's noise."""

    def __init__(self, histogram: FloatArray) -> None:
        self.histogram = histogram

    def within(self, question: CountQuestion, counts: FloatArray, asked: Asked) -> FloatArray:
        shares, total = self.histogram / self.histogram.sum(), float(counts.sum())
        part = np.array([shares[values].sum() for values in asked])
        own = np.array([counts[values].sum() for values in asked])
        return expected_absolute(total * part - own, total * part * (1 - part))

    def by_size(self, sizes: FloatArray) -> FloatArray:
        shares = self.histogram / max(self.histogram.sum(), 1.0)
        return expected_absolute(0.0, sizes[:, None] * (1 - shares)[None, :])


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
