"""Publishing as before: the operators of an earlier release, if they still keep the promise.

A person's draw repeats only under the same operator and domain. Where an operator follows from the
histogram, or the domain from the values that occur, next month's plan would be another one and
draw everybody afresh; so it is taken over instead, and held to the promise on today's counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from sfumato.columns import Value, value_text
from sfumato.errors import DataError, InfeasibleGuarantee
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.odds import OddsGuarantee
from sfumato.mechanisms.perturbed import Allowed, Chosen, PerturbingMechanism, within
from sfumato.operators.base import Operator
from sfumato.profile import Histogram


@dataclass(frozen=True, eq=False)
class AsBefore(PerturbingMechanism):
    """A mechanism whose operators for some columns are given; it is named like that mechanism.

    >>> import numpy as np
    >>> from sfumato.draws import Draws
    >>> from sfumato.profile import Profile
    >>> from fractions import Fraction
    >>> from sfumato.guarantees import RhoPrivacy
    >>> from sfumato.mechanisms.uniform import UniformPerturbation
    >>> from sfumato.operators import Uniform
    >>> operators = {"s": Uniform(2, Fraction(1, 8))}
    >>> before = AsBefore(UniformPerturbation(), operators, {"s": ("a", "b")})
    >>> counts = Histogram("s", ("a", "b"), np.array([2, 6]))
    >>> plan = before.plan(Profile(8, {"s": counts}), RhoPrivacy("1/4", "1/2"), Draws.from_seed(1))
    >>> str(before), plan.operators["s"].retention
    ('uniform', Fraction(1, 8))
    """

    mechanism: PerturbingMechanism
    operators: Mapping[str, Operator]
    domains: Mapping[str, tuple[Value, ...]]

    name: ClassVar[str] = "as-before"

    def __str__(self) -> str:
        return str(self.mechanism)

    def keeps(self, guarantee: Guarantee) -> bool:
        return self.mechanism.keeps(guarantee)

    def choose(self, histogram: Histogram, guarantee: OddsGuarantee) -> Chosen:
        before = self.operators.get(histogram.column)
        if before is not None:
            chosen = Chosen(before, self._limits(guarantee, histogram))
        else:  # published for the first time
            chosen = self.mechanism.choose(histogram, guarantee)
        stated = guarantee.planning_shares(histogram.column, histogram.values) is not None
        return chosen._replace(floor=(), fitted=chosen.operator.form != "uniform" and not stated)

    def _limits(self, guarantee: OddsGuarantee, histogram: Histogram) -> Allowed:
        """What the promise allows today; raises where the operator goes beyond it."""
        column, limits = histogram.column, guarantee.odds_limits(histogram)
        if histogram.values != self.domains[column]:
            raise DataError(
                f"Column {column!r} has another domain than in the previous release, so everybody "
                "would be drawn again. Publish without --previous, and know that the two releases "
                "together tell more than one."
            )
        gains = self.operators[column].odds_gains()
        for value, gain, limit in zip(histogram.values, gains, limits, strict=True):
            if not within(gain, limit):
                raise InfeasibleGuarantee(
                    f"The operator of the previous release no longer keeps '{guarantee}' for "
                    f"{value_text(value)} in column {column!r}: with today's shares it would tell "
                    "more than the promise allows. A stricter operator draws everybody again: "
                    "publish without --previous, and know that the two releases together tell "
                    "more than one.",
                    witness=value_text(value),
                )
        return limits
