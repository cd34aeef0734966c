"""Count questions about random records, with small and large counts kept apart.

One to three quasi columns equal a value each, and so does one sensitive column (perturbation
thesis, Section 4.4.1; SPLU, Section 6.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.draws import BoolArray, Draws, IntArray, Positions
from sfumato.errors import DataError, UsageError
from sfumato.operators.base import FloatArray
from sfumato.workloads.people import CodedPeople
from sfumato.workloads.questions import CountQuestion, Workload

SMALL = 10  # people: errata S14
LARGE, LARGE_SHARE = 100, 0.005  # people, and share of the records: both at least
_MOST_TRIES = 10  # candidates a question, before a class of counts is left as full as it is
_MOST_COLUMNS = 3
_DRAWN_TOGETHER = 1024  # candidates: one join counts for all of them
_MOST_CELLS = 1 << 24  # (candidate, value) that are counted together


@dataclass(frozen=True)
class SizeClass:
    """Questions whose true count lies between `least` and `most`, both included."""

    name: str
    least: int
    most: int

    def holds(self, counts: IntArray | FloatArray) -> BoolArray:
        return (counts >= self.least) & (counts <= self.most)


def size_classes(rows: int) -> tuple[SizeClass, ...]:
    """Small, middle and large counts of a table; they exclude one another.

    >>> [(each.name, each.least, each.most) for each in size_classes(100_000)]
    [('small', 1, 10), ('middle', 11, 499), ('large', 500, 100000)]
    """
    large = max(int(np.ceil(LARGE_SHARE * rows)), LARGE)
    return (
        SizeClass("small", 1, SMALL),
        SizeClass("middle", SMALL + 1, large - 1),
        SizeClass("large", large, max(rows, large)),
    )


def generate_workload(
    people: CodedPeople,
    *,
    count: int = 1000,
    seed: int = 0,
    column: str | None = None,
    classes: Sequence[SizeClass] | None = None,
) -> Workload:
    """`count` questions, as many of each class of true counts; fewer where the table has not more.

    `column` is the sensitive one (the first by default); `classes` are small, middle and large
    counts. The same seed makes the same questions.
    """
    if count < 1:
        raise UsageError(f"A workload needs a count of at least 1. Got {count}.")
    name = column or next(iter(people.sensitive))
    if name not in people.sensitive:
        raise UsageError(
            f"{name!r} is no sensitive column. There are: {', '.join(people.sensitive)}."
        )
    draws = Draws.from_seed(seed).child("workload conjunctions")
    chosen = _Chosen(list(classes or size_classes(people.rows)), count)
    values = people.sensitive[name].to_pylist()
    domains = {quasi: domain.to_pylist() for quasi, domain in people.quasi.items()}
    at_once = max(min(_DRAWN_TOGETHER, _MOST_CELLS // max(len(values), 1)), 1)
    for start in range(0, 2 * _MOST_TRIES * count, at_once):
        candidates = _candidates(people, draws, Positions(start, at_once))
        counts = people.counts(candidates, name)
        for number, candidate in enumerate(candidates, start):
            if chosen.full_at(number):
                break
            for index, value in chosen.fitting(counts[number - start], number, draws):
                conditions = {quasi: domains[quasi][code] for quasi, code in candidate.items()}
                chosen.add(index, CountQuestion(conditions, name, values[value]))
        else:
            continue
        break
    questions = tuple(question for picked in chosen.picked for question in picked)
    if not questions:
        raise DataError("The table has too few records for a workload.")
    return Workload(questions, f"conjunctions(count={count}, seed={seed})")


def _candidates(people: CodedPeople, draws: Draws, where: Positions) -> list[dict[str, int]]:
    """Codes of one to three columns each."""
    names = list(people.quasi)
    width = min(_MOST_COLUMNS, len(names))
    if not width:
        return [{} for _ in range(where.count)]
    widths = 1 + draws.below("width", where, width)
    words = Positions(where.start * len(names), where.count * len(names))
    orders = draws.words("columns", words).reshape(-1, len(names)).argsort(axis=1)
    codes = np.stack(
        [draws.below(f"of {name}", where, len(people.quasi[name])) for name in names], axis=1
    )
    return [
        {names[place]: int(row[place]) for place in order[:some].tolist()}
        for row, order, some in zip(codes, orders, widths.tolist(), strict=True)
    ]


class _Chosen:
    """Questions until every class has its share; none stands there twice."""

    def __init__(self, classes: list[SizeClass], count: int) -> None:
        self._classes, self._count = classes, count
        self.picked: list[list[CountQuestion]] = [[] for _ in classes]
        self._quotas = _shared(count, [True] * len(classes))
        self._seen: set[tuple[object, ...]] = set()

    def full_at(self, number: int) -> bool:
        """Whether no further candidate is needed, of which this one is next."""
        full = [len(some) >= quota for some, quota in zip(self.picked, self._quotas, strict=True)]
        if number == _MOST_TRIES * self._count and not all(full):
            # the table has no more such counts: others fill up
            extra = _shared(self._count - sum(map(len, self.picked)), full)
            self._quotas = [len(s) + more for s, more in zip(self.picked, extra, strict=True)]
        return all(full) or number >= 2 * _MOST_TRIES * self._count

    def fitting(self, counts: IntArray, number: int, draws: Draws) -> list[tuple[int, int]]:
        """By class that lacks questions: a value at random whose count is in it."""
        found = []
        for index, class_ in enumerate(self._classes):
            values = np.flatnonzero(class_.holds(counts))
            if len(values) and len(self.picked[index]) < self._quotas[index]:
                purpose = f"value for {class_.name}"
                drawn = draws.below(purpose, Positions(number, 1), len(values))
                found.append((index, int(values[drawn[0]])))
        return found

    def add(self, index: int, question: CountQuestion) -> None:
        key = (*sorted(question.conditions.items(), key=lambda item: item[0]), question.value)
        if key not in self._seen:
            self._seen.add(key)
            self.picked[index].append(question)


def _shared(count: int, among: Sequence[bool]) -> list[int]:
    """A number cut into parts as even as integers allow, for some."""
    able = [index for index, able in enumerate(among) if able]
    parts = [0] * len(among)
    for turn, place in enumerate(able):
        parts[place] = count // len(able) + (turn < count % len(able))
    return parts
