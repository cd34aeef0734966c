"""Fine-grain perturbation: every value has its own chance to stay (thesis, Equation 61)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.draws import Address, Draws, IntArray
from sfumato.errors import BundleError
from sfumato.operators import retention
from sfumato.operators.base import DYADIC, FloatArray, largest
from sfumato.operators.retention import RetentionOperator


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

    def matrix(self) -> FloatArray:
        p = self.retentions
        return np.asarray(np.diag(p) + ((1 - p) / self.values)[:, None])

    def condition(self) -> float:
        return retention.condition(self.retentions)

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

    def apply(self, codes: IntArray, purpose: str, address: Address, draws: Draws) -> IntArray:
        words = draws.words(purpose, address)
        anything = draws.below_small(purpose, address, words & np.uint64(DYADIC - 1), self.values)
        threshold = np.array(self.kept, np.uint64)[codes]
        np.copyto(anything, codes, where=(words >> np.uint64(32)) < threshold)
        return anything

    def to_json(self) -> dict[str, Any]:
        return {
            "form": self.form,
            "values": self.values,
            "denominator": DYADIC,
            "retentions": list(self.kept),
        }

    @classmethod
    def from_json(cls, described: dict[str, Any]) -> Self:
        return cls(_integers(described, "retentions"))


def _integers(described: dict[str, Any], name: str) -> tuple[int, ...]:
    """One integer per value over the stated denominator, which must be `DYADIC`."""
    listed = described.get(name)
    readable = (
        isinstance(listed, list)
        and len(listed) == described.get("values")
        and all(isinstance(number, int) and not isinstance(number, bool) for number in listed)
    )
    if not readable or described.get("denominator") != DYADIC:
        raise BundleError(
            f"The manifest's {described.get('form')} operator is unreadable: expected {name!r}, a "
            f"list of one integer per value, and 'denominator' {DYADIC}."
        )
    assert isinstance(listed, list)
    return tuple(listed)
