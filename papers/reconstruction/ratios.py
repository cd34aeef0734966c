"""Tables 1 and 2: what two differentially private answers disclose."""

from __future__ import annotations

import numpy as np

from papers.reconstruction.ratio_law import (
    indicator,
    noise_scale,
    ratio_quantiles,
    simulated_ratios,
)
from sfumato.draws import Draws
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
