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


def test_pooled_answers_below_are_marked_and_certain_ones_are_apart() -> None:
    """150 intervals of 600 miss, in cells of 60 that are too few to be judged."""
    numbers = np.arange(600)
    counts = np.tile([0, 5, 5, 5, 5, 20, 20, 20, 100, 100], 60)
    independent = np.tile([1, 20, 5, 2, 0.5, 80, 20, 8, 400, 100], 60)
    inside = np.where(numbers < 150, 0.0, 1.0)
    inside[-3:] = width = np.nan
    answers = Answers(numbers % 4, numbers // 4, counts, independent, numbers < 0, inside,
                      np.full(600, width), numbers < 300)  # fmt: skip
    assert answers.always_outside() == 37 / 149  # the last was answered once
    answers.width[:300] = 2.0
    (line,) = lines_of("made up", "x", {"SUM": answers})
    assert str(line[4]) == "74.9% ± 1.8%"
    assert str(line[5]).startswith("50.0% ")
    assert (line[6], line[-2:]) == ("2 (perhaps 0 more) of 2", ["50.0%", "2"])
