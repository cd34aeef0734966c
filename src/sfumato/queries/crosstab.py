"""Counts and shares of two columns against each other, and whether they go together.

Everything is asked of the one evaluator: counts by both keys; shares as ratios of counts with the
covariance of the two. Where the denominator is counted and not estimated, a share is a count,
scaled.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.operators.base import FloatArray
from sfumato.queries.aggregates import COUNT, Aggregate, Call
from sfumato.queries.answer import Answer, estimate_text, key_text
from sfumato.queries.evaluate import answer, source_of
from sfumato.queries.formulas import Formula
from sfumato.queries.independence import Independence, independence_of
from sfumato.queries.parse import parse
from sfumato.queries.question import ERRORS, Output, Question, Term
from sfumato.queries.session import session_of
from sfumato.queries.sources import Request
from sfumato.queries.spelling import check_spelling
from sfumato.queries.statements import cross_count, literal, quoted, without_alias
from sfumato.release import Release
from sfumato.results import html_paragraphs, html_table

if TYPE_CHECKING:
    import pandas
    import polars

    from sfumato.pages.answers import DrawnChart

MOST_CELLS = 2_000
MEASURES = ("count", "share_of_row", "share_of_column", "share_of_all")
_PARTS = ("", *(f"_{each}" for each in ERRORS))
_ROW, _COLUMN = 0, 1


@dataclass(frozen=True, eq=False)
class Crosstab:
    """Two columns against each other: an `Answer` by cell, and a test of independence.

    `answer` has a row for every cell, with four measures: `count`, `share_of_row`,
    `share_of_column`, `share_of_all`, each with its error and interval.
    """

    names: tuple[str, str]
    answer: Answer
    test: Independence

    @property
    def keys(self) -> tuple[list[Any], list[Any]]:
        """The keys down and across."""
        down, across = (self.answer.table.column(name).to_pylist() for name in self.names)
        return list(dict.fromkeys(down)), list(dict.fromkeys(across))

    def measure(self, name: str = "count", part: str = "") -> FloatArray:
        """A measure, or its `stderr`, `low` or `high`, as a matrix (down, across)."""
        if name not in MEASURES or part not in ("", *ERRORS):
            raise QueryError(
                f"A cross table has the measures {', '.join(MEASURES)}, each with "
                f"{', '.join(ERRORS)}. Got {name!r}, {part!r} instead."
            )
        column = self.answer.table.column(f"{name}_{part}" if part else name)
        numbers = np.array(column.to_pylist(), np.float64)
        return numbers.reshape([len(key) for key in self.keys])

    def to_json(self) -> dict[str, Any]:
        return {**self.answer.to_json(), "independence": self.test.to_json()}

    def to_arrow(self) -> pa.Table:
        return self.answer.to_arrow()

    def to_pandas(self) -> pandas.DataFrame:
        return self.answer.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        return self.answer.to_polars()

    def plot(self, path: str | Path | None = None) -> DrawnChart:
        """A heat map of the counts and of the shares of the rows."""
        drawn = ("count", "share_of_row")
        columns = [*self.names, *(measure + part for measure in drawn for part in _PARTS)]
        shown = replace(self.answer, table=self.answer.table.select(columns), aggregates=drawn)
        return shown.plot(path, title=" by ".join(self.names))

    def __str__(self) -> str:
        titles, lines = self._cells()
        widths = [max(map(len, column)) for column in zip(titles, *lines, strict=True)]
        ruled = [titles, ["─" * width for width in widths], *lines]
        blocks = []
        for places in _beside(widths, shutil.get_terminal_size((100, 24)).columns):
            texts = [
                "  ".join(
                    line[index].rjust(widths[index]) if index else line[index].ljust(widths[index])
                    for index in places
                ).rstrip()
                for line in ruled
            ]
            blocks.append("\n".join(texts))
        return "\n".join(["\n\n".join(blocks), str(self.test)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        titles, lines = self._cells()
        return html_table(titles, lines) + html_paragraphs([str(self.test)])

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Counts with their errors and their share of the row."""
        down, across = self.keys
        value, error, low, high = (self.measure(part=p) for p in ("", "stderr", "low", "high"))
        share = self.measure("share_of_row")

        def cell(at: tuple[int, int]) -> str:
            text = estimate_text(value[at], error[at], low[at], high[at], None, whole=True)
            return f"{text} ({100 * max(share[at], 0):.0f} %)"

        lines = [
            [key_text(key), *(cell((r, c)) for c in range(len(across)))]
            for r, key in enumerate(down)
        ]
        return [f"{self.names[0]} \\ {self.names[1]}", *map(key_text, across)], lines


