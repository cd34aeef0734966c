"""Answers: numbers with their error bars, ready for Arrow, for pandas and for the eye."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import label, list_some, value_to_json
from sfumato.errors import QueryError
from sfumato.queries.question import ENDS
from sfumato.results import html_sentence, html_table

if TYPE_CHECKING:
    import pandas

    from sfumato.pages.charts import Drawing, DrawnChart

MOST_SHOWN = 60
_LOPSIDED = 0.1  # of an interval: how much further it may reach to one side beside an error
_ROUNDING = 1e-8  # of a value: an error below it is what sums of squares are rounded by


@dataclass(frozen=True, eq=False)
class Answer:
    """The table that a question was answered with.

    An aggregate `c` stands in four columns: `c`, `c_stderr`, `c_low`, `c_high`. An answer of one
    row with one aggregate is also a number: `value`, `stderr`, `low`, `high`. `estimator` says how
    it was estimated; empty where it was counted.

    >>> row = {"count": [1204.0], "count_stderr": [61.2], "count_low": [1084.0],
    ...        "count_high": [1324.0]}
    >>> Answer(pa.table(row), ("count",), 0.95)
    1,204 ± 61 (95 %: 1,084 … 1,324)
    """

    table: pa.Table
    aggregates: tuple[str, ...]
    confidence: float
    estimator: str = ""
    counts: frozenset[str] = frozenset()  # aggregates that count people
    note: str = ""  # what has to be said beside it

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self.table.column_names)

    def rows(self) -> list[dict[str, Any]]:
        """The rows as dictionaries of Python values."""
        dictionaries: list[dict[str, Any]] = self.table.to_pylist()
        return dictionaries

    def to_json(self) -> dict[str, Any]:
        """What `--json` prints: dates and infinities as text, since JSON has neither."""
        rows = [{name: value_to_json(v) for name, v in row.items()} for row in self.rows()]
        noted = {"note": self.note} if self.note else {}
        return {"columns": self.columns, "rows": rows, "estimator": self.estimator or None, **noted}

    def to_arrow(self) -> pa.Table:
        return self.table

    def plot(self, path: str | Path | None = None, *, title: str = "Answer") -> DrawnChart:
        """Draw the answer with its error bars, and write it to `path` (.html, .png or .svg).

        One key is drawn as a line where it is a number, as bars otherwise; two keys as a heat map.
        """
        drawing = self._drawing(title)
        if path is not None:
            drawing.save(path)
        return drawing.chart()

    def _drawing(self, title: str) -> Drawing:
        from sfumato.pages.charts import MOST_MARKS, AnswerKey, AnswerMeasure, Drawing

        inside = {part for name in self.columns for part in self._parts(name)[1:]}
        names = [n for n in self.columns if n not in self.aggregates and n not in inside]
        if len(names) > 2:
            raise QueryError(
                f"A chart shows at most two keys; the answer has {list_some(names)}. Ask for fewer."
            )
        if not 0 < len(self) <= MOST_MARKS:
            raise QueryError(
                f"A chart shows 1 to {MOST_MARKS:,} rows; the answer has {len(self):,}. Ask for "
                "other groups, or use LIMIT."
            )
        table = self.table
        axes = []
        for name in names:
            column = table.column(name)
            keys, ordered = column.to_pylist(), not column.null_count and _is_ordered(column.type)
            axes.append(AnswerKey(name, keys if ordered else [*map(label, keys)], ordered))
        measures = []
        for name in self.aggregates:
            value, error, low, high = (table.column(p).to_pylist() for p in self._parts(name))
            parts, whole = zip(value, error, low, high, strict=True), name in self.counts
            texts = [estimate_text(*part, None, whole=whole) for part in parts]
            measures.append(AnswerMeasure(name, value, low, high, texts))
        caption = f"Error bars are intervals that hold in {100 * self.confidence:.6g} % of cases."
        return Drawing(title, caption, axes, measures)

    def to_pandas(self) -> pandas.DataFrame:
        frame: pandas.DataFrame = self.table.to_pandas()
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def value(self) -> float:
        """The one number of the answer; not a number where SQL says NULL."""
        return self._single("")

    def __float__(self) -> float:
        return self.value

    @property
    def stderr(self) -> float:
        return self._single("_stderr")

    @property
    def low(self) -> float:
        return self._single("_low")

    @property
    def high(self) -> float:
        return self._single("_high")

    def _single(self, suffix: str) -> float:
        if len(self) != 1 or len(self.aggregates) != 1:
            raise QueryError(
                f"The answer has {len(self):,} rows and {len(self.aggregates)} aggregates, so it "
                "is not one number. Use rows(), to_arrow() or to_pandas()."
            )
        cell = self.table.column(self.aggregates[0] + suffix)[0].as_py()
        return math.nan if cell is None else float(cell)

    def __repr__(self) -> str:
        if len(self) == 1 and [self.columns] == [self._parts(name) for name in self.aggregates]:
            return "\n".join([self._text(self.rows()[0], self.aggregates[0]), *self._rest()])
        titles, lines = self._cells()
        table = text_table(titles, lines, [name in self.aggregates for name in titles])
        return "\n".join([table, *self._rest()])

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return html_table(*self._cells()) + "".join(map(html_sentence, self._rest()))

    def _text(self, row: dict[str, Any], name: str) -> str:
        value, stderr, low, high = (row[part] for part in self._parts(name))
        whole = name in self.counts
        return estimate_text(value, stderr, low, high, self.confidence, whole=whole)

    @staticmethod
    def _parts(name: str) -> list[str]:
        return [name + end for end in ENDS]

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Titles and texts, each aggregate as one cell."""
        inside = {part for name in self.aggregates for part in self._parts(name)[1:]}
        titles = [name for name in self.columns if name not in inside]
        lines = [
            [
                self._text(row, name) if name in self.aggregates else label(row[name])
                for name in titles
            ]
            for row in self.table.slice(0, MOST_SHOWN).to_pylist()
        ]
        return titles, lines

    def _rest(self) -> list[str]:
        if not len(self):
            return ["(no rows)"]
        more = len(self) - MOST_SHOWN
        rest = [f"… and {more:,} more rows"] if more > 0 else []
        return [*rest, self.note] if self.note else rest


