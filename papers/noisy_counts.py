"""Counts answered with Laplace noise, as a release to attack: what Cormode's adversary learns from.

The classifier needs the counts by (quasi value, sensitive value) of every quasi column and those by
sensitive value. One record stands in each of these d + 1 tables once, so noise of scale (d + 1)/ε
makes all answers together ε-differentially private. A baseline to compare with: sfumato publishes
nothing this way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from papers.laplace import laplace_noise
from sfumato.attacks.people import People
from sfumato.attacks.views import View
from sfumato.draws import Draws
from sfumato.errors import UsageError
from sfumato.operators.base import FloatArray


@dataclass(frozen=True, eq=False)
class CountsView(View):
    """No records, but answered counts: naive Bayes alone learns from them."""

    answered: list[FloatArray]
    prior: FloatArray
    values: int

    def tables(self, sizes: list[int], *, estimated: bool) -> list[FloatArray]:
        return self.answered

    def near(self, targets: People) -> NoReturn:
        raise TypeError("there are no records")

    evidence = weigh = near  # type: ignore[assignment]


def answered_counts(people: People, epsilon: float, draws: Draws) -> CountsView:
    """The tables that a naive Bayes classifier needs, with noise; negative answers become 0."""
    if not epsilon > 0:
        raise UsageError(f"'epsilon' must be above 0. Got {epsilon} instead.")
    scale = (len(people.codes) + 1) / epsilon
    tables = []
    for number, (codes, size) in enumerate(zip(people.codes, people.domains.sizes, strict=True)):
        flat = np.bincount(codes * people.values + people.truth, minlength=size * people.values)
        noise = laplace_noise(scale, flat.size, draws, f"laplace {number}")
        table = np.maximum(flat + noise, 0.0).reshape(size, people.values)
        table[-1] = 0.0  # the row of values that the table does not have is not asked for
        tables.append(table)
    totals = np.bincount(people.truth, minlength=people.values)
    noise = laplace_noise(scale, people.values, draws, "laplace totals")
    counts = np.maximum(totals + noise, 0.0)
    return CountsView(tables, counts / max(float(counts.sum()), 1e-300), people.values)
