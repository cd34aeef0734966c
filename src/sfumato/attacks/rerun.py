"""Rerun: a reader who knows the program, everybody's quasi columns and who matches whom.

Every row shows the value of one of its matches, so the values behind the rows of a block (rows and
people that hang together) are one of a few tables. Whom a program brings together may depend on
those values; then only the true table gives the same matches again. What the reader can try is a
matter of the program (`READERS`): each gives the pairs of a row and a person a weight, and the
value with the largest weight is the person's guess. Match sets are not published. Here they are
taken from the private trace of `publish --trace`, as if the reader had found them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from sfumato.attacks.people import People, pick
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.attacks.rerun_buckets import bucket_weights
from sfumato.attacks.rerun_ring import ring_weights
from sfumato.attacks.reruns import Reading
from sfumato.attacks.views import RangesView
from sfumato.draws import Draws
from sfumato.errors import UsageError
from sfumato.guarantees.words import Known
from sfumato.release import GeneralizedRelease, Release

READERS: Mapping[str, Reading] = {"ring": ring_weights, "heterogeneous": bucket_weights}


@dataclass(frozen=True)
class Rerun(Attack):
    """Try the tables that the match sets allow, and keep to the one that gives them again."""

    name: ClassVar[str] = "rerun"
    sentence: ClassVar[str] = (
        "Knows the program and who matches whom, and tries which table would look like that."
    )
    knows: ClassVar[Known] = Known.MATCHES
    kinds: ClassVar[tuple[type[Release], ...]] = (GeneralizedRelease,)

    @classmethod
    def forms(cls) -> list[Self]:
        return []  # it needs the private trace: `all` runs it where there is one

    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        matches, view = knowledge.matches, knowledge.view
        if matches is None:
            raise UsageError(
                "The attack 'rerun' needs who matches whom: name the folder that 'publish --trace' "
                "wrote with --trace."
            )
        assert isinstance(view, RangesView)
        reading = READERS.get(matches.mechanism)
        if reading is None:
            raise UsageError(
                f"The attack 'rerun' knows {', '.join(READERS)}; the release was made by "
                f"{matches.mechanism}, whose people share a group and have no matches of their own."
            )
        weights = np.zeros(len(matches.records))
        recovered = 0
        for number, block in enumerate(matches.blocks()):
            found = reading(block, view.shown, matches.axes, draws.child(f"block {number}"))
            weights[block.edges] = found.weights
            recovered += len(block.records) if found.recovered else 0
        scores = np.zeros((len(matches.degrees), view.values))
        np.add.at(scores, (matches.records, view.shown[matches.rows]), weights)
        own = scores[np.searchsorted(knowledge.people.rows, targets.rows)]
        values = pick(own, view.prior, draws, "rerun ties")
        figures = {
            "chance among matches": float((1 / matches.degrees).mean()),
            "structure recovered": recovered / max(len(matches.degrees), 1),
        }
        total = np.maximum(own.sum(axis=1), 1e-300)
        return Guesses(values, own[np.arange(len(own)), values] / total, figures)
