"""The errors of mechanisms on range counts, as the generalization papers compare them.

The questions are the workload `ranges`: λ quasi columns and the sensitive one, each in a random
stretch of its domain, so long that a share θ of the records would qualify were everything uniform
and independent (heterogeneous generalization, Section 5; errata H18).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from papers.even_filling import even_answers
from sfumato.engines.publishing import publish
from sfumato.mechanisms import Mechanism
from sfumato.release import GeneralizedRelease, Release
from sfumato.table import Table
from sfumato.workloads import (
    SizeClass,
    Workload,
    generate_workload,
    people_of,
    release_answers,
    true_counts,
)

Way = str | Mechanism


def median_errors(
    table: Table,
    promise: str,
    ways: Sequence[Way],
    *,
    count: int = 200,
    columns: int = 3,
    selectivity: float = 0.25,
    seed: int = 1,
    kind: str = "ranges",
) -> dict[Way, float]:
    """The median relative error of each mechanism under one promise, on the same questions.

    Questions whose true answer is 0 are not asked, as in the paper.
    """
    return median_errors_by_shape(
        table, promise, ways, [(columns, selectivity)], count=count, seed=seed, kind=kind
    )[0]


def _questions(
    table: Table, shapes: Sequence[tuple[int, float]], count: int, seed: int, kind: str
) -> list[Workload]:
    people = people_of(table)
    every = (SizeClass("all", 1, max(people.rows, 1)),)
    return [
        generate_workload(
            people,
            kind,
            count=count,
            seed=seed,
            columns=columns,
            selectivity=selectivity,
            classes=every,
        )
        for columns, selectivity in shapes
    ]


def median_errors_by_shape(
    table: Table,
    promise: str,
    ways: Sequence[Way],
    shapes: Sequence[tuple[int, float]],
    *,
    count: int = 200,
    seed: int = 1,
    kind: str = "ranges",
) -> list[dict[Way, float]]:
    """The same for several (columns, selectivity): every mechanism publishes once."""
    people = people_of(table)
    asked = _questions(table, shapes, count, seed, kind)
    truths = [true_counts(workload, people) for workload in asked]
    errors: list[dict[Way, float]] = [{} for _ in shapes]
    for way in ways:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "release"
            # a wide β promises nothing about common values: what that costs is the question
            publish(table, promise, to=place, mechanism=way, seed=seed, left_out=1.0)
            for error, workload, truth in zip(errors, asked, truths, strict=True):
                release = Release(place)
                if isinstance(release, GeneralizedRelease):
                    answers = even_answers(workload, release)
                else:
                    answers = release_answers(workload, release).estimates
                error[way] = float(np.median(np.abs(answers - truth) / truth))
    return errors
