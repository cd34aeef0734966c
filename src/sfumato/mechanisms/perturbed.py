"""The plan of every mechanism that draws each record's value by one operator per column."""

from __future__ import annotations

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from sfumato.columns import value_to_json
from sfumato.draws import Address, Draws, Positions
from sfumato.guarantees.base import Guarantee
from sfumato.guarantees.odds import OddsGuarantee
from sfumato.mechanisms.protocol import Batch, Mechanism, Published, RecordPlan
from sfumato.operators.base import FloatArray, Operator
from sfumato.profile import Histogram, Profile
from sfumato.public import PublicPlan, fitted, from_stated

Allowed = Fraction | Sequence[Fraction | None]  # one amplification for all values, or one each


@dataclass(frozen=True, eq=False)
class PerturbedPlan(RecordPlan):
    """One operator per sensitive column, drawn independently record by record.

    `limits` say how much the guarantee allows any value's odds to rise (None: no limit); `rows`
    are the records of the table; `floors` name the values that only p_min kept countable;
    `fitted` says that the operators follow from the histogram, coarsely rounded.
    """

    operators: Mapping[str, Operator]
    limits: Mapping[str, Allowed]
    rows: int
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    floors: Mapping[str, Sequence[int]] = field(default_factory=dict)
    fitted: bool = False

    kind: ClassVar[str] = "perturbed"

    def apply(self, batch: Batch, draws: Draws) -> Published:
        return Published(
            {
                column: operator.apply(
                    batch.codes[column],
                    self._purpose(column, batch.addresses[column]),
                    batch.addresses[column],
                    draws,
                )
                for column, operator in self.operators.items()
            }
        )

    def _purpose(self, column: str, address: Address) -> str:
        """What a column's draws are for; those that belong to people, for this operator only.

        Two operators that used a person's same words would betray them: whoever is shown with one
        value by a retention of 0.3 and with another by 0.4 was kept by the second, so that value
        is the true one. Independent draws tell no more than two releases do.
        """
        if isinstance(address, Positions):
            return f"perturb {column}"
        return f"perturb {column} by {self._fingerprints[column]}"

    @cached_property
    def _fingerprints(self) -> dict[str, str]:
        """Operator and domain of every column, as one short text."""
        fingerprints = {}
        for column, operator in self.operators.items():
            histogram = self.histograms.get(column)
            values = (
                [] if histogram is None else [value_to_json(value) for value in histogram.values]
            )
            text = json.dumps([operator.to_json(), values], sort_keys=True)
            fingerprints[column] = hashlib.sha256(text.encode()).hexdigest()
        return fingerprints

    @property
    def narrower(self) -> str:
        return "whoever knows the values of everybody else" if self.fitted else ""

    def public(self) -> PublicPlan:
        follows = fitted if self.fitted else from_stated
        operators = {c: operator.to_json() for c, operator in self.operators.items()}
        floors = {column: list(codes) for column, codes in self.floors.items() if codes}
        return {"operators": follows(operators)} | ({"floors": follows(floors)} if floors else {})

    def predicted_error(self) -> float:
        return max(
            relative_error(operator, self._counts(column))
            for column, operator in self.operators.items()
        )

    def compared_error(self, guarantee: Guarantee) -> float:
        """For shares that follow from the promise, where it says any: the choice is published."""
        errors = []
        for column, operator in self.operators.items():
            histogram = self.histograms.get(column)
            if histogram is None or not isinstance(guarantee, OddsGuarantee):
                return self.predicted_error()
            shares = guarantee.planning_shares(column, histogram.values)
            if shares is None:
                return self.predicted_error()
            counts = np.array([float(share * self.rows) for share in shares])
            errors.append(relative_error(operator, counts))
        return max(errors)

    def _counts(self, column: str) -> FloatArray:
        if column in self.histograms:
            return self.histograms[column].counts.astype(np.float64)
        m = self.operators[column].values
        return np.full(m, self.rows / m)

    def check(self) -> None:
        for column, operator in self.operators.items():
            check_limits(column, operator, self.limits[column])


class Chosen(NamedTuple):
    """The operator of a column, how much it may raise odds, which values only a floor keeps
    countable, and whether it follows from the histogram."""

    operator: Operator
    limit: Allowed
    floor: Sequence[int] = ()
    fitted: bool = False


class PerturbingMechanism(Mechanism):
    """A mechanism that draws each record's value by one operator per column."""

    guarantees: ClassVar[tuple[type[Guarantee], ...]] = (OddsGuarantee,)
    joint: ClassVar[bool] = True

    def plan(self, profile: Profile, guarantee: Guarantee, draws: Draws) -> PerturbedPlan:
        assert isinstance(guarantee, OddsGuarantee)
        chosen = dict[str, Chosen]()
        for column, histogram in profile.histograms.items():
            guarantee.require_feasible(histogram)
            chosen[column] = self.choose(histogram, guarantee)
        return PerturbedPlan(
            {column: choice.operator for column, choice in chosen.items()},
            {column: choice.limit for column, choice in chosen.items()},
            profile.rows,
            profile.histograms,
            {column: choice.floor for column, choice in chosen.items()},
            any(choice.fitted for choice in chosen.values()),
        )

    @abstractmethod
    def choose(self, histogram: Histogram, guarantee: OddsGuarantee) -> Chosen:
        """The operator of a column under a promise that it allows."""


def check_limits(column: str, operator: Operator, allowed: Allowed) -> None:
    """Exactly: no published value raises any value's odds beyond its limit."""
    if isinstance(allowed, Fraction):
        assert operator.amplification() <= allowed, (column, operator)
        return
    for code, (gain, limit) in enumerate(zip(operator.odds_gains(), allowed, strict=True)):
        assert within(gain, limit), (column, code, gain, limit)


def within(gain: Fraction | None, limit: Fraction | None) -> bool:
    """Whether a gain (None: without bound) keeps a limit (None: there is none)."""
    return limit is None or (gain is not None and gain <= limit)


def ldp_caveat(column: str, operator: Operator) -> str:
    """What the operator gives against every adversary, whatever they know."""
    try:
        gamma = operator.amplification()
    except ZeroDivisionError:
        return (
            f"Column {column!r} is not locally differentially private: some published values "
            "exclude some true ones."
        )
    return (
        f"Column {column!r} is {math.log(gamma):.4g}-locally differentially private: every "
        f"published value is at most {float(gamma):.4g} times as likely under one true value as "
        f"under another (e^{math.log(gamma):.4g})."
    )


def relative_error(operator: Operator, counts: FloatArray) -> float:
    """Root mean square error of a value's count, over the mean count: √(m·Σ Var(n̂_x))/N.

    The same figure for every mechanism, so that `publish` can compare them.
    """
    total = float(operator.variances(counts).sum())
    return math.sqrt(operator.values * total) / max(float(counts.sum()), 1.0)
