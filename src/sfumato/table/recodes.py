"""What a recode is: a coarser form of a column, made before anything else looks at it.

`age=bins(0, 18, 65, inf)`, `diagnosis=prefix(3) then rare(20)`: a chain of steps, each a function
of the value alone; texts are recoded once for each that occurs. The steps stand in the manifest,
and everything after the table knows the recoded values only.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import bin_labels, edge_text, usual_text
from sfumato.errors import DataError, UsageError
from sfumato.permutations import IntArray
from sfumato.table.sources import ColumnMap, Source
from sfumato.table.staging import LARGE, LocalPeople, dense_rows
from sfumato.textform import Parameter, decimal_text, split_call

THEN = " then "
REST = "*"  # stands for every value that a group file does not list
_MOST_COUNTED = 1 << 22  # different values among which rare ones are looked for
_TEXTS = "texts or whole numbers"


def is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


_TAKEN: dict[str, Callable[[pa.DataType], bool]] = {  # what a recode can be given, in words
    "numbers": is_number,
    "dates": lambda kind: pa.types.is_date(kind) or pa.types.is_timestamp(kind),
    _TEXTS: lambda kind: pa.types.is_string(kind) or pa.types.is_integer(kind),
}


@dataclass(frozen=True)
class RecodeKind:
    """What a recode is called and given, and what it does.

    `change` makes new values of an array, or of one text a new one, None where it has none. What
    it `makes` of numbers is whole where they and the arguments are, unless it says otherwise.
    Parameters with a default may be left out. One that `needs_text` must not be given the 7 that
    007 would become.
    """

    example: str
    takes: str
    change: Callable[..., Any]
    parameters: tuple[Parameter, ...] = ()
    makes: pa.DataType | None = None
    needs_text: bool = False

    @property
    def name(self) -> str:
        return self.example.partition("(")[0]


@dataclass(frozen=True)
class Recode(ColumnMap):
    """One step.

    >>> step = Recode.of("round(5)")
    >>> str(step), step.apply(pa.array([12, 13, None, -3])).to_pylist()
    ('round(5)', [10, 15, None, -5])
    """

    kind: RecodeKind
    arguments: tuple[Any, ...]
    kept: frozenset[str] = frozenset()  # the texts of a column that are not rare

    @classmethod
    def of(cls, text: str) -> Recode:
        name, positional, keywords = split_call(text, "recode")
        if name not in RECODES:
            raise UsageError(
                f"There is no recode {name!r}. There are: "
                f"{', '.join(kind.example for kind in RECODES.values())}."
            )
        kind = RECODES[name]
        if name == "bins" and not keywords:
            return cls.bins(",".join(positional))
        names = [parameter.name for parameter in kind.parameters]
        given = dict(zip(names, positional, strict=False)) | keywords
        needed = {parameter.name for parameter in kind.parameters if not parameter.default}
        if len(given) < len(positional) + len(keywords) or not needed <= set(given) <= set(names):
            raise UsageError(f"Cannot read the recode {text.strip()!r}. Write {kind.example}.")
        arguments = [p.read(given.get(p.name, p.default), name) for p in kind.parameters]
        if name == "groups":
            arguments = [_groups_text(*arguments), 1]
        return cls(kind, tuple(arguments))

    @classmethod
    def bins(cls, edges: str | Sequence[float]) -> Recode:
        """Half-open bins between ascending edges; the last one includes its upper edge.

        >>> Recode.bins("0, 100, 1000").apply(pa.array([0.0, 99.9, 100, 1000])).indices.to_pylist()
        [0, 0, 1, 1]
        """
        try:
            parts = edges.split(",") if isinstance(edges, str) else edges
            numbers = tuple(float(part) for part in parts)
        except ValueError:
            raise UsageError(f"Bins need numbers between commas. Got {edges!r}.") from None
        if len(numbers) < 3 or any(not low < high for low, high in pairwise(numbers)):
            raise UsageError(
                "Bins need at least three ascending edges, for example 'cost=0,100,1000' "
                f"(inf and -inf are allowed). Got {', '.join(map(edge_text, numbers))}."
            )
        return cls(RECODES["bins"], numbers)

    def __str__(self) -> str:
        parameters, parts = self.kind.parameters, []
        if not parameters:
            parts = [edge_text(edge) for edge in self.arguments]
        for parameter, value in zip(parameters, self.arguments, strict=False):
            text = decimal_text(value) if isinstance(value, Fraction) else str(value)
            if text != parameter.default:
                parts.append(f"{parameter.name}={text}" if parameter.default else text)
        return f"{self.kind.name}({', '.join(parts)})" if parts else self.kind.name

    def type(self, kind: pa.DataType) -> pa.DataType:
        if self.kind.makes is not None:
            return self.kind.makes
        whole = all(Fraction(argument).denominator == 1 for argument in self.arguments)
        return pa.int64() if pa.types.is_integer(kind) and whole else pa.float64()

    def apply(self, array: pa.Array) -> pa.Array:
        if self.kind.takes == _TEXTS:
            return self._of_texts(array)
        if self.kind.makes is not None:
            return self.kind.change(array, *self.arguments)
        exact = (made := self.type(array.type)) == pa.int64()
        try:
            numbers = array.cast(made, safe=exact)
        except pa.ArrowInvalid:
            raise DataError("has whole numbers of more than 63 bits. Convert it first.") from None
        return self.kind.change(numbers, *map(int if exact else float, self.arguments))

    def _of_texts(self, array: pa.Array) -> pa.Array:
        coded = pa.types.is_dictionary(array.type)
        coded = array if coded else array.cast(pa.string()).dictionary_encode()
        arguments = (self.kept, *self.arguments) if self.kind.name == "rare" else self.arguments
        made = [self.kind.change(text, *arguments) for text in coded.dictionary.to_pylist()]
        texts = pa.array(made, pa.string()).take(coded.indices)
        strangers = texts.null_count - array.null_count
        if strangers:
            raise DataError(
                f"has values without a group, in {strangers:,} of {len(array):,} rows. Add them, "
                "or a line '*,other' for every other value."
            )
        return texts.dictionary_encode()

    def fitted(
        self, source: Source, column: str, person: str | None = None, needed: Sequence[str] = ()
    ) -> Recode:
        """The step for this column: values that fewer than `people` people have in some row have
        become one, which then has as many itself. Rows are people where no column says whose they
        are; those that lack a `needed` value do not count.

        Where the people with rare ones are fewer, the next rarest join them: else the release would
        show how few they are.

        >>> people = pa.table({"ill": ["flu"] * 5 + ["HIV", "cold", "cold", "ulcer"]})
        >>> from sfumato.table.sources import find_source
        >>> Recode.of("rare(3)").fitted(find_source(people), "ill").kept
        frozenset({'flu'})
        """
        if self.kind.name != "rare":
            return self
        least, other = self.arguments
        texts, counts, rest = _people_by_text(source, column, other, person, needed)
        number = len(texts)
        while number and (counts[number - 1] < least or 0 < rest[number] < least):
            number -= 1
        return replace(self, kept=frozenset(texts[:number]))


@dataclass(frozen=True)
class Recodes:
    """The steps of one column, first to last.

    >>> str(Recodes.of("top(90) then bins(0, 18, 90)"))
    'top(90) then bins(0, 18, 90)'
    """

    steps: tuple[Recode, ...]

    @classmethod
    def of(cls, text: str) -> Recodes:
        return cls(tuple(map(Recode.of, text.split(THEN))))

    def __str__(self) -> str:
        return THEN.join(map(str, self.steps))

    def apply(
        self, source: Source, column: str, person: str | None = None, needed: Sequence[str] = ()
    ) -> tuple[Source, Recodes]:
        """The source with the column recoded, and the steps as this column made them."""
        done = []
        for step in self.steps:
            kind = source.schema.field(column).type
            if not _TAKEN[step.kind.takes](kind):
                raise DataError(
                    f"Column {column!r} of {source.label} is {kind}; {step.kind.name} needs "
                    f"{step.kind.takes}."
                )
            done.append(step.fitted(source, column, person, needed))
            source = source.mapped({column: done[-1]})
        return source, Recodes(tuple(done))

    @property
    def bins(self) -> tuple[float, ...] | None:
        """The edges of the bins that come out, where they do."""
        last = self.steps[-1]
        return last.arguments if last.kind.name == "bins" else None

    @property
    def needs_text(self) -> bool:
        return self.steps[0].kind.needs_text


def _binned(array: pa.Array, *edges: float) -> pa.Array:
    """The labels; what is missing, or not a number, is missing."""
    numbers = pc.cast(array, pa.float64(), safe=False).fill_null(math.nan).to_numpy()
    absent = np.isnan(numbers)
    outside = int((~absent & ~((edges[0] <= numbers) & (numbers <= edges[-1]))).sum())
    if outside:
        raise DataError(
            f"has values outside its bins, {outside:,} among {len(array):,} rows. Widen them; "
            "-inf and inf are allowed as edges."
        )
    codes = np.searchsorted(edges[1:-1], numbers, side="right").astype(np.int32)
    labels = pa.array(bin_labels(edges))
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=absent), labels)


def _rounded(numbers: pa.Array, step: float) -> pa.Array:
    """To the nearest multiple of a step; halves go up."""
    if pa.types.is_floating(numbers.type):
        return pc.multiply(pc.floor(pc.add(pc.divide(numbers, step), 0.5)), step)
    absent = numbers.is_null().to_numpy(zero_copy_only=False)
    values = numbers.fill_null(0).to_numpy()
    above = values % step  # the multiple below, without leaving 64 bits
    return pa.array(values - above + np.where(above >= step - above, step, 0), mask=absent)


def _at_most(numbers: pa.Array, limit: float) -> pa.Array:
    return pc.if_else(pc.greater(numbers, limit), limit, numbers)


def _at_least(numbers: pa.Array, limit: float) -> pa.Array:
    return pc.if_else(pc.less(numbers, limit), limit, numbers)


def _month(dates: pa.Array) -> pa.Array:
    return pc.strftime(dates, format="%Y-%m")


def _prefix(text: str, length: int) -> str:
    return text[:length]


def _groups_text(groups: str, level: int) -> str:
    """The groups as a manifest states them: of a CSV file whose lines are a value and its groups,
    finest first, those of a level, 1 for the cell after the value."""
    listed = _read_groups(groups[1:], level) if groups.startswith("@") else _listed(groups)
    plain = " */+-_.[]<>|éèàüöäß"
    return ";".join(f"{quote(v, safe=plain)}:{quote(g, safe=plain)}" for v, g in listed.items())


@cache
def _listed(groups: str) -> dict[str, str]:
    parts = [part.split(":") for part in groups.split(";") if part.strip()]
    if not parts or any(len(part) != 2 for part in parts):
        raise UsageError(
            f"groups takes value:group;value:group, or @ and a CSV file. Got {groups[:50]!r}."
        )
    return {usual_text(unquote(value)): usual_text(unquote(group)) for value, group in parts}


def _read_groups(path: str, level: int) -> dict[str, str]:
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            lines = [[usual_text(cell) for cell in line] for line in csv.reader(file) if line]
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


def _group(text: str, groups: str, _: int) -> str | None:
    listed = _listed(groups)
    return listed.get(text, listed.get(REST))


def _people_by_text(
    source: Source, column: str, other: str, person: str | None, needed: Sequence[str]
) -> tuple[list[str], IntArray, IntArray]:
    """The texts of a column but for `other`, the commonest first; how many people have each; and
    for every place in that order, how many have a text from there on, or `other`."""
    asked = list(dict.fromkeys([column, *needed, *([person] if person else [])]))

    def held(_: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in source.batches(asked, 1 << 20):
            whole = dense_rows(batch, [column, *needed])
            arrays = [whole.column(name).cast(pa.string()) for name in (column, person or column)]
            yield pa.RecordBatch.from_arrays(arrays, names=["text", "person"])

    schema = pa.schema([("text", pa.string()), ("person", pa.string())])
    each = "SELECT DISTINCT text, person" if person else "SELECT text, count(*) AS n"
    query = f"{each} FROM people {'' if person else 'GROUP BY text'}"
    pairs = pa.Table.from_batches(LocalPeople(schema, held, LARGE).sql(query, "text", "person"))
    coded = pairs.column("text").combine_chunks().dictionary_encode()
    texts, codes = coded.dictionary.to_pylist(), coded.indices.to_numpy()
    if len(texts) > _MOST_COUNTED:
        raise DataError(
            f"Column {column!r} of {source.label} has more than {_MOST_COUNTED:,} different "
            "values: too many to look for rare ones. Recode it first, or drop it."
        )
    people = np.ones(len(codes), np.int64) if person else pairs.column("n").to_numpy()
    counts = np.bincount(codes, people, len(texts)).astype(np.int64)
    order = sorted(range(len(texts)), key=lambda k: (texts[k] == other, -counts[k], texts[k]))
    place = np.empty(len(texts), np.int64)
    place[order] = np.arange(len(texts))
    rarest = place[codes]  # of a row, or of all that a person has
    if person:
        owner = pairs.column("person").combine_chunks().dictionary_encode().indices.to_numpy()
        by_person = np.zeros(int(owner.max(initial=-1)) + 1, np.int64)
        np.maximum.at(by_person, owner, rarest)
        rarest, people = by_person, np.ones(len(by_person), np.int64)
    reached = np.bincount(rarest, people, len(texts) + 1).astype(np.int64)
    listed = [texts[k] for k in order if texts[k] != other]
    return listed, counts[order], reached[::-1].cumsum()[::-1]


def _common(text: str, kept: frozenset[str], _: int, other: str) -> str:
    return text if text in kept else other


def _kind(*declared: Any, **more: Any) -> tuple[str, RecodeKind]:
    kind = RecodeKind(*declared, **more)
    return kind.name, kind


_TEXT = pa.string()
RECODES: dict[str, RecodeKind] = dict((
    _kind("bins(0, 18, 65, inf)", "numbers", _binned, makes=_TEXT),
    _kind("round(5)", "numbers", _rounded, (Parameter("step", above=0),)),
    _kind("top(90)", "numbers", _at_most, (Parameter("limit"),)),
    _kind("bottom(18)", "numbers", _at_least, (Parameter("limit"),)),
    _kind("year", "dates", pc.year, makes=pa.int64()),
    _kind("month", "dates", _month, makes=_TEXT),
    _kind("prefix(3)", _TEXTS, _prefix, (Parameter("length", least=1, whole=True),), _TEXT, True),
    _kind("groups(@file.csv, level=1)", _TEXTS, _group, (
        Parameter("groups", form=str), Parameter("level", least=1, whole=True, default="1"),
    ), _TEXT, True),
    _kind("rare(20)", _TEXTS, _common, (
        Parameter("people", least=2, whole=True), Parameter("other", form=str, default="other"),
    ), _TEXT),
))  # fmt: skip
