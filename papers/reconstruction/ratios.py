"""Tables 1 and 2: what two differentially private answers disclose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from papers.coded import laplace_noise
from sfumato.draws import Draws
from sfumato.errors import UsageError
from sfumato.mechanisms.reconstruction.tails import FloatArray
from sfumato.results import ResultTable

X, Y = 501, 420  # Example 1: Prof-school, Prof-specialty, White, Male; and of them above 50K
PRINTED_1 = {  # ε → Conf' and the relative errors of both answers, as printed
    0.01: (1.34392, 0.614742, 0.570118),
    0.1: (0.860966, 0.0693353, 0.102247),
    0.5: (0.832659, 0.0262412, 0.069974),
}
SCALES = {10: 0.2, 20: 0.1, 40: 0.05, 200: 0.01}  # b → ε for two queries
ANSWERS = (5000, 1000, 500, 200, 100)
PRINTED_2 = {
    10: (0.000008, 0.0002, 0.0008, 0.005, 0.02),
    20: (0.000032, 0.0008, 0.0032, 0.02, 0.08),
    40: (0.000128, 0.0032, 0.0128, 0.08, 0.32),
    200: (0.0032, 0.08, 0.32, 2.0, 8.0),
}
TRIALS = 100_000


def table_1() -> ResultTable:
    """Y/X for x = 501, y = 420 and three ε."""
    rows = []
    for epsilon, (mean, first, second) in PRINTED_1.items():
        scale = noise_scale(epsilon)
        low, middle, high = ratio_quantiles(scale, X, Y, (0.25, 0.5, 0.75))
        drawn = float(np.median(simulated_ratios(scale, X, Y, TRIALS, Draws.from_seed(1))))
        rows.append((epsilon, middle, low, high, drawn, mean, scale / X, first, scale / Y, second))
    return ResultTable(
        "Table 1",
        f"confidence from two noisy answers, x = {X}, y = {Y}, y/x = {Y / X:.4f}",
        (
            *("epsilon", "median", "lower quartile", "upper quartile", "simulated median"),
            *("paper: mean", "E|error| of x", "paper: of x", "E|error| of y", "paper: of y"),
        ),
        rows,
        paper=("paper: mean", "paper: of x", "paper: of y"),
        note="The printed errors are not those of Laplace noise of scale 2/ε (errata R11).",
    )


def table_2() -> ResultTable:
    """2(b/x)², cell by cell."""
    rows = [
        (
            scale,
            epsilon,
            *(indicator(scale, x) for x in ANSWERS),
            "yes"
            if all(
                abs(indicator(scale, x) - printed) <= 1e-9 * printed
                for x, printed in zip(ANSWERS, PRINTED_2[scale], strict=True)
            )
            else "no",
        )
        for scale, epsilon in SCALES.items()
    ]
    columns = ("b", "epsilon", *(f"x = {x}" for x in ANSWERS), "as printed")
    return ResultTable("Table 2", "2(b/x)², small where Y/X tells y/x", columns, rows)


SENSITIVITY = 2  # two count queries about one record
_POINTS = 2001  # of the quadrature over ξ


def noise_scale(epsilon: float) -> float:
    """b = 2/ε: both answers together cost ε (errata F1)."""
    if not epsilon > 0:
        raise UsageError(f"'epsilon' must be above 0. Got {epsilon} instead.")
    return SENSITIVITY / epsilon


def indicator(scale: float, x: float) -> float:
    """2(b/x)², the paper's measure of how close Y/X is to y/x (Table 2): smaller is closer.

    >>> round(indicator(20, 500), 6), indicator(200, 100)
    (0.0032, 8.0)
    """
    return 2 * (scale / x) ** 2


def approximate_spread(scale: float, x: float, y: float) -> float:
    """√2·(b/x)·√(1+(y/x)²): the delta method's standard deviation of Y/X; good for b/x ≤ 1/20.

    >>> round(approximate_spread(20, 501, 420), 4)
    0.0737
    """
    return math.sqrt(2) * scale / x * math.sqrt(1 + (y / x) ** 2)


def ratio_quantiles(
    scale: float, x: float, y: float, levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)
) -> list[float]:
    """Quantiles of Y/X, from its distribution function by quadrature; good to about 1e-3.

    >>> [round(q, 2) for q in ratio_quantiles(20, 501, 420)]
    [0.72, 0.8, 0.84, 0.88, 0.97]
    """
    middle = (np.arange(_POINTS) + 0.5) / _POINTS
    denominator = x + scale * _laplace_quantile(middle)

    def below(r: float) -> float:  # Pr(Y/X ≤ r): the inequality turns where X is negative
        reach = _laplace_share((r * denominator - y) / scale)
        return float(np.where(denominator > 0, reach, 1 - reach).mean())

    return [_inverse(below, level, y / x, approximate_spread(scale, x, y)) for level in levels]


def _inverse(below: Any, level: float, start: float, step: float) -> float:
    low, high = start - step, start + step
    while below(low) > level:
        low -= 2 * (high - low)
    while below(high) < level:
        high += 2 * (high - low)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < level else (low, middle)
    return (low + high) / 2


def _laplace_share(t: FloatArray) -> FloatArray:
    tail = 0.5 * np.exp(-np.abs(t))
    return np.asarray(np.where(t < 0, tail, 1 - tail))


def _laplace_quantile(u: FloatArray) -> FloatArray:
    return np.asarray(-np.sign(u - 0.5) * np.log1p(-2 * np.abs(u - 0.5)))


def simulated_ratios(scale: float, x: float, y: float, trials: int, draws: Draws) -> FloatArray:
    """Y/X, drawn `trials` times."""
    noisy_x = x + laplace_noise(scale, trials, draws, "ratio x")
    return np.asarray((y + laplace_noise(scale, trials, draws, "ratio y")) / noisy_x)
