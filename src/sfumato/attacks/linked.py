"""Linked: a reader who knows how values and quasi columns hang together in the raw table.

Ceilings are promised against a reader who knows no link. This one knows them all: P(value | quasi)
as naive Bayes or softmax learn it from the *raw* table, whichever foresees better, and weighs it
with what the release shows of the very person (methods, section 7). The person's own record is in
that table, so the same is told without it: rules learned from the other half of the people. What a
rule alone reaches, with no release at all, stands beside: the difference is what the release adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.attacks.believing import believe, bins_of
from sfumato.attacks.people import People, pick
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.attacks.views import BucketsView
from sfumato.draws import Draws, IntArray
from sfumato.guarantees.words import Known
from sfumato.operators.base import FloatArray
from sfumato.operators.dealt import EXACT
from sfumato.operators.links import Links, know_links

SURE = 0.8  # from which chance on a value counts as known


@dataclass(frozen=True)
class Linked(Attack):
    """Know the table's own links, then weigh them with the person's own record.

    >>> str(Linked())
    'linked'
    """

    name: ClassVar[str] = "linked"
    sentence: ClassVar[str] = (
        "Knows beforehand how quasi columns and values hang together in the raw table, and "
        "weighs that with the records that may be the person's."
    )
    knows: ClassVar[Known] = Known.LINKS

    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        prior = knowledge.view.prior
        if not targets.codes:
            chances = np.tile(prior, (len(targets), 1))
            return Guesses(pick(chances, prior, draws, "linked ties"), chances.max(axis=1))
        rule = table_links(knowledge, np.arange(len(knowledge.people)), draws)
        chances = believe(knowledge, rule, targets, draws)
        values = pick(chances, prior, draws, "linked ties")

        def besides() -> Mapping[str, IntArray]:
            alone = np.exp(rule.log_chances(targets.codes))
            without, without_alone = _cross_fitted(knowledge, targets, draws)
            return {
                "by the links alone, without a release": pick(alone, prior, draws, "alone"),
                "without the person among the links": pick(without, prior, draws, "without"),
                "links alone, without the person": pick(without_alone, prior, draws, "neither"),
            }

        sure = chances[np.arange(len(chances)), values]
        return Guesses(values, sure, _believed(knowledge, chances), besides)


def table_links(knowledge: Knowledge, rows: IntArray, draws: Draws) -> Links:
    """The raw table's links, as some of its people show them."""
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
    """Chances with and without the release, by links learned from the half of the people that a
    target is not in."""
    people = knowledge.people
    side = np.empty(len(people), np.int64)
    side[draws.order("sides", len(people))] = np.arange(len(people)) % 2
    place = np.searchsorted(people.rows, targets.rows)
    chances = np.zeros((len(targets), people.values))
    alone = np.zeros_like(chances)
    for half in (0, 1):
        inside = np.flatnonzero(side[place] == half)
        others = np.flatnonzero(side != half)
        if len(inside) and len(others):
            rule = table_links(knowledge, others, draws)
            those = targets.take(inside)
            chances[inside] = believe(knowledge, rule, those, draws)
            alone[inside] = np.exp(rule.log_chances(those.codes))
    return chances, alone


def _believed(knowledge: Knowledge, chances: FloatArray) -> dict[str, float]:
    """Of how many people a value is believed far beyond what the promise allows."""
    if not len(chances):
        return {}
    found = {"share believed above 80 %": float((chances.max(axis=1) > SURE).mean())}
    if knowledge.ceilings is not None:
        far = np.minimum(2 * knowledge.ceilings, 1.0)
        share = float((chances > far * (1 + 1e-9)).any(axis=1).mean())
        found = {"share believed above twice the ceiling": share, **found}
    if isinstance(knowledge.view, BucketsView):
        dealt = knowledge.view.dealt
        if not (exact := dealt.exact[dealt.bucket]).all():
            label = f"share in buckets of more than {EXACT}, where this is an approximation"
            found[label] = 1 - float(exact.mean())
    return found
