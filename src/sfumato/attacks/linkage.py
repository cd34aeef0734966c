"""Linkage: find the records that look like the person, and take the value that they show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sfumato.attacks.people import People
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.draws import Draws
from sfumato.guarantees.words import Known


@dataclass(frozen=True)
class Linkage(Attack):
    """Guess the value that the matching records make likeliest; without a match, the commonest.

    The prosecutor's risk is one over the number of records that match: the chance to pick the
    right one.
    """

    name: ClassVar[str] = "linkage"
    sentence: ClassVar[str] = (
        "Finds the records that look like the person, and takes the value that they make likeliest."
    )
    knows: ClassVar[Known] = Known.NOTHING

    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        matches, shares = knowledge.view.looked_up(targets)
        figures = {}
        if len(targets):
            few = (matches > 0) & (matches <= 5)
            figures = {
                "prosecutor risk, highest": float((1 / matches[matches > 0]).max(initial=0.0)),
                "people with one matching record": float((matches == 1).mean()),
                "people with at most 5 matching records": float(few.mean()),
            }
        return Guesses.likeliest(self, knowledge, shares, draws, figures)
