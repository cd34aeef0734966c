"""Operators that keep a value with its own probability, else draw uniformly.

P[x, y] = p_x·1{x=y} + (1−p_x)/m. Uniform perturbation, fine-grain perturbation and the sub-tables
of partitioned perturbation are all of this form; everything here costs O(m).
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.draws import Address, Draws, IntArray
from sfumato.errors import BundleError, SingularOperator
from sfumato.operators.base import DYADIC, FloatArray, Operator, dyadic_floor, largest
from sfumato.operators.inverse import Inverse


class RetentionOperator(Operator):
    """An operator of this form, by its `retentions` p."""

    @property
    @abstractmethod
    def retentions(self) -> FloatArray:
        """p_x per value."""

    @abstractmethod
    def numerators(self) -> IntArray:
        """p_x over `DYADIC`, as records are drawn."""

    def matrix(self) -> FloatArray:
        p = self.retentions
        return np.asarray(np.diag(p) + ((1 - p) / self.values)[:, None])

    def push(self, counts: FloatArray) -> FloatArray:
        return push(counts, self.retentions)

    def inverse(self) -> Inverse:
        """W[y, x] = (1{x=y} − s_y)/p_x.

        >>> Uniform(3, Fraction(1, 10)).estimate(np.array([30.0, 35.0, 35.0])).round(6).tolist()
        [0.0, 50.0, 50.0]
        """
        p = self.retentions
        if len(p) == 1:
            return Inverse.nothing_done(1)
        share = spread(p)
        return Inverse.of_values(1 / p, -share, 1 / p)

    def condition(self) -> float:
        return condition(self.retentions)

    def apply(self, codes: IntArray, purpose: str, address: Address, draws: Draws) -> IntArray:
        words = draws.words(purpose, address)
        anything = draws.below_small(purpose, address, words & np.uint64(DYADIC - 1), self.values)
        stays = (words >> np.uint64(32)).view(np.int64) < self.numerators()[codes]
        np.copyto(anything, codes, where=stays)
        return anything


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

    @property
    def retentions(self) -> FloatArray:
        return np.full(self.values, float(self.retention))

    def numerators(self) -> IntArray:
        threshold = self.retention * DYADIC
        if threshold.denominator != 1:
            raise ValueError("records are drawn with dyadic probabilities only")
        return np.full(self.values, threshold.numerator)

    def amplification(self) -> Fraction:
        return self.diagonal / self.off_diagonal

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


@dataclass(frozen=True)
class FineGrain(RetentionOperator):
    """Keep value x with probability `kept[x]` / 2³², else publish any value of the domain.

    >>> operator = FineGrain.of([Fraction(1, 2), Fraction(1, 4)])
    >>> operator.matrix().tolist()
    [[0.75, 0.25], [0.375, 0.625]]
    >>> operator.odds_gains()
    [Fraction(2, 1), Fraction(5, 2)]
    """

    kept: tuple[int, ...]

    form: ClassVar[str] = "fine-grain"

    def __post_init__(self) -> None:
        if not self.kept or not all(0 <= kept <= DYADIC for kept in self.kept):
            raise BundleError(
                "A fine-grain operator needs at least one value and retentions in [0, 1]; got "
                f"{len(self.kept)} values, numerators from {min(self.kept, default=0)} to "
                f"{max(self.kept, default=0)} over {DYADIC}."
            )

    @classmethod
    def of(cls, retentions: Sequence[Fraction]) -> FineGrain:
        """The operator with these retentions, rounded down to what can be drawn."""
        return cls(tuple(p.numerator * DYADIC // p.denominator for p in retentions))

    @property
    def values(self) -> int:  # type: ignore[override]
        return len(self.kept)

    @property
    def retentions(self) -> FloatArray:
        return np.array(self.kept, np.float64) / DYADIC

    def numerators(self) -> IntArray:
        return np.array(self.kept, np.int64)

    def odds_gains(self) -> list[Fraction | None]:
        # Lemma 6: P[x, x] is the largest entry of its row and of its column, and the smallest
        # entry of column x belongs to the value that is kept most often
        if self.values == 1:
            return [Fraction(1)]
        ordered = sorted(range(self.values), key=lambda x: self.kept[x])
        most, second = ordered[-1], ordered[-2]
        gains: list[Fraction | None] = []
        for x, kept in enumerate(self.kept):
            other = self.kept[second if x == most else most]
            above = DYADIC + (self.values - 1) * kept
            gains.append(Fraction(above, DYADIC - other) if other < DYADIC else None)
        return gains

    def amplification(self) -> Fraction:
        return largest(self.odds_gains())

    def to_json(self) -> dict[str, Any]:
        return {
            "form": self.form,
            "values": self.values,
            "denominator": DYADIC,
            "retentions": list(self.kept),
        }

    @classmethod
    def from_json(cls, described: dict[str, Any]) -> Self:
        """One integer per value over the stated denominator, which must be `DYADIC`."""
        kept = described.get("retentions")
        readable = (
            isinstance(kept, list)
            and len(kept) == described.get("values")
            and all(type(number) is int for number in kept)
        )
        if not readable or described.get("denominator") != DYADIC:
            raise BundleError(
                "The manifest's fine-grain operator is unreadable: expected 'retentions', a list "
                f"of one integer per value, and 'denominator' {DYADIC}."
            )
        assert isinstance(kept, list)
        return cls(tuple(kept))


def push(counts: FloatArray, retentions: FloatArray) -> FloatArray:
    """n·P along the last axis."""
    moved = (counts * (1 - retentions)).sum(axis=-1, keepdims=True) / retentions.shape[-1]
    return np.asarray(counts * retentions + moved)


def spread(retentions: FloatArray) -> FloatArray:
    """s_y: what a record published as y adds to the estimated uniform background S.

    Methods, section 1: n̂_x = (o_x − S)/p_x with S = (Σ o/p − n)/Σ(1/p) = Σ_y o_y s_y.
    """
    if len(retentions) > 1 and float(retentions.min()) <= 0:  # no unbiased estimate exists (T12)
        lost = np.flatnonzero(retentions <= 0)
        raise SingularOperator(
            f"The operator keeps nothing of the values with codes {lost[:12].tolist()}, so their "
            "counts cannot be estimated. Publish again with a p_min above 0."
        )
    inverse = 1 / retentions
    return np.asarray((inverse - 1) / inverse.sum())


def total_variances(counts: FloatArray, retentions: FloatArray) -> FloatArray:
    """Σ_x Var(n̂_x) for true counts, for each row of retentions: O(m) a row.

    >>> total_variances(np.array([30.0, 10.0]), np.array([[0.5, 0.5], [0.9, 0.5]])).round(6)
    array([60.      , 13.469388])
    """
    kept = 1 / retentions
    share = (kept - 1) / kept.sum(axis=-1, keepdims=True)
    shown = push(counts, retentions)
    background = (shown * share**2).sum(axis=-1, keepdims=True)
    whole = kept**2 * (shown * (1 - 2 * share) + background) - counts
    return np.asarray(np.maximum(whole, 0.0).sum(axis=-1))


def condition(retentions: FloatArray, rounds: int = 200) -> float:
    """The 2-norm condition number of P by power iteration on PᵀP and on its inverse.

    A lower bound that is tight to a per cent or so; O(m) a round, so that 15,000 values take
    milliseconds where the matrix would take gigabytes.
    """
    if len(retentions) == 1:
        return 1.0
    if float(retentions.min()) <= 0:
        return float("inf")
    m = len(retentions)
    background, share = (1 - retentions) / m, spread(retentions)

    def forward(v: FloatArray) -> FloatArray:  # PᵀP v
        image = retentions * v + background * v.sum()
        return np.asarray(retentions * image + (background * image).sum())

    def backward(v: FloatArray) -> FloatArray:  # WᵀW v
        scaled = v / retentions
        image = scaled - share * scaled.sum()
        return np.asarray((image - (share * image).sum()) / retentions)

    norms = []
    for step in (forward, backward):
        vector, norm = 1 + np.arange(m) % 7 / 7.0, 0.0
        for _ in range(rounds):
            vector = step(vector / np.linalg.norm(vector))
            norm, last = float(np.linalg.norm(vector)), norm
            if abs(norm - last) <= 1e-9 * norm:
                break
        norms.append(norm)
    return float(np.sqrt(norms[0] * norms[1]))
