"""Counts and shares of two columns against each other.

Everything is asked of the one evaluator: counts by both keys; shares as ratios of counts with the
covariance of the two. Where the denominator is counted and not estimated, a share is a count,
scaled.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.columns import label
from sfumato.errors import QueryError
from sfumato.operators.base import FloatArray
from sfumato.queries.aggregates import COUNT, Aggregate, Call
from sfumato.queries.answer import Answer, estimate_text, text_table
from sfumato.queries.evaluate import answer
from sfumato.queries.parse import parse
from sfumato.queries.question import ENDS, ERRORS, Output, Question, Term
from sfumato.queries.sources import Request
from sfumato.queries.spelling import check_spelling
from sfumato.queries.statements import cross_count, literal, quoted, without_alias
from sfumato.release import Release

if TYPE_CHECKING:
    from sfumato.pages.charts import Drawing

MOST_CELLS = 2_000
MEASURES = ("count", "share_of_row", "share_of_column", "share_of_all")
_ROW, _COLUMN = 0, 1
_ALL = Aggregate.of(Call(COUNT))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Crosstab(Answer):
    """Two columns against each other: an answer by cell.

    There is a row for every cell, with four measures: `count`, `share_of_row`, `share_of_column`,
    `share_of_all`, each with its error and interval.
    """

    names: tuple[str, str]

    @property
    def keys(self) -> tuple[list[Any], list[Any]]:
        """The keys down and across."""
        down, across = (self.table.column(name).unique().to_pylist() for name in self.names)
        return down, across

    def measure(self, name: str = "count", part: str = "") -> FloatArray:
        """A measure, or its `stderr`, `low` or `high`, as a matrix (down, across)."""
        if name not in MEASURES or part not in ("", *ERRORS):
            raise QueryError(
                f"A cross table has the measures {', '.join(MEASURES)}, each with "
                f"{', '.join(ERRORS)}. Got {name!r}, {part!r} instead."
            )
        column = self.table.column(f"{name}_{part}" if part else name)
        numbers = np.array(column.to_pylist(), np.float64)
        return numbers.reshape([len(key) for key in self.keys])

    def _drawing(self, title: str) -> Drawing:
        """Heat maps of the counts and of the shares of the rows."""
        drawn = MEASURES[:2]
        columns = [*self.names, *(measure + part for measure in drawn for part in ENDS)]
        shown = Answer(self.table.select(columns), drawn, self.confidence)
        return shown._drawing(" by ".join(self.names))

    def __repr__(self) -> str:
        titles, lines = self._cells()
        room = shutil.get_terminal_size((100, 24)).columns
        table = text_table(titles, lines, [False, *[True] * (len(titles) - 1)], room)
        return table

    __str__ = __repr__

    def _rest(self) -> list[str]:
        return []

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Counts with their errors and their share of the row."""
        down, across = self.keys
        value, error, low, high = (self.measure(part=p) for p in ("", "stderr", "low", "high"))
        share = self.measure("share_of_row")

        def cell(at: tuple[int, int]) -> str:
            text = estimate_text(value[at], error[at], low[at], high[at], None, whole=True)
            return f"{text} ({100 * max(share[at], 0):.0f} %)"

        lines = [
            [label(key), *(cell((r, c)) for c in range(len(across)))] for r, key in enumerate(down)
        ]
        return [f"{self.names[0]} \\ {self.names[1]}", *map(label, across)], lines


def crosstab(
    release: Release, rows: str, columns: str, where: str | None, request: Request
) -> Crosstab:
    """Count two columns, or expressions of columns, against each other."""
    (down, rows), (across, columns) = (_named(release, text) for text in (rows, columns))
    question = parse(cross_count(down, across, where), release.columns, release.merges)
    if len(question.keys) != 2:
        raise QueryError(f"A cross table needs two different columns. Got {rows!r} twice.")
    check_spelling(question, release.columns)
    table = _Asked(release, question, request)
    down_keys, across_keys = table.keys
    every = [[k for k in down_keys for _ in across_keys], across_keys * len(down_keys)]
    by_cell: dict[str, pa.Array] = {
        name: pa.array(keys, kind)
        for name, keys, kind in zip((rows, columns), every, table.kinds, strict=True)
    }
    for measure, values in table.cells().items():
        for part, numbers in zip(ENDS, values, strict=True):
            by_cell[measure + part] = pa.array(numbers.ravel(), pa.float64(), from_pandas=True)
    return Crosstab(
        pa.table(by_cell),
        MEASURES,
        request.confidence,
        table.estimator,
        names=(rows, columns),
    )


