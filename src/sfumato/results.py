"""Results are data: tables and sentences, with text, JSON, HTML and notebook forms written once.

A result is a frozen dataclass that inherits from `Result`, made with `repr=False`. `parts` says
what people read; JSON has the fields.
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal

from sfumato.columns import value_to_json
from sfumato.textform import TextForm

Cell = str | int | float | None
Tone = Literal["plain", "good", "bad", "private"]
_LONG = 40  # letters of a cell from which on it is given room of its own

_STYLE = (
    "body{font-family:system-ui,sans-serif;margin:2em;color-scheme:light dark}"
    "table{border-collapse:collapse;margin:1em 0}caption{text-align:left;font-weight:bold}"
    "td,th{padding:.2em .8em;border-bottom:1px solid #8884;text-align:left}"
)


@dataclass(frozen=True)
class Interval:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def ends(self) -> tuple[float, float, float]:
        return self.value, self.low, self.high

    def __contains__(self, figure: float) -> bool:
        return self.low <= figure <= self.high


@dataclass(frozen=True)
class ResultTable:
    """A table. Columns in `percent` hold shares; `paper` names those that repeat a paper's figures.

    `marks` gives the tone of a row. On a page, a table with `folded` is shown when somebody opens
    that line, and in print.

    >>> print(ResultTable("Table 3", "Retention", ("L", "ours"), [(6, 0.285)], percent={"ours"}))
    Table 3. Retention
    L  ours
    6  28.5 %
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    paper: tuple[str, ...] = ()
    note: str = ""
    percent: Iterable[str] = ()
    marks: Mapping[int, Tone] = field(default_factory=dict)
    folded: str = ""

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), self.columns
        assert {*self.paper, *self.percent} <= set(self.columns), self.columns

    @property
    def head(self) -> str:
        return ". ".join(part for part in (self.name, self.title) if part)

    def texts(self) -> list[tuple[str, ...]]:
        """Every cell as people read it."""
        shares = [column in self.percent for column in self.columns]
        return [
            tuple(cell_text(cell, percent=p) for cell, p in zip(row, shares, strict=True))
            for row in self.rows
        ]

    def to_json(self) -> dict[str, Any]:
        names = ("name", "title", "columns", "paper", "rows", "note")
        return {name: as_json(getattr(self, name)) for name in names}

    def to_text(self) -> str:
        lines = [self.columns, *self.texts()]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.columns))]
        body = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join([*([self.head] if self.head else []), *body, *filter(None, [self.note])])

    __str__ = to_text

    def to_html(self) -> str:
        worded = [
            all(cell is None or isinstance(cell, str) for cell in cells)
            for cells in zip(*self.rows, strict=True)
        ]
        return html_table(
            self.columns, self.texts(), title=self.head, note=self.note, worded=worded,
            tones=self.marks,
        )  # fmt: skip


class Result:
    """Something found out. A subclass says its `parts`, or what `print` shows of it.

    >>> @dataclass(frozen=True, repr=False)
    ... class Sum(Result):
    ...     value: float
    ...     def parts(self) -> list[ResultTable | str]:
    ...         return ["1 < 2"]
    >>> Sum(math.inf), Sum(math.inf).to_json(), Sum(math.inf)._repr_html_()
    (1 < 2, {'value': 'inf'}, '<p>1 &lt; 2</p>')
    """

    more: ClassVar[tuple[str, ...]] = ()  # properties that JSON has besides the fields
    kept: ClassVar[tuple[str, ...]] = ()  # fields that JSON does not have

    def parts(self) -> Sequence[ResultTable | str]:
        """Tables and sentences, in the order in which they are read."""
        return [str(self)]

    def to_json(self) -> dict[str, Any]:
        """One JSON object: infinite numbers are "inf" and "-inf", what is no number is null."""
        names = [entry.name for entry in dataclasses.fields(self)]  # type: ignore[arg-type]
        names = [*(name for name in names if name not in self.kept), *self.more]
        return {name: as_json(getattr(self, name)) for name in names}

    def __str__(self) -> str:
        return "\n\n".join(str(part) for part in self.parts())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return "".join(
            part.to_html() if isinstance(part, ResultTable) else html_sentence(part)
            for part in self.parts()
        )

    def to_html(self) -> str:
        """A page that stands by itself."""
        title = html.escape(f"sfumato {type(self).__name__.lower()}")
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f"<style>{_STYLE}</style></head><body><h1>{title}</h1>{self._repr_html_()}</body></html>\n"
        )


