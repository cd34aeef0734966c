"""What a recode is: a coarser form of a column, made before anything else looks at it.

`age=bins(0, 18, 65, inf)`, `diagnosis=prefix(3) then rare(20)`: a chain of steps, each a function
of the value alone. The steps stand in the manifest, and everything after the table knows the
recoded values only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar, Self
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Value, bin_labels, edge_text
from sfumato.errors import DataError, UsageError
from sfumato.table.hierarchy import read_paths
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


class Recode(TextForm, ColumnMap):
    """One step. A frozen dataclass whose fields are its parameters; it makes texts unless it says
    otherwise."""

    what: ClassVar[str] = "recode"
    takes: ClassVar[str]
    example: ClassVar[str]
    needs_text: ClassVar[bool] = False  # 007 must not have become 7

    def type(self, kind: pa.DataType) -> pa.DataType:
        return pa.string()

    def fitted(self, source: Source, column: str) -> Self:
        """The step for this column; most are the same for every one."""
        return self

    @property
    def domain(self) -> tuple[Value, ...] | None:
        """All values that can come out, in their order, where they are known beforehand."""
        return None


@dataclass(frozen=True)
class Recodes:
    """The steps of one column, first to last."""

    steps: tuple[Recode, ...]

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
    def needs_text(self) -> bool:
        return self.steps[0].needs_text


@dataclass(frozen=True)
class Bins(Recode):
    """Half-open bins between ascending edges; the last one includes its upper edge.

    >>> Bins((0, 100, 1000)).domain
    ('[0, 100)', '[100, 1000]')
    >>> Bins((0, 100, 1000)).codes(np.array([0.0, 99.9, 100.0, 1000.0])).tolist()
    [0, 0, 1, 1]
    >>> Bins((-math.inf, 1000000.5, 1000001)).domain
    ('(-inf, 1000000.5)', '[1000000.5, 1000001]')
    >>> str(Bins.from_arguments(["0", "18", "inf"], {}))
    'bins(0, 18, inf)'
    """

    edges: tuple[float, ...]

    name: ClassVar[str] = "bins"
    takes: ClassVar[str] = "numbers"
    example: ClassVar[str] = "bins(0, 18, 65, inf)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(float(edge) for edge in self.edges))
        if len(self.edges) < 3 or any(
            not low < high for low, high in zip(self.edges, self.edges[1:], strict=False)
        ):
            raise UsageError(
                "Bins need at least three ascending edges, for example 'cost=0,100,1000' "
                f"(inf and -inf are allowed). Got {', '.join(edge_text(e) for e in self.edges)}."
            )

    @staticmethod
    def parse(edges: str | Sequence[float]) -> Bins:
        parts = edges.split(",") if isinstance(edges, str) else list(edges)
        try:
            return Bins(tuple(float(part) for part in parts))
        except ValueError:
            raise UsageError(f"Bins need numbers between commas. Got {edges!r}.") from None

    @classmethod
    def from_arguments(cls, positional: list[str], keywords: dict[str, str]) -> Bins:
        if keywords:
            raise UsageError(f"bins takes edges only: {cls.example}.")
        return cls.parse(",".join(positional))

    def __str__(self) -> str:
        return f"bins({', '.join(edge_text(edge) for edge in self.edges)})"

    @property
    def domain(self) -> tuple[str, ...]:
        return bin_labels(self.edges)

    def codes(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """The bin of each number; -1 where it lies outside."""
        code = np.searchsorted(np.asarray(self.edges), numbers, side="right") - 1
        code[numbers == self.edges[-1]] = len(self.edges) - 2
        code[code > len(self.edges) - 2] = -1
        return code

    def apply(self, array: pa.Array) -> pa.Array:
        """The labels; what is missing, or not a number, is missing."""
        numbers = pc.cast(array, pa.float64(), safe=False).fill_null(math.nan).to_numpy()
        absent = np.isnan(numbers)
        codes = self.codes(numbers)
        outside = int((codes[~absent] < 0).sum())
        if outside:
            raise DataError(
                f"has values outside its bins, {outside:,} among {len(array):,} rows. Widen them; "
                "-inf and inf are allowed as edges."
            )
        indices = pa.array(codes.astype(np.int32), mask=absent)
        return pa.DictionaryArray.from_arrays(indices, pa.array(self.domain))


class _OfNumbers(Recode):
    """Numbers by one number, exactly where both are whole."""

    takes: ClassVar[str] = "numbers"

    @property
    def number(self) -> Fraction:
        return Fraction(getattr(self, self.parameters[0].name))

    def type(self, kind: pa.DataType) -> pa.DataType:
        exact = pa.types.is_integer(kind) and self.number.denominator == 1
        return pa.int64() if exact else pa.float64()


@dataclass(frozen=True)
class Round(_OfNumbers):
    """To the nearest multiple of a step; halves go up.

    >>> Round("5").apply(pa.array([12, 13, None, -3])).to_pylist()
    [10, 15, None, -5]
    """

    step: Fraction

    name: ClassVar[str] = "round"
    example: ClassVar[str] = "round(5)"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("step", above=0),)

    def apply(self, array: pa.Array) -> pa.Array:
        if self.type(array.type) == pa.float64():
            numbers, step = array.cast(pa.float64(), safe=False), float(self.step)
            return pc.multiply(pc.floor(pc.add(pc.divide(numbers, step), 0.5)), step)
        numbers, whole = array.cast(pa.int64()), int(self.step)
        # the place above the multiple below it, without leaving 64 bits
        towards_zero = pc.subtract(numbers, pc.multiply(pc.divide(numbers, whole), whole))
        above = pc.if_else(pc.less(towards_zero, 0), pc.add(towards_zero, whole), towards_zero)
        up = pc.if_else(pc.greater_equal(pc.multiply(above, 2), whole), whole, 0)
        return pc.add(pc.subtract(numbers, above), up)


@dataclass(frozen=True)
class Top(_OfNumbers):
    """Numbers above a limit are the limit: "90 and more" is 90.

    >>> Top(90).apply(pa.array([12, 95, None])).to_pylist()
    [12, 90, None]
    """

    limit: Fraction

    name: ClassVar[str] = "top"
    example: ClassVar[str] = "top(90)"
    beyond: ClassVar[str] = "greater"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("limit"),)

    def apply(self, array: pa.Array) -> pa.Array:
        kind = self.type(array.type)
        numbers = array.cast(kind, safe=False)
        limit = pa.scalar(int(self.limit) if kind == pa.int64() else float(self.limit), kind)
        return pc.if_else(pc.call_function(self.beyond, [numbers, limit]), limit, numbers)


@dataclass(frozen=True)
class Bottom(Top):
    """Numbers below a limit are the limit.

    >>> Bottom(18).apply(pa.array([12, 95])).to_pylist()
    [18, 95]
    """

    name: ClassVar[str] = "bottom"
    example: ClassVar[str] = "bottom(18)"
    beyond: ClassVar[str] = "less"


@dataclass(frozen=True)
class Year(Recode):
    """The year of a date, as a number.

    >>> import datetime
    >>> Year().apply(pa.array([datetime.date(2026, 11, 15)])).to_pylist()
    [2026]
    """

    name: ClassVar[str] = "year"
    takes: ClassVar[str] = "dates"
    example: ClassVar[str] = "year"

    def type(self, kind: pa.DataType) -> pa.DataType:
        return pa.int64()

    def apply(self, array: pa.Array) -> pa.Array:
        return pc.year(array)


@dataclass(frozen=True)
class Month(Recode):
    """The month of a date, as a text in the order of time.

    >>> import datetime
    >>> Month().apply(pa.array([datetime.date(2026, 1, 15), None])).to_pylist()
    ['2026-01', None]
    """

    name: ClassVar[str] = "month"
    takes: ClassVar[str] = "dates"
    example: ClassVar[str] = "month"

    def apply(self, array: pa.Array) -> pa.Array:
        return pc.strftime(array, format="%Y-%m")


class _OfTexts(Recode):
    """Texts, of coded ones once for each that occurs; whole numbers count as texts."""

    takes: ClassVar[str] = "texts or whole numbers"

    def apply(self, array: pa.Array) -> pa.Array:
        if pa.types.is_dictionary(array.type):
            return self.recoded(array.dictionary).take(array.indices).dictionary_encode()
        return self.recoded(array.cast(pa.string()))

    def recoded(self, texts: pa.Array) -> pa.Array:
        raise NotImplementedError


@dataclass(frozen=True)
class Prefix(_OfTexts):
    """The first characters: ICD codes, post codes.

    >>> Prefix(3).apply(pa.array(["428.0", "V27", None])).to_pylist()
    ['428', 'V27', None]
    """

    length: int

    name: ClassVar[str] = "prefix"
    example: ClassVar[str] = "prefix(3)"
    needs_text: ClassVar[bool] = True
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("length", least=1, whole=True),)

    def recoded(self, texts: pa.Array) -> pa.Array:
        return pc.utf8_slice_codeunits(texts, 0, self.length)


@dataclass(frozen=True)
class Groups(_OfTexts):
    """Values by the group that a CSV file or a text puts them in; `*` is every other value.

    A line of the file is a value and its groups, finest first, as in a hierarchy; `level` 1 takes
    the cell after the value. The manifest holds the groups themselves.

    >>> recode = Groups("flu:airways;asthma:airways;*:other")
    >>> recode.apply(pa.array(["flu", "HIV", None])).to_pylist()
    ['airways', 'other', None]
    """

    groups: str
    level: int = 1
    _map: Mapping[str, str] = field(default_factory=dict, init=False, compare=False, repr=False)

    name: ClassVar[str] = "groups"
    example: ClassVar[str] = "groups(@file.csv, level=1)"
    needs_text: ClassVar[bool] = True
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("level", least=1, whole=True),)

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

    def recoded(self, texts: pa.Array) -> pa.Array:
        listed = [value for value in self._map if value != REST]
        index = pc.index_in(texts, value_set=pa.array(listed, pa.string()))
        grouped = pa.array([self._map[value] for value in listed], pa.string()).take(index)
        rest = pa.scalar(self._map.get(REST), pa.string())
        return pc.if_else(pc.and_(index.is_null(), texts.is_valid()), rest, grouped)


def _quoted(text: str) -> str:
    return quote(text, safe=" */+-_.[]<>|éèàüöäß")


def _read_groups(path: str, level: int) -> dict[str, str]:
    groups: dict[str, str] = {}
    for number, line in enumerate(read_paths(path, "groups file"), 1):
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
class Rare(_OfTexts):
    """Values that fewer than `people` rows have become one, which then has as many itself.

    Where the rare ones together are fewer, the next rarest join them: else the release would show
    how few they are.

    >>> people = pa.table({"ill": ["flu"] * 5 + ["HIV", "cold", "cold", "ulcer"]})
    >>> from sfumato.table.sources import find_source
    >>> kept = Rare(3).fitted(find_source(people), "ill")
    >>> kept.apply(pa.array(["flu", "HIV", "cold", None])).to_pylist()
    ['flu', 'other', 'other', None]
    """

    people: int
    other: str = "other"
    _kept: tuple[str, ...] = field(default=(), init=False, compare=False, repr=False)

    name: ClassVar[str] = "rare"
    example: ClassVar[str] = "rare(20)"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("people", least=2, whole=True),)

    def fitted(self, source: Source, column: str) -> Rare:
        counts = count_texts(source, column)
        kept = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
        together = counts.get(self.other, 0)
        kept.pop(self.other, None)
        while kept:
            value, count = next(reversed(kept.items()))
            if count >= self.people and (together == 0 or together >= self.people):
                break
            together += count
            kept.pop(value)
        made = replace(self)
        object.__setattr__(made, "_kept", tuple(kept))
        return made

    def recoded(self, texts: pa.Array) -> pa.Array:
        common = pc.is_in(texts, value_set=pa.array(self._kept, pa.string()))
        rare = pc.and_(texts.is_valid(), pc.invert(common))
        return pc.if_else(rare, pa.scalar(self.other, pa.string()), texts)


def count_texts(source: Source, column: str) -> Mapping[str, int]:
    """How often each text of a column occurs."""
    counts = Counter[str]()
    for batch in source.batches([column], 1 << 20):
        array = batch.column(0).cast(pa.string()).drop_null()
        counts.update({one["values"]: one["counts"] for one in array.value_counts().to_pylist()})
        if len(counts) > _MOST_COUNTED:
            raise DataError(
                f"Column {column!r} of {source.label} has more than {_MOST_COUNTED:,} different "
                "values: too many to look for rare ones. Recode it first, or drop it."
            )
    return counts


RECODES: dict[str, type[Recode]] = {
    cls.name: cls for cls in (Bins, Round, Top, Bottom, Year, Month, Prefix, Groups, Rare)
}


def parse_recode(text: str) -> Recodes:
    """
    >>> str(parse_recode("top(90) then bins(0, 18, 90)"))
    'top(90) then bins(0, 18, 90)'
    """
    steps = []
    for part in text.split(THEN):
        name, positional, keywords = split_call(part, "recode")
        if name not in RECODES:
            raise UsageError(
                f"There is no recode {name!r}. There are: "
                f"{', '.join(recode.example for recode in RECODES.values())}."
            )
        steps.append(RECODES[name].from_arguments(positional, keywords))
    return Recodes(tuple(steps))