def _named(release: Release, text: str) -> tuple[str, str]:
    """A side as SQL, and what to call it: a column's exact name, or an expression."""
    if any(column.name == text for column in release.columns):
        sql, name = quoted(text), text
    else:
        sql, name = without_alias(text)
    taken = {measure + part for measure in MEASURES for part in ENDS}
    return sql, f"{name} (key)" if name in taken else name


class _Asked:
    """The counts of a cross table, and what else is asked to make shares of them."""

    def __init__(self, release: Release, question: Question, request: Request) -> None:
        self._release, self._question, self._request = release, question, request
        estimates = answer(release, question, request)
        self.estimator = estimates.estimator
        table = estimates.table
        self.kinds = [table.column(name).type for name in ("r", "c")]
        keys = [self._ask((index,), (_ALL,)).column("k").combine_chunks() for index in range(2)]
        self.keys: list[list[Any]] = [column.to_pylist() for column in keys]
        if len(self.keys[0]) * len(self.keys[1]) > MOST_CELLS:
            raise QueryError(
                f"The cross table would have {len(self.keys[0]):,} by {len(self.keys[1]):,} cells, "
                f"more than {MOST_CELLS:,}. Group the values, by CASE or by age // 10 * 10."
            )
        places = [
            pc.index_in(table.column(side), value_set=column).to_numpy()  # NaN is one key, too
            for column, side in zip(keys, ("r", "c"), strict=True)
        ]
        # a cell that nobody could be in counts 0
        self._counts = np.zeros((len(ENDS), *map(len, self.keys)))
        for number, part in enumerate(ENDS):
            self._counts[number][tuple(places)] = table.column(f"n{part}").to_numpy()

    def cells(self) -> dict[str, FloatArray]:
        """By measure: (value and errors, down, across)."""
        shares = [self._shares(by) for by in ((_ROW,), (_COLUMN,), ())]
        return dict(zip(MEASURES, [self._counts, *shares], strict=True))

    def _shares(self, by: tuple[int, ...]) -> FloatArray:
        """Of the records with the same keys `by`."""
        question = self._question
        estimated = any(term.sensitive for term in question.where)
        if not estimated and not any(question.keys[index].sensitive for index in by):
            totals = self._ask(by, (_ALL,)).column("a0").to_numpy()
            shape = [1, 1, 1]
            for axis in by:
                shape[1 + axis] = len(totals)
            with np.errstate(invalid="ignore", divide="ignore"):
                return np.asarray(self._counts / totals.reshape(shape))
        others = [index for index in range(2) if index not in by]
        combinations = np.indices([len(self.keys[other]) for other in others])
        combinations = combinations.reshape(len(others), -1).T
        wanted = [
            self._share(
                [(other, self.keys[other][n]) for other, n in zip(others, combination, strict=True)]
            )
            for combination in combinations.tolist()
        ]
        table = self._ask(by, wanted)
        parts = [
            [table.column(f"a{number}{part}").to_numpy(zero_copy_only=False) for part in ENDS]
            for number in range(len(wanted))
        ]
        shares = np.array(parts, np.float64)  # (other keys, parts, own keys)
        if not by:
            return np.moveaxis(shares[:, :, 0], 0, 1).reshape(self._counts.shape)
        return np.moveaxis(shares, 0, 1 if by == (_COLUMN,) else 2)

    def _share(self, keys: Sequence[tuple[int, Any]]) -> Aggregate:
        conditions = tuple(self._equals(self._question.keys[index], key) for index, key in keys)
        parts = (Call(COUNT, (), conditions), Call(COUNT))
        text = f"{parts[0].text} / COUNT(*)"
        return Aggregate(text, parts, lambda counts: counts[0] / counts[1], is_quotient=True)

    @staticmethod
    def _equals(key: Term, value: Any) -> Term:
        tree = exp.NullSafeEQ(this=exp.Paren(this=key.tree.copy()), expression=literal(value))
        return Term(tree, key.quasi, key.sensitive)

    def _ask(self, by: tuple[int, ...], aggregates: Sequence[Aggregate]) -> pa.Table:
        """By some of the keys, in their order: `k` and aggregates `a0` …"""
        asked = replace(
            self._question,
            outputs=(
                *(Output("k", "key", number) for number in range(len(by))),
                *(Output(f"a{number}", "aggregate", number) for number in range(len(aggregates))),
            ),
            keys=tuple(self._question.keys[index] for index in by),
            aggregates=tuple(aggregates),
            bins={
                by.index(index): bins for index, bins in self._question.bins.items() if index in by
            },
        )
        return answer(self._release, asked, self._request).table
