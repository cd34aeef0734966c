"""Honest intervals, short: `python -m benchmarks.coverage` is the long run of the same harness."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.coverage import MECHANISMS, Answers, Coverage, Source, lines_of, measure
from sfumato.datasets import census

CENSUS = Source(lambda: census(6_000, seed=5), "occupation", "age", "education")


def answers_of(
    name: str, conditions: int = 14, aggregates: tuple[str, ...] = ("COUNT",)
) -> Answers:
    people = CENSUS.read().select(["age", "gender", "education", "marital", "occupation"])
    mechanism, guarantee = MECHANISMS[name]
    measured = measure(
        people,
        CENSUS,
        guarantee,
        mechanism,
        publications=1,
        conditions=conditions,
        seed=21,
        aggregates=aggregates,
    )
    return measured[aggregates[-1]]


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPromiseWarning")
@pytest.mark.parametrize(
    "name", ["uniform", "partitioned", "splu", "optimal, l-diversity", "optimal with fakes"]
)
def test_default_intervals_hold(name: str) -> None:
    """About 600 intervals of one release, which depend on each other: 91 % or more of them.

    An interval too narrow by a third would hold 81 %; one of half the width 67 %.
    """
    answers = answers_of(name)
    assert len(answers.count) > 300
    assert float(np.nanmean(answers.inside)) > 0.91


def test_low_coverage_is_marked() -> None:
    assert Coverage(0.90, 0.01, 2_000).is_low
    assert not Coverage(0.925, 0.01, 2_000).is_low


def test_groups_hold_every_answer_and_lines_say_so() -> None:
    answers = answers_of("optimal, l-diversity", 4)
    sizes = sum(int(chosen.sum()) for name, chosen in answers.groups())
    assert sizes == len(answers.count)
    (line,) = lines_of("census", "optimal", {"COUNT": answers})
    assert line[3] == len(answers.count)
    missed = Answers(
        *np.zeros((2, 4), int),
        *np.ones((3, 4)),
        np.zeros(4),
        np.ones(4),
    )
    assert missed.always_outside() == 1.0
