"""Readers with a rule P(value | quasi), which they weigh with what is published about the person.

They differ in where the rule comes from: `own-record` fits it to the release (a softmax regression
through what is shown: published values by the operator, lists of buckets over all assignments, rows
by the people that their ranges hold), `definetti` iterates over the buckets, `linked` learns it
from the raw table. Rule and record together (`attacks.views`) reach more than either: a rule
knows nothing of the very person, and a record shows little where much was drawn or listed.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import ClassVar, Self

import numpy as np

from sfumato.attacks.links import know_links, quantile_bins
from sfumato.attacks.people import People, pick
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.attacks.views import BucketsView, RecordsView, normalised
from sfumato.draws import Draws, IntArray
from sfumato.guarantees.words import Known
from sfumato.operators.base import FloatArray
from sfumato.operators.dealt import EXACT
from sfumato.operators.links import Links, fit_links
from sfumato.release import BucketedRelease, Release
from sfumato.textform import Parameter

SURE = 0.8  # from which chance on a value counts as known
_STILL = 0.01  # people, the largest change of a count at which deFinetti's iteration stops
_BALANCING = 10  # alternations between "one value each" and "as often as listed"
_QUICK_PAIRS = 1 << 21  # (record, value) pairs that deFinetti learns from, unless thorough


class LearnedReader(Attack):
    """A reader with a rule."""

    @abstractmethod
    def rule(self, knowledge: Knowledge, draws: Draws) -> Links:
        """P(value | quasi), as this reader comes to it."""

    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        return self.weighed(self.rule(knowledge, draws), knowledge, targets, draws)[0]

    def weighed(
        self, rule: Links, knowledge: Knowledge, targets: People, draws: Draws
    ) -> tuple[Guesses, FloatArray]:
        """Guesses by rule and record, and the chances behind them."""
        people, thorough = knowledge.people, knowledge.thorough
        chances = knowledge.view.weigh(rule, targets, people, thorough, draws)
        return Guesses.likeliest(self, knowledge, chances, draws), chances


def bins_of(knowledge: Knowledge) -> dict[int, IntArray]:
    """Coarse columns beside the numeric ones, by the reader's register of people."""
    domains, bins_by_column = knowledge.people.domains, {}
    for column, numeric in enumerate(knowledge.numeric):
        if numeric:
            numbers = np.array([*domains.values[column].to_pylist(), None], np.float64)
            counts = np.bincount(knowledge.people.codes[column], minlength=len(numbers))
            bins = quantile_bins(numbers, counts)
            if bins is not None:
                bins_by_column[column] = bins
    return bins_by_column


@dataclass(frozen=True)
class OwnRecord(LearnedReader):
    """Learn the rule from the release, then weigh it with the person's own record.

    >>> str(OwnRecord())
    'own-record'
    """

    name: ClassVar[str] = "own-record"
    sentence: ClassVar[str] = (
        "Learns from the release how quasi-identifiers and values are associated, and weighs "
        "that with the records that may be the person's."
    )
    knows: ClassVar[Known] = Known.LEARNED

    def rule(self, knowledge: Knowledge, draws: Draws) -> Links:
        view = knowledge.view
        design, evidence = view.evidence(knowledge.people, bins_of(knowledge))
        prior = np.asarray(view.prior)
        return fit_links(design, evidence, prior, lambda n, k: draws.order("units", n)[:k])


@dataclass(frozen=True)
class DeFinetti(LearnedReader):
    """Exchangeable Bayes with iteration, at most `rounds` times (Kifer, SIGMOD 2009).

    Members and values of a bucket are exchangeable at first; then, until nothing moves, naive
    Bayes is learned from the members as they are assigned, with Laplace's correction, and every
    bucket assigns its values to its members by that rule.

    >>> str(DeFinetti())
    'definetti'
    """

    rounds: int = 30

    name: ClassVar[str] = "definetti"
    sentence: ClassVar[str] = (
        "Learns from the lists of all buckets which kind of person has which value, and "
        "assigns every bucket's values by it."
    )
    knows: ClassVar[Known] = Known.LEARNED
    kinds: ClassVar[tuple[type[Release], ...]] = (BucketedRelease,)

    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("rounds", least=1, whole=True),)

    def rule(self, knowledge: Knowledge, draws: Draws) -> Links:
        """O(rounds · pairs), a pair being a record and a value of its bucket."""
        view, sizes = knowledge.view, knowledge.people.domains.sizes
        assert isinstance(view, BucketsView)
        dealt, codes = view.dealt, view.codes
        pairs = int((dealt.listed * dealt.held).sum())
        if not knowledge.thorough and pairs > _QUICK_PAIRS:
            some = max(1, dealt.units * _QUICK_PAIRS // pairs)
            rows, dealt = dealt.of(draws.choose("buckets", dealt.units, some))
            codes = [column[rows] for column in codes]
        values, nothing = view.values, np.zeros(view.values)
        rule = Links(self.name, nothing, tuple(np.zeros((size, values)) for size in sizes))
        counts = [np.zeros((size, values)) for size in sizes]
        for _ in range(self.rounds):
            before, counts = counts, [np.zeros((size, values)) for size in sizes]
            for _, assigned in dealt.assigned(partial(rule.pair_scores, codes), _BALANCING):
                for column, table in zip(codes, counts, strict=True):
                    cell = column[assigned.record] * values + assigned.value
                    table += np.bincount(cell, assigned.chance, table.size).reshape(table.shape)
            rule = Links(self.name, nothing, tuple(log_table(table, 1.0) for table in counts))
            moved = (np.abs(a - b).max(initial=0.0) for a, b in zip(counts, before, strict=True))
            if max(moved, default=0.0) < _STILL:
                break
        return rule


def log_table(counts: FloatArray, alpha: float) -> FloatArray:
    """Log chances of a quasi value given a value; the last row stands for all others."""
    total = counts.sum(axis=0) + alpha * (len(counts) - 1)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log((counts + alpha) / np.maximum(total, 1e-300)))


