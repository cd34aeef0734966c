"""Numbers that know how they depend on the statistics below them.

An aggregate is a function of linear statistics; its error bar needs the gradient. A `Dual` carries
a value and its slope along every statistic through arithmetic (forward-mode differentiation), so
that a formula is written once and no gradient by hand. Everything is by row of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.operators.base import FloatArray


@dataclass(frozen=True, eq=False)
class Dual:
    """A value by row, and its slope along every statistic by row.

    >>> total, number = variables(np.array([[6.0], [3.0]]))
    >>> mean = total / number
    >>> mean.value.tolist(), [slope.round(3).tolist() for slope in mean.slopes]
    ([2.0], [[0.333], [-0.667]])
    """

    value: FloatArray
    slopes: tuple[FloatArray, ...] = ()

    def _through(self, value: FloatArray, slope: FloatArray) -> Dual:
        """f(self), from its value and its derivative."""
        return Dual(value, tuple(slope * inner_slope for inner_slope in self.slopes))

    def __add__(self, other: Dual | float) -> Dual:
        other = _dual(other, self)
        slopes = tuple(a + b for a, b in zip(self.slopes, other.slopes, strict=True))
        return Dual(self.value + other.value, slopes)

    def __mul__(self, other: Dual | float) -> Dual:
        other = _dual(other, self)
        slopes = tuple(
            a * other.value + self.value * b for a, b in zip(self.slopes, other.slopes, strict=True)
        )
        return Dual(self.value * other.value, slopes)

    def __neg__(self) -> Dual:
        return self._through(-self.value, np.full(self.value.shape, -1.0))

    def __sub__(self, other: Dual | float) -> Dual:
        return self + (-_dual(other, self))

    def __truediv__(self, other: Dual | float) -> Dual:
        return self * _dual(other, self) ** -1.0

    def __pow__(self, power: float) -> Dual:
        return self._through(self.value**power, power * self.value ** (power - 1.0))

    def __abs__(self) -> Dual:
        return self._through(np.abs(self.value), np.sign(self.value))

    def log(self) -> Dual:
        return self._through(np.log(self.value), 1.0 / self.value)

    def exp(self) -> Dual:
        return self._through(np.exp(self.value), np.exp(self.value))

    def within(self, low: float, high: float) -> Dual:
        """The nearest value in a range; along the same slopes, as if it were inside."""
        return Dual(np.clip(self.value, low, high), self.slopes)

    def rounded(self, digits: int) -> Dual:
        """As shown with so many digits; the error is that of the number behind."""
        return Dual(np.round(self.value, digits), self.slopes)


def variables(values: FloatArray | Sequence[FloatArray]) -> list[Dual]:
    """The statistics themselves: each depends on itself alone."""
    many = len(values)
    return [
        Dual(
            np.asarray(value, np.float64),
            tuple(np.full(np.shape(value), float(i == j)) for j in range(many)),
        )
        for i, value in enumerate(values)
    ]


def constant(value: float, like: Dual) -> Dual:
    """A number that depends on nothing."""
    zero = np.zeros(like.value.shape)
    return Dual(zero + value, (zero,) * len(like.slopes))


def _dual(value: Dual | float, like: Dual) -> Dual:
    return value if isinstance(value, Dual) else constant(value, like)
