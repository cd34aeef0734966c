"""The papers' three generators of count questions, with small and large counts kept apart.

`conjunctions` (perturbation thesis, Section 4.4.1; SPLU, Section 6.1): one to three quasi columns
equal a value each, and one sensitive value. `ranges` (heterogeneous generalization, Section 5): λ
quasi columns and the sensitive one, each in a random stretch of its domain of |A|·θ^(1/(λ+1))
values, so that a share θ of the records would qualify were everything uniform and independent
(errata H18). `prefixes` (the same paper, as Census staff suggested): one numeric column from its
least value up to a random one, up to three others equal a value each, and one sensitive value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from sfumato.columns import Value
from sfumato.draws import BoolArray, Draws, IntArray, Positions
from sfumato.errors import DataError, UsageError
from sfumato.operators.base import FloatArray
from sfumato.workloads.coded_table import CodedTable, WorkloadColumn
from sfumato.workloads.questions import Between, Condition, CountQuestion, OneOf, Workload

KINDS = ("conjunctions", "ranges", "prefixes")
SMALL = 10  # people: errata S14
LARGE, LARGE_SHARE = 100, 0.005  # people, and share of the records: both at least
_MOST_TRIES = 10  # candidates a question, before a class of counts is left as full as it is
_MOST_COLUMNS = 3
_DRAWN_TOGETHER = 1024  # candidates: one draw alone takes as long as a thousand


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
    people: CodedTable,
    kind: str = "conjunctions",
    *,
    count: int = 1000,
    seed: int = 0,
    column: str | None = None,
    classes: Sequence[SizeClass] | None = None,
    selectivity: float = 0.25,
    columns: int = _MOST_COLUMNS,
) -> Workload:
    """`count` questions, as many of each class of true counts; fewer where the table has not more.

    `column` is the sensitive one (the first by default). `classes` are small, middle and large
    counts for conjunctions and prefixes, all counts above 0 for ranges, whose size follows from
    `selectivity` (θ) and `columns` (λ). The same seed makes the same questions.
    """
    if kind not in KINDS:
        raise UsageError(f"There is no workload {kind!r}. Choose one of: {', '.join(KINDS)}.")
    if count < 1 or not 0 < selectivity <= 1 or columns < 1:
        raise UsageError(
            "A workload needs a count and columns of at least 1 and a selectivity above 0 and at "
            f"most 1. Got count={count}, columns={columns}, selectivity={selectivity:g}."
        )
    name = column or next(iter(people.sensitive))
    if name not in people.sensitive:
        raise UsageError(
            f"{name!r} is no sensitive column. There are: {', '.join(people.sensitive)}."
        )
    source = f"{kind}(count={count}, seed={seed}"
    if kind == "ranges":
        source += f", selectivity={selectivity:g}, columns={columns}"
        classes = classes or (SizeClass("all", 1, max(people.rows, 1)),)
    else:
        classes = classes or size_classes(people.rows)
    maker = _Maker(people, name, Draws.from_seed(seed).child(f"workload {kind}"))
    width = min(columns, len(people.quasi))
    makers: dict[str, Callable[[int], CountQuestion]] = {
        "conjunctions": lambda number: maker.conjunction(number, width),
        "ranges": lambda number: maker.ranges(number, width, selectivity),
        "prefixes": lambda number: maker.prefix(number, width),
    }
    questions = _pick(maker, makers[kind], list(classes), count)
    if not questions:
        raise DataError(f"The table has too few records for a workload of {kind}.")
    return Workload(tuple(questions), source + ")")


def _pick(
    maker: _Maker, candidate: Callable[[int], CountQuestion], classes: list[SizeClass], count: int
) -> list[CountQuestion]:
    """Candidates until every class has its share; no question stands there twice."""
    picked: list[list[CountQuestion]] = [[] for _ in classes]
    quotas = _shared(count, [True] * len(classes))
    seen: set[tuple[object, ...]] = set()
    for number in range(2 * _MOST_TRIES * count):
        full = [len(questions) >= quota for questions, quota in zip(picked, quotas, strict=True)]
        if all(full):
            break
        if number == _MOST_TRIES * count:  # the table has no more such counts: others fill up
            rest = count - sum(map(len, picked))
            extra = _shared(rest, full)
            quotas = [len(questions) + more for questions, more in zip(picked, extra, strict=True)]
        question = candidate(number)
        counts = maker.people.counts_within(question)
        for questions, class_, quota in zip(picked, classes, quotas, strict=True):
            values = maker.values(question, number, class_, counts)
            if values and len(questions) < quota and (question.key, values) not in seen:
                seen.add((question.key, values))
                questions.append(CountQuestion(question.conditions, question.column, values))
    return [question for questions in picked for question in questions]


def _shared(count: int, among: Sequence[bool]) -> list[int]:
    """A number cut into parts as even as integers allow, for some."""
    able = [index for index, able in enumerate(among) if able]
    parts = [0] * len(among)
    for turn, place in enumerate(able):
        parts[place] = count // len(able) + (turn < count % len(able))
    return parts


class _Maker:
    """Candidates, each with draws of its own."""

    def __init__(self, people: CodedTable, column: str, draws: Draws) -> None:
        self.people, self.column, self.draws = people, column, draws

        @cache
        def numbers(purpose: str, bound: int, block: int) -> list[int]:
            where = Positions(block * _DRAWN_TOGETHER, _DRAWN_TOGETHER)
            drawn: list[int] = draws.below(purpose, where, bound).tolist()
            return drawn

        @cache
        def orders(block: int) -> IntArray:
            shape = _DRAWN_TOGETHER, len(people.quasi)
            where = Positions(block * shape[0] * shape[1], shape[0] * shape[1])
            return draws.words("columns", where).reshape(shape).argsort(axis=1)

        self._numbers, self._orders = numbers, orders

    def _below(self, purpose: str, number: int, bound: int) -> int:
        block, offset = divmod(number, _DRAWN_TOGETHER)
        return self._numbers(purpose, bound, block)[offset]

    def _columns(self, number: int, width: int, without: str = "") -> list[WorkloadColumn]:
        columns, (block, offset) = list(self.people.quasi.values()), divmod(number, _DRAWN_TOGETHER)
        ordered = [columns[k] for k in self._orders(block)[offset]]
        return [column for column in ordered if column.name != without][:width]

    def _equal(self, number: int, column: WorkloadColumn) -> Condition:
        return stretch(column, self._below(f"of {column.name}", number, len(column)), 1)

    def conjunction(self, number: int, most: int) -> CountQuestion:
        width = 1 + self._below("width", number, most) if most else 0
        chosen = self._columns(number, width)
        return CountQuestion({c.name: self._equal(number, c) for c in chosen}, self.column, ())

    def prefix(self, number: int, most: int) -> CountQuestion:
        numeric = [c.name for c in self.people.quasi.values() if c.kind == "numeric"]
        names = numeric or list(self.people.quasi)
        if not names:
            return CountQuestion({}, self.column, ())
        name = names[self._below("prefix", number, len(names))]
        column = self.people.quasi[name]
        end = 1 + self._below(f"of {name}", number, len(column))
        conditions = {name: stretch(column, 0, end)}
        width = self._below("width", number, most) if most > 1 else 0
        for other in self._columns(number, width, without=name):
            conditions[other.name] = self._equal(number, other)
        return CountQuestion(conditions, self.column, ())

    def ranges(self, number: int, width: int, selectivity: float) -> CountQuestion:
        def some(column: WorkloadColumn) -> tuple[int, int]:
            length = max(1, round(len(column) * selectivity ** (1 / (width + 1))))
            start = self._below(f"of {column.name}", number, len(column) - length + 1)
            return start, length

        conditions = {c.name: stretch(c, *some(c)) for c in self._columns(number, width)}
        sensitive = self.people.sensitive[self.column]
        start, length = some(sensitive)
        return CountQuestion(conditions, self.column, sensitive.values[start : start + length])

    def values(
        self, question: CountQuestion, number: int, class_: SizeClass, counts: IntArray
    ) -> tuple[Value, ...]:
        """Of a whole question its own values, of another one at random, if their count is in the
        class; nothing where it is not."""
        if question.values:
            true = counts[list(self.people.places_of(question))].sum()
            return question.values if class_.holds(true) else ()
        fitting = np.flatnonzero(class_.holds(counts))
        if not len(fitting):
            return ()
        drawn = self.draws.below(f"value for {class_.name}", Positions(number, 1), len(fitting))
        return (self.people.sensitive[self.column].values[int(fitting[drawn[0]])],)


def stretch(column: WorkloadColumn, start: int, length: int) -> Condition:
    """`length` neighbouring values of a column: a range of numbers, a list of anything else."""
    values = column.values[start : start + length]
    plain = all(type(value) in (int, float) and value == value for value in values)
    if column.kind == "numeric" and plain and values:
        return Between(values[0], values[-1])
    return OneOf(values)