def has_error(table: pa.Table, name: str) -> bool:
    """Whether an aggregate is more than a rounding off in any row."""
    least = pc.multiply(pc.abs(table.column(name)), _ROUNDING)
    return bool(pc.any(pc.greater(table.column(f"{name}_stderr"), least)).as_py())


def without(table: pa.Table, hidden: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    """An answer whose aggregates are missing in some rows, with their errors."""
    for name, flags in hidden.items():
        for part in (name + end for end in ENDS):
            kept = pc.if_else(flags, None, table.column(part))
            table = table.set_column(table.column_names.index(part), part, kept)
    return table


def text_table(
    titles: Sequence[str], lines: Sequence[Sequence[str]], right: Sequence[bool], room: int = 0
) -> str:
    """Columns side by side; `room` cuts them into blocks, the first of all in every block.

    >>> print(text_table(["k", "one", "two"], [["a", "1", "22"]], [False, True, True], 8))
    k  one
    ─  ───
    a    1
    <BLANKLINE>
    k  two
    ─  ───
    a   22
    """
    widths = [max(map(len, column)) for column in zip(titles, *lines, strict=True)]
    blocks: list[list[int]] = [[0]]
    left = room - widths[0]
    for index, width in enumerate(widths[1:], start=1):
        if room and left < width + 2 and len(blocks[-1]) > 1:
            blocks.append([0])
            left = room - widths[0]
        blocks[-1].append(index)
        left -= width + 2

    def aligned(line: Sequence[str], places: Sequence[int]) -> str:
        cells = [line[n].rjust(widths[n]) if right[n] else line[n].ljust(widths[n]) for n in places]
        return "  ".join(cells).rstrip()

    ruled = [titles, ["─" * width for width in widths], *lines]
    return "\n\n".join("\n".join(aligned(line, places) for line in ruled) for places in blocks)


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def estimate_text(
    value: float | None,
    stderr: float | None,
    low: float | None,
    high: float | None,
    confidence: float | None,
    *,
    whole: bool = False,
) -> str:
    """Value, standard error and interval, with as many digits as the error leaves meaningful.

    A number alone is exact. The error stands beside it only where it says what the interval says:
    as far to both sides, by as many errors as under a normal law. `whole` numbers have no digits
    where the interval is wider than one of them.
    Without a confidence the interval is left out where there is an error.

    >>> estimate_text(41.3712, 0.1234, 41.129, 41.613, 0.95)
    '41.37 ± 0.12 (95 %: 41.13 … 41.61)'
    >>> estimate_text(238.0, 9.8, 154.2, 245.4, 0.95, whole=True)
    '238 (95 %: 154 … 245)'
    >>> estimate_text(172.0, 7.0, 146.0, 198.0, 0.95, whole=True)
    '172 (95 %: 146 … 198)'
    >>> estimate_text(12.0, 29.0, 0.0, math.inf, 0.95)
    '12 (95 %: 0 … ∞)'
    >>> estimate_text(12000.0, 0.0, 12000.0, 12000.0, 0.95)
    '12,000'
    >>> estimate_text(646.0000000001, 3.9e-8, 645.9999999, 646.0000001, 0.95)  # rounding of sums
    '646'
    >>> estimate_text(41.3712, 0.1234, 41.129, 41.613, None)
    '41.37 ± 0.12'
    """
    if value is None:
        return "(none)"
    if stderr and stderr < _ROUNDING * abs(value):
        value, stderr = float(f"{value:.9g}"), 0.0
    if not stderr or low is None or high is None or not math.isfinite(stderr):
        if value == round(value, 0) and abs(value) < 1e15:
            return f"{value:,.0f}"
        return f"{value:,.6g}"
    digits = min(max(1 - math.floor(math.log10(stderr)), 0), 12)
    if whole and high - low > 1:
        digits = 0
    ends = f"{_number(low, digits)} … {_number(high, digits)}"
    percent = "" if confidence is None else f"{100 * confidence:.6g} %: "
    usual = 2 * stderr * NormalDist().inv_cdf((1 + (confidence or 0.95)) / 2)
    lopsided = max(abs(low + high - 2 * value), abs(high - low - usual))
    if not lopsided <= _LOPSIDED * (high - low) < math.inf:
        return f"{_number(value, digits)} ({percent}{ends})"
    error = (
        f"{_number(value, digits)} ± {_number(stderr, digits if stderr >= 1 else max(digits, 1))}"
    )
    return error if confidence is None else f"{error} ({percent}{ends})"


def _number(value: float, digits: int) -> str:
    text = f"{value:,.{digits}f}".replace("inf", "∞")
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text
