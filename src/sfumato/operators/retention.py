"""Operators that keep a value with its own probability, else draw uniformly.

P[x, y] = p_x·1{x=y} + (1−p_x)/m. Uniform perturbation, fine-grain perturbation and the sub-tables
of partitioned perturbation are all of this form; everything here costs O(m).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from msgspec import Meta, structs

from sfumato.columns import Count, Counts
from sfumato.draws import Address, Draws, IntArray
from sfumato.errors import SingularOperator
from sfumato.operators.base import DYADIC, FloatArray, Operator, dyadic_floor
from sfumato.operators.inverse import Inverse

if TYPE_CHECKING:
    Ratio = Fraction
else:  # in JSON short and without exponents: "1e999999999" would take all memory
    Ratio = Annotated[str, Meta(pattern=r"^\d{1,40}(/0*[1-9]\d{0,39})?$")]


class RetentionOperator(Operator, frozen=True):
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
        """From products with P and its inverse alone: 15,000 values take milliseconds."""
        from scipy.sparse.linalg import LinearOperator, svds

        p = self.retentions
        if len(p) == 1 or float(p.min()) <= 0:
            return 1.0 if len(p) == 1 else float("inf")
        inverse, rest, start = self.inverse(), (1 - p) / len(p), 1 + np.arange(len(p)) % 7 / 7.0

        def norm(*both: Callable[[FloatArray], FloatArray]) -> float:
            flat = (lambda v, product=product: product(v.ravel()) for product in both)
            product = LinearOperator(2 * p.shape, *flat, dtype=np.float64)
            return float(svds(product, k=1, v0=start, return_singular_vectors=False)[0])

        along = norm(lambda v: p * v + rest * v.sum(), self.push)
        return along * norm(inverse.weigh, inverse.estimate)

    def apply(self, codes: IntArray, purpose: str, address: Address, draws: Draws) -> IntArray:
        words = draws.words(purpose, address)
        anything = draws.below_small(purpose, address, words & np.uint64(DYADIC - 1), self.values)
        stays = (words >> np.uint64(32)).view(np.int64) < self.numerators()[codes]
        np.copyto(anything, codes, where=stays)
        return anything


class Uniform(RetentionOperator, frozen=True, tag="uniform"):
    """P = p·I + (1−p)/m·J (thesis, Equation 1). `retention` is p, on the diagonal p + (1−p)/m.

    >>> Uniform.for_amplification(3, Fraction(4, 3)).retention
    Fraction(429496729, 4294967296)
    >>> [round(x, 6) for x in Uniform(3, Fraction(1, 10)).matrix()[0].tolist()]
    [0.4, 0.3, 0.3]
    """

    values: Count
    retention: Ratio

    def __post_init__(self) -> None:
        if isinstance(self.retention, str):
            structs.force_setattr(self, "retention", Fraction(self.retention))
        if self.values < 1 or not 0 <= self.retention <= 1:
            raise ValueError(
                f"A uniform operator needs at least one value and a retention in [0, 1]; got "
                f"{self.values} values and retention {self.retention}"
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

    @property
    def retentions(self) -> FloatArray:
        return np.full(self.values, float(self.retention))

    def numerators(self) -> IntArray:
        threshold = self.retention * DYADIC
        if threshold.denominator != 1:
            raise ValueError("records are drawn with dyadic probabilities only")
        return np.full(self.values, threshold.numerator)

    def odds_gains(self) -> list[Fraction | None]:
        gain = self.diagonal / self.off_diagonal if self.off_diagonal else None
        return [gain] * self.values


class FineGrain(RetentionOperator, frozen=True, tag="fine-grain", rename={"kept": "retentions"}):
    """Keep value x with probability `kept[x]` / 2³², else publish any value of the domain.

    >>> operator = FineGrain.of([Fraction(1, 2), Fraction(1, 4)])
    >>> operator.matrix().tolist()
    [[0.75, 0.25], [0.375, 0.625]]
    >>> operator.odds_gains()
    [Fraction(2, 1), Fraction(5, 2)]
    """

    values: Count
    denominator: Literal[4294967296]  # DYADIC
    kept: Counts

    def __post_init__(self) -> None:
        if not 0 < self.values == len(self.kept) or max(self.kept) > DYADIC:
            raise ValueError(
                "A fine-grain operator needs at least one value and as many retentions in [0, 1]; "
                f"got {self.values} values and {len(self.kept)} numerators up to "
                f"{max(self.kept, default=0)} over {DYADIC}"
            )

    @classmethod
    def of(cls, retentions: Sequence[Fraction]) -> FineGrain:
        """The operator with these retentions, rounded down to what can be drawn."""
        return cls.of_numerators(p.numerator * DYADIC // p.denominator for p in retentions)

    @classmethod
    def of_numerators(cls, kept: Iterable[int]) -> FineGrain:
        """The operator with these retentions over `DYADIC`."""
        numerators = tuple(kept)
        return cls(len(numerators), DYADIC, numerators)

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
