"""Calibrated noise for numbers: near values oftener than far ones, within the limit on odds.

The thesis leaves numeric columns open (Section 6.2). `uniform` treats 41 and 90 alike where the
truth is 40, so it counts single values well and averages badly. Here the chance to publish y for x
falls with their distance, geometrically, from γ times the least down to the least at `width`; a
part of the draws is `uniform`'s, so that single values can still be told apart. Both keep
P[x, y] ≤ γ·P[x', y] for all x, x' and y, and so does any mixture.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sfumato.columns import Value
from sfumato.errors import UsageError
from sfumato.guarantees.odds import OddsGuarantee
from sfumato.mechanisms.general import exact_operator
from sfumato.mechanisms.perturbed import Chosen, PerturbingMechanism
from sfumato.mechanisms.protocol import Standing
from sfumato.operators import Uniform
from sfumato.operators.base import FloatArray
from sfumato.profile import Histogram
from sfumato.textform import Parameter

MOST_VALUES = 400  # the operator is written out, value by value
WIDTHS = tuple(Fraction(part, 20) for part in range(1, 21))  # of the range, to choose from
PEOPLE = 1000  # whose average is foretold


@dataclass(frozen=True)
class CalibratedNoise(PerturbingMechanism):
    """Numbers are drawn near themselves; a share of `uniform` of the draws falls anywhere.

    `width` is how far the noise reaches, as a share of the column's range. Without it, the one is
    taken of which the average is told best, were all values as common: it follows from the promise
    and the domain alone.

    >>> from sfumato.draws import Draws
    >>> from sfumato.guarantees import RhoPrivacy
    >>> from sfumato.profile import Profile
    >>> from sfumato.profile import Histogram
    >>> ages = Histogram("age", tuple(range(20, 80)), np.arange(60, 0, -1))
    >>> plan = CalibratedNoise().plan(
    ...     Profile(ages.rows, {"age": ages}), RhoPrivacy("0.1", "0.4"), Draws.from_seed(1))
    >>> plan.operators["age"].amplification() <= 6
    True
    """

    width: Fraction | None = None
    uniform: Fraction = Fraction(1, 2)

    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("width", above=0, most=1),  # a share of the column's range
        Parameter("uniform", least=0, below=1),  # a share of the draws
    )
    name: ClassVar[str] = "noise"
    sentence: ClassVar[str] = (
        "For numbers: publishes one near the true one oftener than one far away, so that averages "
        "stay sharp."
    )
    standing: ClassVar[Standing] = "on request"

    def require_fit(self, histogram: Histogram) -> None:
        _numbers(histogram.column, histogram.values)

    def choose(self, histogram: Histogram, guarantee: OddsGuarantee) -> Chosen:
        numbers = _numbers(histogram.column, histogram.values)
        limit = guarantee.common_limit(histogram.column, histogram.values)
        matrix = self._matrix(numbers, limit)
        return Chosen(exact_operator(matrix, [limit] * len(matrix), both=True), limit)

    def _matrix(self, numbers: FloatArray, limit: Fraction) -> FloatArray:
        distances, gamma = _distances(numbers), float(limit)
        evenly = Uniform.for_amplification(len(numbers), limit).matrix()
        share = float(self.uniform)
        widths = WIDTHS if self.width is None else (self.width,)
        matrices = [
            share * evenly + (1 - share) * _near(distances / float(width), gamma)
            for width in widths
        ]
        return min(matrices, key=lambda matrix: _error_of_mean(matrix, numbers))


def _near(distances: FloatArray, gamma: float) -> FloatArray:
    """P[x, y] ∝ max(g^(1 − d), 1) at distance d, with the largest g up to γ that keeps γ.

    Rows at the ends of the range have fewer near values; what they lack is spread evenly over the
    row, which is why g must be somewhat below γ.
    """
    low, high = 1.0, gamma
    if _ratio(_falling(distances, gamma)) <= gamma:
        return _falling(distances, gamma)
    for _ in range(40):
        middle = (low + high) / 2
        kept = _ratio(_falling(distances, middle)) <= gamma
        low, high = (middle, high) if kept else (low, middle)
    return _falling(distances, low)


def _falling(distances: FloatArray, most: float) -> FloatArray:
    weights = np.maximum(most ** (1 - distances), 1.0)
    rows = weights / weights.sum(axis=1).max()
    return np.asarray(rows + (1 - rows.sum(axis=1, keepdims=True)) / len(rows))


def _ratio(matrix: FloatArray) -> float:
    return float((matrix.max(axis=0) / matrix.min(axis=0)).max())


def _error_of_mean(matrix: FloatArray, numbers: FloatArray) -> float:
    """Standard error of the average of so many people, were all values as common.

    With u = P⁻¹v, a record that shows y counts u_y; infinite where the matrix hides v.
    """
    filled = np.nan_to_num(numbers, nan=float(np.nanmean(numbers)))
    if np.linalg.cond(matrix) > 1e9:
        return math.inf
    worth = np.linalg.solve(matrix, filled)
    variance = float((matrix.mean(axis=0) @ worth**2) - (filled**2).mean())
    return math.sqrt(max(variance, 0.0) / PEOPLE)


def _distances(numbers: FloatArray) -> FloatArray:
    """Between values, as shares of the range; a missing value is as far away as can be."""
    extent = float(np.nanmax(numbers) - np.nanmin(numbers)) or 1.0
    apart = np.abs(numbers[:, None] - numbers[None, :]) / extent
    apart = np.where(np.isnan(apart), 1.0, apart)
    np.fill_diagonal(apart, 0.0)
    return np.asarray(apart)


def _numbers(column: str, values: Sequence[Value]) -> FloatArray:
    if len(values) > MOST_VALUES:
        raise UsageError(
            f"'noise' writes out how each value may become each other one: column {column!r} has "
            f"{len(values):,} values, the most is {MOST_VALUES}. Round it first, for example with "
            f"--recode '{column}=round(10)'."
        )
    plain = (int, float, decimal.Decimal)
    fit = [value is None or (isinstance(value, plain) and value == value) for value in values]
    if not all(fit) or any(isinstance(value, bool) for value in values) or set(values) == {None}:
        raise UsageError(
            f"'noise' is for numbers, and column {column!r} holds something else. Use 'uniform'."
        )
    return np.array([math.nan if value is None else float(value) for value in values])