@dataclass(frozen=True)
class NaiveBayes(Attack):
    """Naive Bayes as Cormode's attack has it (heterogeneous generalization, Figure 11): v̂(t) =
    argmax Pr[v] Π Pr[t_j | v], Pr[t_j | v] = (count(t_j, v) + α)/(count(v) + α|QI_j|), α = 0 in the
    classic form and 1 with Laplace's correction.

    Counts come from the release as its kind allows: published counts or, with `counts="estimated"`,
    their unbiased estimates, cut off at 0, for perturbed records; shares of the bucket for bucketed
    ones; ranges and sets that hold the value for generalized ones. Which published record is the
    person's does not matter, so what it reaches is mostly what a rule learned from others reaches.

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
        view, estimated = knowledge.view, self.counts == "estimated"
        prior = view.prior
        if isinstance(view, RecordsView) and not estimated:
            prior = (view.counts / max(len(view.shown), 1)) @ view.to_values
        tables = view.tables(knowledge.people.domains.sizes, estimated=estimated)
        with np.errstate(divide="ignore"):
            start = np.log(prior)
        rules = tuple(log_table(table, float(self.alpha)) for table in tables)
        scores = Links(self.name, start, rules).scores(targets.codes)
        top = scores.max(axis=1, initial=-np.inf, keepdims=True)
        odds = np.exp(np.where(np.isfinite(top), scores - np.where(np.isfinite(top), top, 0), 0))
        return Guesses.likeliest(self, knowledge, normalised(odds), draws)


@dataclass(frozen=True)
class Linked(LearnedReader):
    """Know the table's own associations, then weigh them with the person's own record.

    Ceilings are promised against a reader who knows no association. This one knows them all:
    P(value | quasi) as naive Bayes or softmax learn it from the *raw* table, whichever foresees
    better (methods, section 7). What the rule alone reaches, with no release at all, stands beside:
    the difference is what the release adds.

    >>> str(Linked())
    'linked'
    """

    name: ClassVar[str] = "linked"
    sentence: ClassVar[str] = (
        "Knows beforehand how quasi-identifiers and values are associated in the raw table, and "
        "weighs that with the records that may be the person's."
    )
    knows: ClassVar[Known] = Known.LINKS

    def rule(self, knowledge: Knowledge, draws: Draws) -> Links:
        people = knowledge.people
        return know_links(
            people.codes,
            people.domains.sizes,
            bins_of(knowledge),
            people.truth,
            people.values,
            lambda n, k: draws.order("links", n)[:k],
        )

    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        """Also, of how many people a posterior is far beyond what the promise allows."""
        rule = self.rule(knowledge, draws)
        guesses, chances = self.weighed(rule, knowledge, targets, draws)
        if not len(chances):
            return guesses
        figures: dict[str, float] = {}
        if knowledge.ceilings is not None:
            far = np.minimum(2 * knowledge.ceilings, 1.0) * (1 + 1e-9)
            beyond = float((chances > far).any(axis=1).mean())
            figures["share with a posterior above twice the ceiling"] = beyond
        figures["share with a posterior above 80 %"] = float((chances.max(axis=1) > SURE).mean())
        if isinstance(knowledge.view, BucketsView):
            dealt = knowledge.view.dealt
            if not (exact := dealt.exact[dealt.bucket]).all():
                label = f"share in buckets of more than {EXACT}, where this is an approximation"
                figures[label] = 1 - float(exact.mean())
        alone = pick(np.exp(rule.log_chances(targets.codes)), knowledge.view.prior, draws, "alone")
        besides = {"by the links alone, without a release": alone}
        return replace(guesses, figures=figures, besides=besides)
