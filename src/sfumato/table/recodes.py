"""What a recode is: a coarser form of a column, made before anything else looks at it.

`age=bins(0, 18, 65, inf)`, `diagnosis=prefix(3) then rare(20)`: a chain of steps, each a function
of the value alone. The steps stand in the manifest, and everything after the table knows the
recoded values only.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import bin_labels, edge_text
from sfumato.errors import DataError, UsageError
from sfumato.table.sources import ColumnMap, Source
from sfumato.textform import Parameter, TextForm, split_call

THEN = " then "
REST = "*"  # stands for every value that a group file does not list
_MOST_COUNTED = 1 << 22  # different values among which rare ones are looked for


def is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


_TAKEN: dict[str, Callable[[pa.DataType], bool]] = {  # what a recode can be given, in words
    "numbers": is_number,
    "dates": lambda kind: pa.types.is_date(kind) or pa.types.is_timestamp(kind),
    "texts or whole numbers": lambda kind: pa.types.is_string(kind) or pa.types.is_integer(kind),
}


RECODES: dict[str, type[Recode]] = {}


class Recode(TextForm, ColumnMap):
    """One step. A frozen dataclass whose fields are its parameters; it makes texts unless it says
    otherwise. One that `needs_text` must not be given the 7 that 007 would become."""

    what: ClassVar[str] = "recode"
    takes: ClassVar[str]
    example: ClassVar[str]
    needs_text: ClassVar[bool]

    def __init_subclass__(
        cls,
        example: str = "",
        takes: str = "",
        needs_text: bool = False,
        parameter: Parameter | None = None,
    ) -> None:
        cls.takes, cls.example, cls.needs_text = takes or cls.takes, example, needs_text
        cls.parameters = () if parameter is None else (parameter,)
        if example:
            cls.name = example.partition("(")[0]
            RECODES[cls.name] = cls

    def type(self, kind: pa.DataType) -> pa.DataType:
        return pa.string()

    def fitted(self, source: Source, column: str) -> Self:
        """The step for this column; most are the same for every one."""
        return self


@dataclass(frozen=True)
class Recodes:
    """The steps of one column, first to last.

    >>> str(Recodes.of("top(90) then bins(0, 18, 90)"))
    'top(90) then bins(0, 18, 90)'
    """

    steps: tuple[Recode, ...]

    @classmethod
    def of(cls, text: str) -> Recodes:
        steps = []
        for part in text.split(THEN):
            name, positional, keywords = split_call(part, "recode")
            if name not in RECODES:
                raise UsageError(
                    f"There is no recode {name!r}. There are: "
                    f"{', '.join(recode.example for recode in RECODES.values())}."
                )
            steps.append(RECODES[name].from_arguments(positional, keywords))
        return cls(tuple(steps))

    def __str__(self) -> str:
        return THEN.join(map(str, self.steps))

    def apply(self, source: Source, column: str) -> tuple[Source, Recodes]:
        """The source with the column recoded, and the steps as this column made them."""
        done = []
        for step in self.steps:
            kind = source.schema.field(column).type
            if not _TAKEN[step.takes](kind):
                raise DataError(
                    f"Column {column!r} of {source.label} is {kind}; {step.name} needs "
                    f"{step.takes}."
                )
            done.append(step.fitted(source, column))
            source = source.mapped({column: done[-1]})
        return source, Recodes(tuple(done))

    @property
    def bins(self) -> tuple[float, ...] | None:
        """The edges of the bins that come out, where they do."""
        last = self.steps[-1]
        return last.edges if isinstance(last, Bins) else None


@dataclass(frozen=True)
class Bins(Recode, example="bins(0, 18, 65, inf)", takes="numbers"):
    """Half-open bins between ascending edges; the last one includes its upper edge.

    >>> Bins((0, 100, 1000)).apply(pa.array([0.0, 99.9, 100.0, 1000.0])).indices.to_pylist()
    [0, 0, 1, 1]
    >>> str(Bins.of("0, 18, inf"))
    'bins(0, 18, inf)'
    """

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(float(edge) for edge in self.edges))
        if len(self.edges) < 3 or any(not low < high for low, high in pairwise(self.edges)):
            raise UsageError(
                "Bins need at least three ascending edges, for example 'cost=0,100,1000' "
                f"(inf and -inf are allowed). Got {', '.join(edge_text(e) for e in self.edges)}."
            )

    @staticmethod
    def of(edges: str | Sequence[float]) -> Bins:
        try:
            return Bins(tuple(edges.split(",") if isinstance(edges, str) else edges))  # type: ignore[arg-type]
        except ValueError:
            raise UsageError(f"Bins need numbers between commas. Got {edges!r}.") from None

    @classmethod
    def from_arguments(cls, positional: list[str], keywords: dict[str, str]) -> Bins:
        if keywords:
            raise UsageError(f"bins takes edges only: {cls.example}.")
        return cls.of(",".join(positional))

    def __str__(self) -> str:
        return f"bins({', '.join(edge_text(edge) for edge in self.edges)})"

    def apply(self, array: pa.Array) -> pa.Array:
        """The labels; what is missing, or not a number, is missing."""
        numbers = pc.cast(array, pa.float64(), safe=False).fill_null(math.nan).to_numpy()
        low, *_, high = self.edges
        absent = np.isnan(numbers)
        outside = int((~absent & ~((low <= numbers) & (numbers <= high))).sum())
        if outside:
            raise DataError(
                f"has values outside its bins, {outside:,} among {len(array):,} rows. Widen them; "
                "-inf and inf are allowed as edges."
            )
        codes = np.searchsorted(self.edges[1:-1], numbers, side="right").astype(np.int32)
        labels = pa.array(bin_labels(self.edges))
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=absent), labels)


class _OfNumbers(Recode, takes="numbers"):
    """Numbers by one number, exactly where both are whole."""

    def type(self, kind: pa.DataType) -> pa.DataType:
        whole = Fraction(getattr(self, self.parameters[0].name)).denominator == 1
        return pa.int64() if pa.types.is_integer(kind) and whole else pa.float64()


@dataclass(frozen=True)
class Round(_OfNumbers, example="round(5)", parameter=Parameter("step", above=0)):
    """To the nearest multiple of a step; halves go up.

    >>> Round("5").apply(pa.array([12, 13, None, -3])).to_pylist()
    [10, 15, None, -5]
    """

    step: Fraction

    def apply(self, array: pa.Array) -> pa.Array:
        if self.type(array.type) == pa.float64():
            numbers, step = array.cast(pa.float64(), safe=False), float(self.step)
            return pc.multiply(pc.floor(pc.add(pc.divide(numbers, step), 0.5)), step)
        whole, absent = int(self.step), array.is_null().to_numpy(zero_copy_only=False)
        values = array.cast(pa.int64()).fill_null(0).to_numpy()
        above = values % whole  # the multiple below, without leaving 64 bits
        return pa.array(values - above + np.where(above >= whole - above, whole, 0), mask=absent)


@dataclass(frozen=True)
class Top(_OfNumbers, example="top(90)", parameter=Parameter("limit")):
    """Numbers above a limit are the limit: "90 and more" is 90.

    >>> Top(90).apply(pa.array([12, 95, None])).to_pylist()
    [12, 90, None]
    """

    limit: Fraction

    beyond: ClassVar[str] = "greater"

    def apply(self, array: pa.Array) -> pa.Array:
        kind = self.type(array.type)
        numbers = array.cast(kind, safe=False)
        limit = pa.scalar(int(self.limit) if kind == pa.int64() else float(self.limit), kind)
        return pc.if_else(pc.call_function(self.beyond, [numbers, limit]), limit, numbers)


@dataclass(frozen=True)
class Bottom(Top, example="bottom(18)", parameter=Parameter("limit")):
    """Numbers below a limit are the limit.

    >>> Bottom(18).apply(pa.array([12, 95])).to_pylist()
    [18, 95]
    """

    beyond: ClassVar[str] = "less"


@dataclass(frozen=True)
class Year(Recode, example="year", takes="dates"):
    """The year of a date, as a number."""

    def type(self, kind: pa.DataType) -> pa.DataType:
        return pa.int64()

    def apply(self, array: pa.Array) -> pa.Array:
        return pc.year(array)


@dataclass(frozen=True)
class Month(Recode, example="month", takes="dates"):
    """The month of a date, as a text in the order of time: 2026-01."""

    def apply(self, array: pa.Array) -> pa.Array:
        return pc.strftime(array, format="%Y-%m")


class _OfTexts(Recode, takes="texts or whole numbers"):
    """A function of one text, called once for each that occurs; whole numbers count as texts."""

    def apply(self, array: pa.Array) -> pa.Array:
        coded = pa.types.is_dictionary(array.type)
        coded = array if coded else array.cast(pa.string()).dictionary_encode()
        texts = pa.array(map(self.recoded, coded.dictionary.to_pylist()), pa.string())
        return texts.take(coded.indices).dictionary_encode()

    def recoded(self, text: str) -> str | None:
        raise NotImplementedError


@dataclass(frozen=True)
class Prefix(
    _OfTexts,
    example="prefix(3)",
    needs_text=True,
    parameter=Parameter("length", least=1, whole=True),
):
    """The first characters: ICD codes, post codes.

    >>> Prefix(3).recoded("428.0")
    '428'
    """

    length: int

    def recoded(self, text: str) -> str:
        return text[: self.length]


@dataclass(frozen=True)
class Groups(
    _OfTexts,
    example="groups(@file.csv, level=1)",
    needs_text=True,
    parameter=Parameter("level", least=1, whole=True),
):
    """Values by the group that a CSV file or a text puts them in; `*` is every other value.

    A line of the file is a value and its groups, finest first; `level` 1 takes the cell after the
    value. The manifest holds the groups themselves.

    >>> recode = Groups("flu:airways;asthma:airways;*:other")
    >>> recode.recoded("flu"), recode.recoded("HIV")
    ('airways', 'other')
    """

    groups: str
    level: int = 1
    _map: Mapping[str, str] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.groups.startswith("@"):
            groups = _read_groups(self.groups[1:], self.level)
        else:
            parts = [part.split(":") for part in self.groups.split(";") if part.strip()]
            if not parts or any(len(part) != 2 for part in parts):
                raise UsageError(
                    "groups takes value:group;value:group, or @ and a CSV file. Got "
                    f"{self.groups[:50]!r}."
                )
            groups = {unquote(value.strip()): unquote(group.strip()) for value, group in parts}
        written = ";".join(f"{_quoted(value)}:{_quoted(group)}" for value, group in groups.items())
        object.__setattr__(self, "groups", written)
        object.__setattr__(self, "level", 1)
        object.__setattr__(self, "_map", groups)

    def apply(self, array: pa.Array) -> pa.Array:
        grouped = super().apply(array)
        strangers = grouped.null_count - array.null_count
        if strangers:
            raise DataError(
                f"has values without a group, in {strangers:,} of {len(array):,} rows. Add them, "
                "or a line '*,other' for every other value."
            )
        return grouped

    def recoded(self, text: str) -> str | None:
        return self._map.get(text, self._map.get(REST))


def _quoted(text: str) -> str:
    return quote(text, safe=" */+-_.[]<>|éèàüöäß")


def _read_groups(path: str, level: int) -> dict[str, str]:
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            lines = [[cell.strip() for cell in line] for line in csv.reader(file) if line]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise DataError(f"Cannot read the groups file {path!r}.") from None
    groups: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if len(line) <= level:
            raise DataError(
                f"Line {number} of the groups file {path!r} has no cell {level + 1}: write the "
                "value and its groups, finest first."
            )
        if groups.setdefault(line[0], line[level]) != line[level]:
            raise DataError(f"Line {number} of the groups file {path!r} repeats a value.")
    if not groups:
        raise DataError(f"The groups file {path!r} is empty.")
    return groups


@dataclass(frozen=True)
class Rare(
    _OfTexts,
    example="rare(20)",
    parameter=Parameter("people", least=2, whole=True),
):
    """Values that fewer than `people` rows have become one, which then has as many itself.

    Where the rare ones together are fewer, the next rarest join them: else the release would show
    how few they are.

    >>> people = pa.table({"ill": ["flu"] * 5 + ["HIV", "cold", "cold", "ulcer"]})
    >>> from sfumato.table.sources import find_source
    >>> kept = Rare(3).fitted(find_source(people), "ill")
    >>> kept.recoded("flu"), kept.recoded("cold")
    ('flu', 'other')
    """

    people: int
    other: str = "other"
    _kept: frozenset[str] = field(default=frozenset(), init=False, compare=False, repr=False)

    def fitted(self, source: Source, column: str) -> Rare:
        counts = Counter[str]()
        for batch in source.batches([column], 1 << 20):
            array = batch.column(0).cast(pa.string()).drop_null()
            counts.update(
                {pair["values"]: pair["counts"] for pair in array.value_counts().to_pylist()}
            )
            if len(counts) > _MOST_COUNTED:
                raise DataError(
                    f"Column {column!r} of {source.label} has more than {_MOST_COUNTED:,} "
                    "different values: too many to look for rare ones. Recode it first, or drop it."
                )
        together = counts.pop(self.other, 0)
        kept = sorted(counts, key=lambda text: (-counts[text], text))
        while kept:
            rarest = counts[kept[-1]]
            if rarest >= self.people and (together == 0 or together >= self.people):
                break
            together += rarest
            kept.pop()
        made = replace(self)
        object.__setattr__(made, "_kept", frozenset(kept))
        return made

    def recoded(self, text: str) -> str:
        return text if text in self._kept else self.other
