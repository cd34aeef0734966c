"""What every operator can do."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from msgspec import StructMeta

from sfumato.columns import ManifestPart, in_json
from sfumato.draws import Address, Draws, IntArray

if TYPE_CHECKING:
    from sfumato.operators.inverse import Inverse

FloatArray = npt.NDArray[np.float64]

DYADIC: Final = 4294967296  # 2³²: probabilities that records are drawn with are multiples of 1/2³²


class _AbstractPart(StructMeta, ABCMeta):
    """Of parts of a manifest with abstract methods."""


class Operator(
    ManifestPart, frozen=True, dict=True, tag_field="form", tag="", metaclass=_AbstractPart
):
    """P[x, y] = Pr(published y | true x), rows summing to 1, over `values` values.

    An operator stands in the manifest as it is, by the `tag` of its class; probabilities are exact
    fractions with denominator `DYADIC`, so that what is drawn, what is published and what is
    audited are the same numbers.
    """

    needs_counts: ClassVar[bool] = False  # whether `weights` needs `observed` first

    @property
    def form(self) -> str:
        """The name of its form in the manifest."""
        return str(self.__struct_config__.tag)

    @property
    @abstractmethod
    def values(self) -> int:
        """How many values, or symbols, the matrix ranges over."""

    @property
    def domain_size(self) -> int:
        """How many values the column has; `values` counts what the matrix ranges over."""
        return self.values

    @abstractmethod
    def matrix(self) -> FloatArray:
        """P as floats, shape (values, values). O(m²)."""

    @abstractmethod
    def inverse(self) -> Inverse:
        """W = P⁻¹: a record published as y counts W[y, x] towards x."""

    def weights(self) -> FloatArray:
        """W written down, O(m²)."""
        return self.inverse().weigh(np.eye(self.domain_size)).T

    @abstractmethod
    def odds_gains(self) -> list[Fraction | None]:
        """Per true value x, max over y and x' ≠ x of P[x, y] / P[x', y], exactly.

        So much can any published value raise the odds of x (thesis, Theorem 7); None means
        without bound: some published value proves x.
        """

    def amplification(self) -> Fraction:
        """max over y of max_x P[x, y] / min_x P[x, y], exactly; raises ZeroDivisionError if inf."""
        gains = self.odds_gains()
        if None in gains:
            raise ZeroDivisionError("a published value proves a true one")
        return max(gain for gain in gains if gain is not None)

    @abstractmethod
    def apply(self, codes: IntArray, purpose: str, address: Address, draws: Draws) -> IntArray:
        """Draw the published codes of records, in one pass."""

    def to_json(self) -> dict[str, Any]:
        """The public description."""
        described: dict[str, Any] = in_json(self)
        return described

    def push(self, counts: FloatArray) -> FloatArray:
        """Expected published counts n·P, along the last axis."""
        return np.asarray(counts @ self.matrix())

    def estimate(self, published: FloatArray) -> FloatArray:
        """n̂ = P⁻ᵀ o, unbiased, along the last axis."""
        return self.inverse().estimate(published)

    def variances(self, counts: FloatArray) -> FloatArray:
        """Var(n̂_x) = Σ_y E[o_y] W[y, x]² − n_x for true counts n (methods, section 1)."""
        return self.inverse().variances(counts, self.push(counts))

    def observed(self, counts: IntArray) -> Operator:
        """This operator completed with the release's published counts, where it `needs_counts`."""
        return self

    def condition(self) -> float:
        """The 2-norm condition number of P: how much noise the inverse may add."""
        return float(np.linalg.cond(self.matrix()))


def dyadic_floor(probability: Fraction) -> Fraction:
    """The largest multiple of 1 / DYADIC that is at most `probability`.

    >>> dyadic_floor(Fraction(1, 3)) <= Fraction(1, 3)
    True
    """
    return Fraction(probability.numerator * DYADIC // probability.denominator, DYADIC)
