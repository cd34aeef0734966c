"""Naive Bayes: learn from the release how quasi and sensitive columns hang together, then guess.

Cormode's attack as the paper on heterogeneous generalization runs it (Figure 11): v̂(t) = argmax
Pr[v] Π Pr[t_j | v] with Pr[t_j | v] = (count(t_j, v) + α)/(count(v) + α|QI_j|), α = 0 in the
classic form and 1 with Laplace's correction. It uses no knowledge of which published record is the
person's, so what it reaches is mostly what a rule learned from others reaches: the fresh baseline
tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from sfumato.attacks.people import People, pick
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.attacks.views import BucketsView, RangesView, RecordsView
from sfumato.draws import Draws
from sfumato.errors import SingularOperator, UsageError
from sfumato.guarantees.words import Known
from sfumato.operators.base import FloatArray
from sfumato.textform import rational

_CHUNK = 1 << 16


@dataclass(frozen=True)
class NaiveBayes(Attack):
    """Counts come from the release as its kind allows: published counts or, with
    `counts="estimated"`, their unbiased estimates, cut off at 0, for perturbed records; shares of
    the bucket for bucketed ones; ranges and sets that hold the value for generalized ones;
    `delta` counts numbers within that share of their range, for synthetic records.

    >>> str(NaiveBayes(alpha=0))
    'naive-bayes(alpha=0)'
    """

    alpha: float = 1.0
    counts: str = "estimated"
    delta: float = 0.0

    name: ClassVar[str] = "naive-bayes"
    sentence: ClassVar[str] = (
        "Learns from the release which values go with which quasi-identifiers, and applies that "
        "rule without looking for the person's own record."
    )
    knows: ClassVar[Known] = Known.LEARNED

    def __post_init__(self) -> None:
        for parameter in ("alpha", "delta"):
            number = rational(getattr(self, parameter), parameter)
            if number < 0:
                raise UsageError(
                    f"The {parameter!r} parameter of {self.name} must be at least 0. "
                    f"Got {number} instead."
                )
            object.__setattr__(
                self, parameter, int(number) if number.denominator == 1 else float(number)
            )
        if self.counts not in ("estimated", "published"):
            raise UsageError(
                f"The 'counts' parameter of {self.name} must be estimated or published. "
                f"Got {self.counts!r} instead."
            )

    @classmethod
    def forms(cls) -> list[Self]:
        return [cls(), cls(alpha=0)]

    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        tables, prior = self.learn(knowledge)
        with np.errstate(divide="ignore"):
            scores = np.tile(np.log(prior), (len(targets), 1))
            for table, codes in zip(tables, targets.codes, strict=True):
                total = table.sum(axis=0)
                size = len(table) - 1  # the last row stands for values that nobody has
                chance = (table + self.alpha) / np.maximum(total + self.alpha * size, 1e-300)
                scores += np.log(chance)[codes]
        values = pick(scores, prior, draws, "naive bayes ties")
        return Guesses(values, confidence(scores, values))

    def learn(self, knowledge: Knowledge) -> tuple[list[FloatArray], FloatArray]:
        """Counts by (quasi value, sensitive value) per quasi column, and the prior."""
        view = knowledge.view
        sizes = knowledge.people.domains.sizes
        if isinstance(view, RecordsView):
            tables = [
                self._record_counts(view, codes, size)
                for codes, size in zip(view.codes, sizes, strict=True)
            ]
            prior = view.prior
            if view.operator is not None and self.counts == "published":
                prior = (view.counts / max(len(view.shown), 1)) @ view.to_values
        elif isinstance(view, BucketsView):
            tables = [
                bucket_counts(view, codes, size)
                for codes, size in zip(view.codes, sizes, strict=True)
            ]
            prior = view.prior
        elif isinstance(view, RangesView):
            tables = [range_counts(view, holds) for holds in view.holds]
            prior = view.prior
        else:
            tables, prior = list(view.tables), view.prior
        if self.delta:
            tables = [
                _window(knowledge.people, k, self.delta) @ table if numeric else table
                for k, (table, numeric) in enumerate(zip(tables, knowledge.numeric, strict=True))
            ]
        return tables, prior

    def _record_counts(self, view: RecordsView, codes: np.ndarray, size: int) -> FloatArray:
        flat = np.bincount(codes * view.symbols + view.shown, minlength=size * view.symbols)
        shown = flat.reshape(size, view.symbols).astype(np.float64)
        if view.operator is not None and self.counts == "estimated":
            try:
                weights = view.operator.observed(view.counts).weights()
            except SingularOperator:
                weights = np.eye(view.symbols)  # nothing better than what is shown
            return np.asarray(np.maximum(shown @ weights @ view.to_values, 0.0))
        return np.asarray(shown @ view.to_values)


def bucket_counts(view: BucketsView, codes: np.ndarray, size: int) -> FloatArray:
    """Every record counts for its bucket's values by their share."""
    from scipy.sparse import csr_array

    ones = np.ones(len(codes))
    standing = csr_array((ones, (codes, view.bucket)), shape=(size, len(view.listed)))
    return np.asarray((standing @ view.shares).todense())


def range_counts(view: RangesView, holds: np.ndarray) -> FloatArray:
    """Every record counts for all values that its range or set holds."""
    table = np.zeros((holds.shape[1], view.values))
    for start in range(0, len(view.shown), _CHUNK):
        shown = view.shown[start : start + _CHUNK]
        single = np.zeros((len(shown), view.values), np.float32)
        single[np.arange(len(shown)), shown] = 1.0
        table += holds[start : start + _CHUNK].T.astype(np.float32) @ single
    return table


def confidence(scores: FloatArray, values: np.ndarray) -> FloatArray:
    """The chance that log scores give to the chosen values."""
    if not len(scores):
        return np.empty(0)
    top = scores.max(axis=1, keepdims=True)
    known = np.isfinite(top)
    odds = np.exp(np.where(known, scores - np.where(known, top, 0.0), 0.0))
    return np.asarray(odds[np.arange(len(odds)), values] / odds.sum(axis=1))


def _window(people: People, column: int, delta: float) -> FloatArray:
    """Which values of a numeric column are within `delta` of its range from each other."""
    numbers = np.array(people.domains.values[column].to_pylist(), np.float64)
    reach = delta * float(np.nanmax(numbers) - np.nanmin(numbers)) * (1 + 1e-12)
    near = np.abs(numbers[:, None] - numbers[None, :]) <= reach
    window = np.eye(len(numbers) + 1)
    window[:-1, :-1] = near
    return window
