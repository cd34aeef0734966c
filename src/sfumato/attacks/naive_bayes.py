"""Naive Bayes: learn from the release how quasi and sensitive columns are associated, then guess.

Cormode's attack as the paper on heterogeneous generalization runs it (Figure 11): v̂(t) = argmax
Pr[v] Π Pr[t_j | v] with Pr[t_j | v] = (count(t_j, v) + α)/(count(v) + α|QI_j|), α = 0 in the
classic form and 1 with Laplace's correction. It uses no knowledge of which published record is the
person's, so what it reaches is mostly what a rule learned from others reaches: the fresh baseline
tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from sfumato.attacks.people import People, pick
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.attacks.views import RecordsView
from sfumato.draws import Draws
from sfumato.guarantees.words import Known
from sfumato.operators.base import FloatArray
from sfumato.textform import Parameter


@dataclass(frozen=True)
class NaiveBayes(Attack):
    """Counts come from the release as its kind allows: published counts or, with
    `counts="estimated"`, their unbiased estimates, cut off at 0, for perturbed records; shares of
    the bucket for bucketed ones; ranges and sets that hold the value for generalized ones.

    >>> str(NaiveBayes(alpha=0))
    'naive-bayes(alpha=0)'
    """

    alpha: Fraction | int = 1
    counts: str = "estimated"

    name: ClassVar[str] = "naive-bayes"
    sentence: ClassVar[str] = (
        "Learns from the release which values go with which quasi-identifiers, and applies that "
        "rule without looking for the person's own record."
    )
    knows: ClassVar[Known] = Known.LEARNED

    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("alpha", least=0),
        Parameter("counts", options=("estimated", "published")),
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
                alpha = float(self.alpha)
                chance = (table + alpha) / np.maximum(total + alpha * size, 1e-300)
                scores += np.log(chance)[codes]
        values = pick(scores, prior, draws, "naive bayes ties")
        return Guesses(values, confidence(scores, values))

    def learn(self, knowledge: Knowledge) -> tuple[list[FloatArray], FloatArray]:
        """Counts by (quasi value, sensitive value) per quasi-identifier, and the prior."""
        view, estimated = knowledge.view, self.counts == "estimated"
        prior = view.prior
        if isinstance(view, RecordsView) and not estimated:
            prior = (view.counts / max(len(view.shown), 1)) @ view.to_values
        return view.tables(knowledge.people.domains.sizes, estimated=estimated), prior


def confidence(scores: FloatArray, values: np.ndarray) -> FloatArray:
    """The chance that log scores give to the chosen values."""
    if not len(scores):
        return np.empty(0)
    top = scores.max(axis=1, keepdims=True)
    finite = np.isfinite(top)
    odds = np.exp(np.where(finite, scores - np.where(finite, top, 0.0), 0.0))
    return np.asarray(odds[np.arange(len(odds)), values] / odds.sum(axis=1))
