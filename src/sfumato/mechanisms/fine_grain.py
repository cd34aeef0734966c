"""Fine-grain perturbation: the values that may be shown are kept more often (thesis, Chapter 5).

A plan is published, so objectives look at the shares that a guarantee states. Where it states none
they look at rounded counts: an operator then tells roughly how common each value is, and to who
knows all others often what one record was (two values of one of 1,000 people make different ones in
a fifth of the pairs).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from sfumato.columns import list_some, value_text
from sfumato.errors import UsageError, WeakPromiseWarning
from sfumato.guarantees.odds import OddsGuarantee
from sfumato.mechanisms.perturbed import Chosen, PerturbingMechanism
from sfumato.mechanisms.retentions import (
    TopRetention,
    as_floats,
    best_top,
    drawable,
    largest_common_top,
    retentions,
    uniform_retention,
)
from sfumato.operators import FineGrain
from sfumato.operators import retention as closed
from sfumato.operators.base import FloatArray
from sfumato.profile import Histogram
from sfumato.textform import Parameter, decimal_text

Gammas = Sequence[Fraction | None]
OBJECTIVES = ("records", "counts")
NOTHING = 1e-4  # a value kept less often than this part of the uniform retention is lost
_AT_ONCE = 1 << 20  # retentions in one array
COUNT_BITS = 4  # significant binary digits of counts in objectives


@dataclass(frozen=True)
class FineGrainPerturbation(PerturbingMechanism):
    """Keep every value with its own probability, the best that its limit allows.

    `objective` is what is best: "records" keeps as many records as they were as possible (the
    thesis's optimum); "counts" makes the total variance of
    estimated counts as small as this family allows, and is never worse than `uniform` at that.
    "records" would drive the most sensitive values to 0 (errata T12), so no value is kept less
    often than `p_min` times the uniform retention; values held up by it are named in a warning.
    Planning sees the shares that a promise with limits states, and else rounded limits and counts
    (`limits`); the exact optimum below is .53 .53 .53 .28 .17.

    >>> from sfumato.guarantees import FineRhoPrivacy
    >>> from sfumato.draws import Draws
    >>> from sfumato.profile import Profile
    >>> counts = Histogram("s", ("HD", "cancer", "AIDS", "malaria", "H1N1"),
    ...                    np.array([4, 4, 3, 2, 1]))
    >>> plan = FineGrainPerturbation().plan(
    ...     Profile(14, {"s": counts}), FineRhoPrivacy(theta=3), Draws.from_seed(1))
    >>> [round(p, 2) for p in plan.operators["s"].retentions.tolist()]
    [0.52, 0.52, 0.52, 0.29, 0.17]
    """

    objective: str = "records"
    p_min: Fraction = Fraction(1, 4)

    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("objective", options=OBJECTIVES),
        Parameter("p_min", least=0, most=1),  # a part of the uniform retention
    )
    name: ClassVar[str] = "fine-grain"
    sentence: ClassVar[str] = (
        "Keeps each value with a chance of its own, the best that its limit allows."
    )

    @classmethod
    def candidates(cls) -> list[Self]:
        return [cls(objective="counts")]

    def choose(self, histogram: Histogram, guarantee: OddsGuarantee) -> Chosen:
        gammas, limit = guarantee.planning_limits(histogram), guarantee.odds_limits(histogram)
        stated = guarantee.planning_shares(histogram.column, histogram.values) is not None
        uniform = uniform_retention(gammas)
        if self.objective == "counts":
            rough = planning_counts(guarantee, histogram)
            # by the true counts, uniform retention may be the better where they may be seen
            counts = rough if stated else histogram.counts.astype(np.float64)
            operator = _never_worse(best_for_counts(gammas, rough), uniform, counts)
            return Chosen(operator, limit, fitted=not stated)
        shares = planning_counts(guarantee, histogram) / max(histogram.rows, 1)
        operator = best_for_records(gammas, shares, self.p_min * uniform)
        floor = _at_floor(operator, self.p_min * uniform)
        self._report_floor(histogram, operator, floor, uniform)
        return Chosen(operator, limit, floor, not stated)

    def _report_floor(
        self,
        histogram: Histogram,
        operator: FineGrain,
        codes: Sequence[int],
        uniform: Fraction,
    ) -> None:
        least = float(uniform) * NOTHING
        lost = [code for code, kept in enumerate(operator.retentions) if kept <= least]
        if not lost and (not codes or self.p_min == 1):
            return
        named = list_some([value_text(histogram.values[code]) for code in lost or codes])
        if lost:
            raise UsageError(
                f"'{self}' keeps nothing of {named} in column {histogram.column!r}, so their "
                "counts could not be estimated. Choose a p_min above 0, such as 0.25, or "
                "objective=counts."
            )
        warnings.warn(
            f"Column {histogram.column!r}: keeping most records would leave nothing of "
            f"{named}; p_min keeps them at {decimal_text(self.p_min)} of the uniform "
            "retention, and their counts are estimated with little precision. "
            "objective=counts serves counts better.",
            WeakPromiseWarning,
            stacklevel=4,
        )


def planning_counts(guarantee: OddsGuarantee, histogram: Histogram) -> FloatArray:
    """Counts to plan for: by the shares that the guarantee states, or rounded ones; 0 stays 0.

    >>> from sfumato.guarantees import FineRhoPrivacy
    >>> counts = Histogram("s", ("a", "b", "c"), np.array([1001, 5, 0]))
    >>> planning_counts(FineRhoPrivacy(theta=2), counts).tolist()
    [1024.0, 5.0, 0.0]
    >>> planning_counts(FineRhoPrivacy(limits="a:0.2:0.5;*:0.1:0.3"), counts).tolist()
    [503.0, 251.5, 251.5]
    """
    stated = guarantee.planning_shares(histogram.column, histogram.values)
    if stated is not None:
        return np.array([float(share * histogram.rows) for share in stated])
    counts = histogram.counts.astype(np.float64)
    step = 2.0 ** (np.floor(np.log2(np.maximum(counts, 1))) + 1 - COUNT_BITS)
    return np.asarray(np.round(counts / step) * step)


def best_for_records(gammas: Gammas, shares: FloatArray, p_min: Fraction) -> FineGrain:
    """The thesis's optimum above p_min, rounded so that every limit holds exactly."""
    top = best_top(as_floats(gammas), shares, float(p_min))
    return FineGrain.of_numerators(drawable(gammas, top, p_min))


def best_for_counts(gammas: Gammas, counts: FloatArray) -> FineGrain:
    """The smallest total variance Σ Var(n̂_x) along t, from uniform retention to the largest t.

    A grid finds the valley and a finer one its bottom; both follow from the limits alone, so t
    tells little about the counts. Uniform retention is one end, so the result is never worse.
    """
    floats = as_floats(gammas)
    value = int(np.argmax(floats))
    low = float(uniform_retention(gammas))
    high = largest_common_top(floats, low * 1e-3) if np.isfinite(floats).any() else 1.0

    def best_of(tops: FloatArray) -> int:
        totals, step = [], max(_AT_ONCE // len(floats), 1)
        for first in range(0, len(tops), step):
            p = retentions(floats, value, tops[first : first + step])
            lost = p.min(axis=1) <= 0
            p[lost] = 1.0
            totals.append(np.where(lost, np.inf, closed.total_variances(counts, p)))
        return int(np.argmin(np.concatenate(totals)))

    grid = np.linspace(low, max(high, low), 65)
    at = best_of(grid)
    finer = np.linspace(grid[max(at - 1, 0)], grid[min(at + 1, 64)], 17)
    tops = np.concatenate([grid[at : at + 1], finer])
    best = TopRetention(value, float(tops[best_of(tops)]))
    return FineGrain.of_numerators(drawable(gammas, best, Fraction(0)))


def _never_worse(operator: FineGrain, uniform: Fraction, counts: FloatArray) -> FineGrain:
    """The operator, or uniform retention where that estimates these counts better."""
    same = FineGrain.of([uniform] * operator.values)
    return same if same.variances(counts).sum() < operator.variances(counts).sum() else operator


def _at_floor(operator: FineGrain, p_min: Fraction) -> list[int]:
    floor = FineGrain.of([p_min]).kept[0]
    return [code for code, kept in enumerate(operator.kept) if kept <= floor * (1 + 1e-6) + 64]
