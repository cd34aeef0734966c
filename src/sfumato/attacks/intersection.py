"""Intersection: a person stands in a bucket of every release, and in all of them has one value.

Buckets of releases of the same people are drawn independently of one another, so whoever finds the
person's bucket gᵢ in each of them believes P(x) ∝ f_x · Πᵢ cₓ(gᵢ) / (|gᵢ| f_x): after a few
releases only the true value is left in all lists. Of ranges and sets the records that hold the
person stand for the bucket: the composition attack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from sfumato.attacks.people import People
from sfumato.attacks.protocol import Attack, Guesses, Knowledge
from sfumato.attacks.views import normalised
from sfumato.draws import Draws
from sfumato.errors import UsageError
from sfumato.guarantees.words import Known
from sfumato.operators.base import FloatArray
from sfumato.release import BucketedRelease, GeneralizedRelease, Release


@dataclass(frozen=True)
class Intersection(Attack):
    """Multiply what the person's buckets of all releases tell; people who look alike are mixed."""

    name: ClassVar[str] = "intersection"
    sentence: ClassVar[str] = (
        "Finds the person's bucket, or the ranges that hold them, in several releases, and keeps "
        "the values that all of them list."
    )
    knows: ClassVar[Known] = Known.RELEASES
    kinds: ClassVar[tuple[type[Release], ...]] = (BucketedRelease, GeneralizedRelease)

    @classmethod
    def forms(cls) -> list[Self]:
        return []  # it needs another release, so `all` does not run it

    def guess(self, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
        if not knowledge.others:
            raise UsageError(
                "The attack 'intersection' needs another release of the same people: name it with "
                "--with."
            )
        views = (knowledge.view, *knowledge.others)
        chances = intersected(knowledge.view.prior, [view.looked_up(targets)[1] for view in views])
        figures = {
            "releases": float(len(views)),
            "largest chance of a value": float(chances.max(initial=0.0)),
        }
        if knowledge.ceilings is not None and len(chances):
            above = (chances > knowledge.ceilings + 1e-9).any(axis=1)
            figures["people beyond the promise"] = float(above.mean())
        return Guesses.likeliest(self, knowledge, chances, draws, figures)


def intersected(prior: FloatArray, shares: list[FloatArray]) -> FloatArray:
    """P(x) ∝ f_x · Π shareᵢ(x) / f_x by person; of contradictions nothing is concluded.

    >>> one, two = np.array([[0.5, 0.5, 0.0]]), np.array([[0.5, 0.0, 0.5]])
    >>> intersected(np.full(3, 1 / 3), [one, two]).tolist()
    [[1.0, 0.0, 0.0]]
    """
    posterior = np.tile(prior, (len(shares[0]), 1))
    for share in shares:
        posterior = np.divide(
            posterior * share, prior, out=np.zeros_like(posterior), where=prior > 0
        )
    return normalised(posterior, prior)
