"""Counts answered with Laplace noise, as a release to attack: what Cormode's adversary learns from.

The classifier needs the counts by (quasi value, sensitive value) of every quasi column and those by
sensitive value. One record stands in each of these d + 1 tables once, so noise of scale (d + 1)/ε
makes all answers together ε-differentially private. A baseline to compare with: sfumato publishes
nothing this way.
"""

from __future__ import annotations

import numpy as np

from papers.laplace import laplace_noise
from sfumato.attacks.people import People
from sfumato.attacks.views import CountsView
from sfumato.draws import Draws
from sfumato.errors import UsageError


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
    return CountsView(tables, np.maximum(totals + noise, 0.0), people.values)
