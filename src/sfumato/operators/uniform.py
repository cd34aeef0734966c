"""Uniform perturbation: keep the value with probability p, else any value of the domain."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.draws import Address, Draws, IntArray
from sfumato.errors import BundleError
from sfumato.operators.base import DYADIC, FloatArray, dyadic_floor
from sfumato.operators.inverse import Inverse
from sfumato.operators.retention import RetentionOperator


@dataclass(frozen=True)
class Uniform(RetentionOperator):
    """P = p·I + (1−p)/m·J (thesis, Equation 1). `retention` is p, on the diagonal p + (1−p)/m.

    >>> Uniform.for_amplification(3, Fraction(4, 3)).retention
    Fraction(429496729, 4294967296)
    >>> [round(x, 6) for x in Uniform(3, Fraction(1, 10)).matrix()[0].tolist()]
    [0.4, 0.3, 0.3]
    """

    values: int
    retention: Fraction

    form: ClassVar[str] = "uniform"

    def __post_init__(self) -> None:
        if self.values < 1 or not 0 <= self.retention <= 1:
            raise BundleError(
                f"A uniform operator needs at least one value and a retention in [0, 1]; got "
                f"{self.values} values and retention {self.retention}."
            )

    @classmethod
    def for_amplification(cls, values: int, gamma: Fraction) -> Uniform:
        """The largest drawable retention with amplification ≤ gamma: p = (γ−1)/(m−1+γ)."""
        return cls(values, dyadic_floor((gamma - 1) / (values - 1 + gamma)))

    @property
    def diagonal(self) -> Fraction:
        return self.retention + self.off_diagonal

    @property
    def off_diagonal(self) -> Fraction:
        return (1 - self.retention) / self.values

    def matrix(self) -> FloatArray:
        return np.full((self.values, self.values), float(self.off_diagonal)) + float(
            self.retention
        ) * np.eye(self.values)

    def wrong_sum(self, code: int, counts: IntArray, error: Fraction) -> float:
        """Of f records with x and N − f without: Binomial(f, p + q) + Binomial(N − f, q) show x.

        >>> counts = np.array([3, 40, 40, 17])
        >>> round(Uniform(4, Fraction(1, 2)).wrong_sum(0, counts, Fraction(3, 10)), 2)
        0.88
        """
        from scipy import stats

        if not self.retention:
            return 1.0
        people, others = int(counts[code]), int(counts.sum() - counts[code])
        middle = (people + others) * self.off_diagonal + people * self.retention
        far = error * people * self.retention
        low, high = math.floor(middle - far) + 1, math.ceil(middle + far) - 1
        kept = np.arange(people + 1)
        rate = float(self.off_diagonal)
        right = stats.binom.cdf(high - kept, others, rate)
        right -= stats.binom.cdf(low - 1 - kept, others, rate)
        return float(1 - stats.binom.pmf(kept, people, float(self.diagonal)) @ right)

    def inverse(self) -> Inverse:
        # methods, section 1: W[y, x] = (1{y=x} − (1−p)/m) / p
        if self.retention == 0:
            raise BundleError("The operator retains nothing, so no count can be estimated from it.")
        p, ones = float(self.retention), np.ones(self.values)
        left = ones if self.retention < 1 else 0 * ones
        return Inverse.of_values(ones / p, left, ones * (-float(self.off_diagonal) / p))

    @property
    def retentions(self) -> FloatArray:
        return np.full(self.values, float(self.retention))

    def amplification(self) -> Fraction:
        return self.diagonal / self.off_diagonal

    def condition(self) -> float:
        if self.values == 1:
            return 1.0
        return 1 / float(self.retention) if self.retention else float("inf")

    def apply(self, codes: IntArray, purpose: str, address: Address, draws: Draws) -> IntArray:
        words = draws.words(purpose, address)
        threshold = self.retention * DYADIC
        if threshold.denominator != 1:
            raise ValueError("records are drawn with dyadic probabilities only")
        anything = draws.below_small(purpose, address, words & np.uint64(DYADIC - 1), self.values)
        kept = (words >> np.uint64(32)) < np.uint64(threshold.numerator)
        np.copyto(anything, codes, where=kept)
        return anything

    def to_json(self) -> dict[str, Any]:
        return {"form": self.form, "values": self.values, "retention": str(self.retention)}

    @classmethod
    def from_json(cls, described: dict[str, Any]) -> Self:
        values, retention = described.get("values"), described.get("retention")
        try:
            # short and without exponents: "1e999999999" would take all memory
            if type(values) is not int or not re.fullmatch(r"\d{1,40}(/\d{1,40})?", str(retention)):
                raise ValueError
            return cls(values, Fraction(str(retention)))
        except (ValueError, ZeroDivisionError):
            raise BundleError(
                "The manifest's uniform operator is unreadable: expected 'values' and 'retention'."
            ) from None
