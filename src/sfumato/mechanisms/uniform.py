"""Uniform perturbation under (rho1, rho2)-privacy (thesis, Section 2.1, Equation 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.draws import Draws
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.rho import RhoPrivacy
from sfumato.mechanisms.protocol import Batch, Mechanism, Plan, Published
from sfumato.operators import Uniform
from sfumato.operators.base import Operator
from sfumato.profile import Profile


@dataclass(frozen=True, eq=False)
class PerturbedPlan(Plan):
    """One operator per sensitive column, drawn independently record by record.

    `limits` are the amplifications that the guarantee allows; `rows` the records of the table.
    """

    operators: Mapping[str, Operator]
    limits: Mapping[str, Fraction]
    rows: int

    kind: ClassVar[str] = "perturbed"

    def apply(self, batch: Batch, draws: Draws) -> Published:
        return Published(
            {
                column: operator.apply(
                    batch.codes[column], f"perturb {column}", batch.addresses[column], draws
                )
                for column, operator in self.operators.items()
            }
        )

    def public(self) -> dict[str, Any]:
        return {"operators": {c: operator.to_json() for c, operator in self.operators.items()}}

    def caveats(self) -> list[str]:
        return [
            f"Column {column!r} is {math.log(operator.amplification()):.4g}-locally differentially "
            "private: every published value is at most that many e-folds likelier under one true "
            "value than under another."
            for column, operator in self.operators.items()
        ]

    def predicted_error(self) -> float:
        return max(
            relative_error(operator.weights(), operator.matrix(), self.rows)
            for operator in self.operators.values()
        )

    def check(self) -> None:
        for column, operator in self.operators.items():
            assert operator.amplification() <= self.limits[column], (column, operator)


def relative_error(weights: np.ndarray, matrix: np.ndarray, rows: int) -> float:
    """Root mean square error of the share of a value, all values alike, over 1/m.

    Var(n̂_x) = Σ_r Σ_y P[x_r, y] W[y, x]² − n_x, with the true values taken as evenly spread.
    """
    m = len(weights)
    variance = (matrix @ weights**2).mean(axis=0) - 1 / m
    return float(np.sqrt(np.maximum(variance, 0).mean() / max(rows, 1)) * m)


@dataclass(frozen=True)
class UniformPerturbation(Mechanism):
    """Keep each value with the largest probability p that the promise allows.

    >>> from sfumato.profile import Histogram, Profile
    >>> counts = Histogram("s", tuple("abc"), np.array([2, 2, 6]))
    >>> plan = UniformPerturbation().plan(
    ...     Profile(10, {"s": counts}), RhoPrivacy("1/5", "1/4"), Draws.from_seed(1))
    >>> round(float(plan.operators["s"].retention), 6)
    0.1
    """

    name: ClassVar[str] = "uniform"

    def keeps(self, guarantee: Guarantee) -> bool:
        return isinstance(guarantee, RhoPrivacy)

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> PerturbedPlan:
        assert isinstance(guarantee, RhoPrivacy)
        operators = {}
        for column, histogram in profile.histograms.items():
            guarantee.check(histogram)
            operators[column] = Uniform.for_amplification(len(histogram.values), guarantee.gamma)
        limits = dict.fromkeys(operators, guarantee.gamma)
        return PerturbedPlan(operators, limits, profile.rows)
