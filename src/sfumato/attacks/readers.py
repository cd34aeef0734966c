"""Readers with a rule P(value | quasi), which they weigh with what is published about the person.

They differ in where the rule comes from: `own-record` fits it to the release (a softmax regression
through what is shown: published values by the operator, lists of buckets over all assignments, rows
by the people that their ranges hold), `definetti` iterates over the buckets, `linked` learns it
from the raw table. Rule and record together (`attacks.views`) reach more than either: a rule
knows nothing of the very person, and a record shows little where much was drawn or listed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from sfumato.attacks.people import People, pick
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.attacks.views import BucketsView
from sfumato.draws import Draws, IntArray
from sfumato.guarantees.words import Known
from sfumato.operators.base import FloatArray
from sfumato.operators.dealt import EXACT
from sfumato.operators.links import Links, fit_links, know_links, quantile_bins
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
        prior = knowledge.view.prior
        if not targets.codes:
            chances = np.tile(prior, (len(targets), 1))
            return Guesses(pick(chances, prior, draws, f"{self.name} ties"), chances.max(axis=1))
        rule = self.rule(knowledge, draws)
        chances = weighed(knowledge, rule, targets, draws)
        values = pick(chances, prior, draws, f"{self.name} ties")
        return Guesses(
            values,
            chances[np.arange(len(chances)), values],
            self.figures(knowledge, chances),
            lambda: self.besides(knowledge, rule, targets, draws),
        )

    def figures(self, knowledge: Knowledge, chances: FloatArray) -> dict[str, float]:
        """What else there is to tell of the chances."""
        return {}

    def besides(
        self, knowledge: Knowledge, rule: Links, targets: People, draws: Draws
    ) -> Mapping[str, IntArray]:
        """Guesses to compare with."""
        return {}


def weighed(knowledge: Knowledge, rule: Links, targets: People, draws: Draws) -> FloatArray:
    """The chance of every value for every target: shape (targets, values)."""
    view, people = knowledge.view, knowledge.people
    return view.weigh(rule, targets, people, knowledge.thorough, draws)


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
            rule = Links(self.name, nothing, tuple(map(_smoothed, counts)))
            moved = (np.abs(a - b).max(initial=0.0) for a, b in zip(counts, before, strict=True))
            if max(moved, default=0.0) < _STILL:
                break
        return rule


def _smoothed(table: FloatArray) -> FloatArray:
    """Log chances of a quasi value given a value; the last row stands for all others."""
    return np.asarray(np.log((table + 1.0) / (table.sum(axis=0) + len(table) - 1)))


@dataclass(frozen=True)
class Linked(LearnedReader):
    """Know the table's own associations, then weigh them with the person's own record.

    Ceilings are promised against a reader who knows no association. This one knows them all:
    P(value | quasi) as naive Bayes or softmax learn it from the *raw* table, whichever foresees
    better (methods, section 7). The person's own record is in that table, so a thorough attack
    tells the same without it: rules learned from the other half of the people. What a rule alone
    reaches, with no release at all, stands beside: the difference is what the release adds.

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
        return table_links(knowledge, np.arange(len(knowledge.people)), draws)

    def figures(self, knowledge: Knowledge, chances: FloatArray) -> dict[str, float]:
        """Of how many people a posterior is far beyond what the promise allows."""
        if not len(chances):
            return {}
        by_label = {"share with a posterior above 80 %": float((chances.max(axis=1) > SURE).mean())}
        if knowledge.ceilings is not None:
            far = np.minimum(2 * knowledge.ceilings, 1.0)
            share = float((chances > far * (1 + 1e-9)).any(axis=1).mean())
            by_label = {"share with a posterior above twice the ceiling": share, **by_label}
        if isinstance(knowledge.view, BucketsView):
            dealt = knowledge.view.dealt
            if not (exact := dealt.exact[dealt.bucket]).all():
                label = f"share in buckets of more than {EXACT}, where this is an approximation"
                by_label[label] = 1 - float(exact.mean())
        return by_label

    def besides(
        self, knowledge: Knowledge, rule: Links, targets: People, draws: Draws
    ) -> Mapping[str, IntArray]:
        prior = knowledge.view.prior
        alone = np.exp(rule.log_chances(targets.codes))
        guesses = {"by the links alone, without a release": pick(alone, prior, draws, "alone")}
        if knowledge.thorough:
            without, without_alone = _cross_fitted(knowledge, targets, draws)
            guesses["without the person among the links"] = pick(without, prior, draws, "without")
            guesses["links alone, without the person"] = pick(
                without_alone, prior, draws, "neither"
            )
        return guesses


def table_links(knowledge: Knowledge, rows: IntArray, draws: Draws) -> Links:
    """The raw table's associations, as some of its people show them."""
    people = knowledge.people.take(rows)
    return know_links(
        people.codes,
        people.domains.sizes,
        bins_of(knowledge),
        people.truth,
        people.values,
        lambda n, k: draws.order("links", n)[:k],
    )


def _cross_fitted(
    knowledge: Knowledge, targets: People, draws: Draws
) -> tuple[FloatArray, FloatArray]:
    """Chances with and without the release, by associations learned from the half of the people
    that a target is not in."""
    people = knowledge.people
    side = np.empty(len(people), np.int64)
    side[draws.order("sides", len(people))] = np.arange(len(people)) % 2
    index = np.searchsorted(people.rows, targets.rows)
    chances = np.zeros((len(targets), people.values))
    alone = np.zeros_like(chances)
    for half in (0, 1):
        inside = np.flatnonzero(side[index] == half)
        others = np.flatnonzero(side != half)
        if len(inside) and len(others):
            rule = table_links(knowledge, others, draws)
            those = targets.take(inside)
            chances[inside] = weighed(knowledge, rule, those, draws)
            alone[inside] = np.exp(rule.log_chances(those.codes))
    return chances, alone