def as_json(value: Any) -> Any:
    """What JSON can hold: the one spelling of every type.

    >>> as_json({"a": (math.inf, math.nan, Fraction(1, 4)), "b": Path("x")})
    {'a': ['inf', None, 0.25], 'b': 'x'}
    """
    if value is None or isinstance(value, bool | int | str):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, float | Fraction):
        number = float(value)
        return number if math.isfinite(number) else None if math.isnan(number) else repr(number)
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, TextForm):  # a guarantee, a mechanism, an attack
        return str(value)
    if isinstance(value, Mapping):
        return {str(as_json(name)): as_json(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [as_json(part) for part in value]
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return {
            entry.name: as_json(getattr(value, entry.name)) for entry in dataclasses.fields(value)
        }
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # numpy's
        return as_json(value.tolist())
    return value_to_json(value)


def cell_text(cell: Cell, *, percent: bool = False) -> str:
    """A cell as people read it: the one number format.

    >>> [cell_text(cell) for cell in (None, 12345, 0.123456, 12345.6, math.inf, "x", True)]
    ['–', '12,345', '0.1235', '12,346', '∞', 'x', 'yes']
    >>> cell_text(0.1234, percent=True), cell_text(12.0, percent=True)
    ('12.3 %', '1,200 %')
    """
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if cell is None or isinstance(cell, str):
        return "–" if cell is None else cell
    if math.isnan(cell):
        return "–"
    if math.isinf(cell):
        return "∞" if cell > 0 else "−∞"
    if percent:
        return f"{100 * cell:.1f} %" if abs(cell) < 10 else f"{100 * cell:,.0f} %"
    if isinstance(cell, int) or abs(cell) >= 10_000:
        return f"{cell:,.0f}"
    return f"{cell:.4g}"


def html_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str = "",
    note: str = "",
    worded: Sequence[bool] = (),
    tones: Mapping[int, Tone] | None = None,
) -> str:
    """A table of texts; nothing in it can turn into markup.

    `worded` says which columns hold words, which stand to the left; `tones` is by row.

    >>> print(html_table(("a",), [("<b>",)]).partition("<tbody>")[2])
    <tr><td>&lt;b&gt;</td></tr></tbody></table>
    """
    words = worded or [False] * len(head)

    def cell(text: str, is_words: bool, tag: str = "td") -> str:
        kinds = (["text"] if is_words else []) + (
            ["long"] if is_words and len(text) > _LONG else []
        )
        attributes = [' scope="col"'] if tag == "th" else []
        attributes += [f' class="{" ".join(kinds)}"'] if kinds else []
        return f"<{tag}{''.join(attributes)}>{html.escape(text)}</{tag}>"

    def line(number: int, row: Sequence[str]) -> str:
        tone = f' class="{tones[number]}"' if tones and number in tones else ""
        return f"<tr{tone}>{''.join(map(cell, row, words))}</tr>"

    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    titles = "".join(cell(name, is_words, "th") for name, is_words in zip(head, words, strict=True))
    body = "".join(line(number, row) for number, row in enumerate(rows))
    below = html_sentence(note) if note else ""
    return f"<table>{caption}<thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{below}"


def html_sentence(sentence: str) -> str:
    """A paragraph; several lines keep their places."""
    tag = "pre" if "\n" in sentence else "p"
    return f"<{tag}>{html.escape(sentence)}</{tag}>"


def untitled(
    columns: tuple[str, ...],
    rows: Sequence[tuple[Cell, ...]],
    percent: Iterable[str] = (),
    note: str = "",
    marks: Mapping[int, Tone] | None = None,
    folded: str = "",
) -> ResultTable:
    """A table under somebody else's heading."""
    return ResultTable("", "", columns, rows, (), note, percent, marks or {}, folded)
