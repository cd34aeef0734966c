"""A table, raw or as a release shows it, as small integer codes in memory; the true answers from
the raw one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.columns import Kind, Value
from sfumato.draws import BoolArray, IntArray
from sfumato.engines.counting import sensitive_codes, take_profile, whole_column
from sfumato.errors import UsageError
from sfumato.operators.base import FloatArray
from sfumato.table import Table
from sfumato.table.staging import stage, staged
from sfumato.workloads.questions import Condition, CountQuestion, Workload

Bits = npt.NDArray[np.uint8]  # a bit for every record
MOST_BYTES = 1 << 28  # of bitmaps that are kept: beyond it they are made anew


@dataclass(frozen=True, eq=False)
class WorkloadColumn:
    """A column as codes: the places of its values in `domain`, which is in order where it is raw.

    `members` are what a value stands for, where a release merged several.
    """

    name: str
    kind: Kind
    domain: pa.Array
    codes: IntArray  # of few bits
    members: Sequence[Sequence[Value]] | None = None

    def __len__(self) -> int:
        return len(self.domain)

    @cached_property
    def values(self) -> tuple[Value, ...]:
        return tuple(self.domain.to_pylist())

    @cached_property
    def places(self) -> dict[Value, int]:
        return {value: index for index, value in enumerate(self.values)}

    def fits(self, condition: Condition) -> FloatArray:
        """How far each value satisfies a condition: merged ones are taken as equally likely."""
        if self.members is None:
            return condition.holds(self.domain).astype(np.float64)
        return np.array([np.mean([condition.holds_json(v) for v in some]) for some in self.members])

    def satisfying(self, condition: Condition) -> BoolArray:
        """Which values can satisfy a condition."""
        return np.asarray(self.fits(condition) > 0, np.bool_)


@dataclass(frozen=True, eq=False)
class CodedTable:
    """Quasi and sensitive columns of every record; conjunctions are ANDs of bitmaps, which are
    made on first use and kept while they fit."""

    quasi: Mapping[str, WorkloadColumn]
    sensitive: Mapping[str, WorkloadColumn]
    rows: int
    _kept: dict[Hashable, Bits] = field(default_factory=dict, repr=False)

    def _bits(self, key: Hashable, codes: IntArray, chosen: Callable[[], BoolArray]) -> Bits:
        """The records whose code is chosen."""
        if key not in self._kept:
            bitmap = np.packbits(chosen()[codes])
            if (len(self._kept) + 1) * len(bitmap) > MOST_BYTES:
                self._kept.clear()
            self._kept[key] = bitmap
        return self._kept[key]

    def _conditions(self, question: CountQuestion) -> Iterator[Bits]:
        for name, asked in question.conditions.items():
            column = self.quasi[name]
            yield self._bits((name, asked), column.codes, partial(column.satisfying, asked))

    def matching(self, question: CountQuestion) -> IntArray:
        """The records that can satisfy the conditions on quasi columns, whatever their value."""
        bitmaps = list(self._conditions(question))
        if not bitmaps:
            return np.arange(self.rows)
        return np.flatnonzero(np.unpackbits(np.bitwise_and.reduce(bitmaps), count=self.rows))

    def fitting(self, question: CountQuestion, rows: IntArray) -> FloatArray | None:
        """How far these records satisfy the conditions; None where all do wholly."""
        weights = None
        for name, asked in question.conditions.items():
            if self.quasi[name].members is not None:
                fits = self.quasi[name].fits(asked)
                if bool(((fits > 0) & (fits < 1)).any()):
                    weights = (1.0 if weights is None else weights) * fits[
                        self.quasi[name].codes[rows]
                    ]
        return weights

    def counts_within(self, question: CountQuestion) -> IntArray:
        """Of the records that match, how many have each value of the question's column."""
        column = self.sensitive[question.column]
        return np.bincount(column.codes[self.matching(question)], minlength=len(column))

    def count(self, question: CountQuestion) -> int:
        """How many records satisfy all of a question."""
        column, places = self.sensitive[question.column], self.places_of(question)

        def asked() -> BoolArray:
            return np.isin(np.arange(len(column)), places)

        bitmaps = [
            *self._conditions(question),
            self._bits((column.name, places), column.codes, asked),
        ]
        return int(np.bitwise_count(np.bitwise_and.reduce(bitmaps)).sum(dtype=np.int64))

    def places_of(self, question: CountQuestion) -> tuple[int, ...]:
        """The codes of the values asked for."""
        return places_of(question, self.sensitive[question.column].places)


def places_of(question: CountQuestion, places: Mapping[Value, int]) -> tuple[int, ...]:
    missing = [value for value in question.values if value not in places]
    if missing:
        raise UsageError(
            f"The workload asks for {missing[0]!r}, which column {question.column!r} does not "
            "have. Make the workload from the table that was published."
        )
    return tuple(places[value] for value in question.values)


def people_of(table: Table) -> CodedTable:
    """Read a table once, as codes. Memory: a byte or two per record and column.

    >>> from sfumato.table import read
    >>> table = pa.table({"age": [30, 41, 52], "disease": ["flu", "HIV", "flu"]})
    >>> people_of(read(table, quasi="age", sensitive="disease")).sensitive["disease"].codes
    array([1, 0, 1], dtype=uint8)
    """
    table = stage(table)
    profile = take_profile(table)
    quasi = {name: _quasi(table, name) for name in table.quasi}
    sensitive = {}
    for name in table.sensitive:
        domain = staged(table).domains[name]
        codes = _small(sensitive_codes(table, name), len(domain))
        sensitive[name] = WorkloadColumn(name, table.kinds[name], domain, codes)
    return CodedTable(quasi, sensitive, profile.rows)


def _quasi(table: Table, name: str) -> WorkloadColumn:
    domain, codes = whole_column(table, name)
    return WorkloadColumn(name, table.kinds[name], domain, _small(codes, len(domain)))


def _small(codes: IntArray, size: int) -> IntArray:
    return codes.astype(np.min_scalar_type(max(size - 1, 0)))


def true_counts(workload: Workload, people: CodedTable) -> IntArray:
    """The true answers, by bitmaps: some 20 µs a question for 100,000 records."""
    return np.array([people.count(question) for question in workload.questions], np.int64)
