"""Linkage: find the records that look like the person, and take the value that they show.

The chance to pick the right record is the prosecutor's risk (the adversary knows that the person
is in the release: one over the number of records that match), the journalist's (he does not: one
over the number of people who look alike in the table that stands for the population), and the
marketer's (the share of people a whole linkage would get right).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.attacks.people import People, common_keys, pick
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.draws import Draws, IntArray
from sfumato.guarantees.words import Known


@dataclass(frozen=True)
class Linkage(Attack):
    """Guess the value that the matching records make likeliest; without a match, the commonest."""

    name: ClassVar[str] = "linkage"
    sentence: ClassVar[str] = (
        "Finds the records that look like the person, and takes the value that they make likeliest."
    )
    knows: ClassVar[Known] = Known.NOTHING

    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        view = knowledge.view
        matches, shares = view.near(targets)
        prior = view.prior
        shares = np.where(matches[:, None] > 0, shares, prior[None, :])
        values = pick(shares, prior, draws, "linkage ties")
        sure = shares[np.arange(len(shares)), values]
        return Guesses(values, sure, _risks(knowledge, targets, matches))


def _risks(knowledge: Knowledge, targets: People, matches: IntArray) -> dict[str, float]:
    if not len(targets) or not targets.codes:
        return {}
    inside, wanted = common_keys(knowledge.people.codes, targets.codes)
    alike = np.bincount(inside, minlength=int(wanted.max()) + 1)[wanted]
    linked = matches > 0
    one = np.where(linked, 1 / np.maximum(matches, 1), 0.0)
    population = np.where(alike > 0, 1 / np.maximum(alike, 1), 0.0)
    return {
        "prosecutor risk, highest": float(one.max()),
        "people with one matching record": float((matches == 1).mean()),
        "people with at most 5 matching records": float((linked & (matches <= 5)).mean()),
        "journalist risk, highest": float(np.where(linked, population, 0.0).max()),
        "marketer risk": float(one.mean()),
    }