def _beside(widths: Sequence[int], room: int) -> list[list[int]]:
    """Columns that fit beside each other, the first of all in every block.

    >>> _beside([4, 10, 10, 10], 30)
    [[0, 1, 2], [0, 3]]
    """
    blocks: list[list[int]] = []
    left = 0
    for index, width in enumerate(widths[1:], start=1):
        if not blocks or left < width + 2:
            blocks.append([0])
            left = room - widths[0]
        blocks[-1].append(index)
        left -= width + 2
    return blocks


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
    cells = table.cells()
    names = (rows, columns)
    keys = {
        name: pa.array(_repeated(table.keys, index), table.kinds[index])
        for index, name in enumerate(names)
    }
    columns_of_answer = {
        f"{measure}{part}": pa.array(values[number].ravel(), pa.float64(), from_pandas=True)
        for measure, values in cells.items()
        for number, part in enumerate(_PARTS)
    }
    answered = Answer(
        pa.table({**keys, **columns_of_answer}), MEASURES, request.confidence, table.estimator
    )
    source = source_of(release, session_of(release, request.threads))
    return Crosstab(names, answered, independence_of(source, question))


def _named(release: Release, text: str) -> tuple[str, str]:
    """A side as SQL, and what to call it: a column's exact name, or an expression."""
    if any(column.name == text for column in release.columns):
        sql, name = quoted(text), text
    else:
        sql, name = without_alias(text)
    taken = {measure + part for measure in MEASURES for part in _PARTS}
    return sql, f"{name} (key)" if name in taken else name


def _repeated(keys: Sequence[Sequence[Any]], place: int) -> list[Any]:
    down, across = keys
    if place == _ROW:
        return [key for key in down for _ in across]
    return [key for _ in down for key in across]


class _Asked:
    """The counts of a cross table, and what else is asked to make shares of them."""

    def __init__(self, release: Release, question: Question, request: Request) -> None:
        self._release, self._question, self._request = release, question, request
        estimates = answer(release, question, request)
        self.estimator = estimates.estimator
        table = estimates.table
        self.kinds = [table.column(name).type for name in ("r", "c")]
        self.keys: list[list[Any]] = [
            answered.column("k").to_pylist()
            for answered in (self._ask((index,), (Call(COUNT, (), ()),)) for index in range(2))
        ]
        if len(self.keys[0]) * len(self.keys[1]) > MOST_CELLS:
            raise QueryError(
                f"The cross table would have {len(self.keys[0]):,} by {len(self.keys[1]):,} cells, "
                f"more than {MOST_CELLS:,}. Group the values, by CASE or by age // 10 * 10."
            )
        self._counts = self._placed(table, "n")

    def cells(self) -> dict[str, FloatArray]:
        """By measure: (value and errors, down, across)."""
        shares = [self._shares(by) for by in ((_ROW,), (_COLUMN,), ())]
        return dict(zip(MEASURES, [self._counts, *shares], strict=True))

    def _shares(self, by: tuple[int, ...]) -> FloatArray:
        """Of the records with the same keys `by`."""
        question = self._question
        estimated = any(term.sensitive for term in question.where)
        if not estimated and not any(question.keys[index].sensitive for index in by):
            totals = self._ask(by, (Call(COUNT, (), ()),)).column("a0").to_numpy()
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
            [table.column(f"a{number}{part}").to_numpy(zero_copy_only=False) for part in _PARTS]
            for number in range(len(wanted))
        ]
        shares = np.array(parts, np.float64)  # (other keys, parts, own keys)
        if not by:
            return np.moveaxis(shares[:, :, 0], 0, 1).reshape(self._counts.shape)
        return np.moveaxis(shares, 0, 1 if by == (_COLUMN,) else 2)

    def _share(self, keys: Sequence[tuple[int, Any]]) -> Formula:
        conditions = tuple(self._equals(self._question.keys[index], key) for index, key in keys)
        parts = (Call(COUNT, (), conditions), Call(COUNT, (), ()))
        return Formula(f"{parts[0].text} / COUNT(*)", parts, lambda counts: counts[0] / counts[1])

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

    def _placed(self, table: pa.Table, name: str) -> FloatArray:
        """An aggregate by cell; a cell that nobody could be in counts 0."""
        grid = np.zeros((len(_PARTS), *(len(key) for key in self.keys)))
        places = [
            np.array([{key: n for n, key in enumerate(keys)}[key] for key in labels], np.int64)
            for keys, labels in zip(
                self.keys, (table.column(side).to_pylist() for side in ("r", "c")), strict=True
            )
        ]
        for number, part in enumerate(_PARTS):
            values: npt.NDArray[Any] = np.array(table.column(name + part).to_pylist(), np.float64)
            grid[number, places[0], places[1]] = values
        return grid
