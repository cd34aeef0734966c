"""Section 8: how far other kinds of releases hide small sums, Laplace answers among them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from papers.coded import People
from sfumato.guarantees import RhoPrivacy
from sfumato.guarantees.small_sum_tails import small_sum_privacy
from sfumato.operators import Uniform
from sfumato.results import Cell, ResultTable

ERROR, UP_TO = Fraction(3, 10), 3
GROUPS = 5


def section_8(people: People) -> ResultTable:
    """The least chance, over sums of 1 to 3 people, of an answer off by 0.3 of it or more."""
    asked = float(small_sum_privacy(GROUPS, ERROR, UP_TO))
    drawn = Uniform.for_amplification(
        people.values, RhoPrivacy(Fraction(1, 13), Fraction(1, 6)).gamma
    )
    counts = people.counts.copy()
    rarest = int(np.argmin(counts))

    def uniform(count: int) -> float:
        counts[rarest] = count
        return drawn.wrong_sum(rarest, counts, ERROR)

    chances: dict[str, float] = {
        f"decoys, groups of {GROUPS}": asked,
        "uniform, rho-privacy(1/13, 1/6)": min(uniform(count) for count in range(1, UP_TO + 1)),
        "buckets, ranges": 0.0,
    }
    for name, epsilon in (("ln 3", math.log(3)), ("ln 2", math.log(2)), ("0.1", 0.1)):
        chances[f"Laplace answers, epsilon = {name}"] = math.exp(-epsilon * float(ERROR) * UP_TO)
    rows: list[tuple[Cell, ...]] = [
        (name, chance, "yes" if chance >= asked else "no") for name, chance in chances.items()
    ]
    title = f"least chance that a sum of 1 to {UP_TO} is off by {float(ERROR)} of it or more"
    columns = ("release", "chance", f"as much as small-sum({GROUPS})")
    return ResultTable("Section 8", title, columns, rows)
