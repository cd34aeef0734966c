"""Uniform perturbation under (rho1, rho2)-privacy (thesis, Section 3.2, Equations 4 to 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sfumato.columns import value_text
from sfumato.errors import InfeasibleGuarantee
from sfumato.guarantees.odds import OddsGuarantee
from sfumato.mechanisms.perturbed import Chosen, PerturbingMechanism
from sfumato.operators import Uniform
from sfumato.profile import Histogram


@dataclass(frozen=True)
class UniformPerturbation(PerturbingMechanism):
    """Keep each value with the largest probability p that the promise allows whatever the counts.

    So the operator follows from the promise and the domain alone.

    >>> import numpy as np
    >>> from sfumato.guarantees import RhoPrivacy
    >>> from sfumato.draws import Draws
    >>> from sfumato.profile import Profile
    >>> counts = Histogram("s", tuple("abc"), np.array([2, 2, 6]))
    >>> plan = UniformPerturbation().plan(
    ...     Profile(10, {"s": counts}), RhoPrivacy("1/5", "1/4"), Draws.from_seed(1))
    >>> round(float(plan.operators["s"].retention), 6)
    0.1
    """

    name: ClassVar[str] = "uniform"
    sentence: ClassVar[str] = (
        "Keeps each value with one chance and else draws any value: simple, well known."
    )

    def choose(self, histogram: Histogram, guarantee: OddsGuarantee) -> Chosen:
        limit = guarantee.common_limit(histogram.column, histogram.values)
        operator = Uniform.for_amplification(len(histogram.values), limit)
        if operator.retention == 0:  # less than one in 2³²: nothing could be counted
            raise InfeasibleGuarantee(
                f"'{guarantee}' lets so little be learnt about column {histogram.column!r} "
                "that no value could be kept at all, and no count estimated. Choose limits "
                "that are further apart.",
                witness=value_text(histogram.values[int(histogram.counts.argmin())]),
            )
        return Chosen(operator, limit)
