"""What a recode is: a coarser form of a column, made before anything else looks at it.

`age=bins(0, 18, 65, inf)`, `diagnosis=prefix(3) then rare(20)`: a chain of steps, each a function
of the value alone. The steps stand in the manifest, and everything after the table knows the
recoded values only.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Value
from sfumato.errors import DataError, UsageError
from sfumato.table.sources import ColumnMap, Source
from sfumato.textform import TextForm, split_call

THEN = " then "


class Recode(TextForm, ColumnMap):
    """One step. A frozen dataclass whose fields are its parameters."""

    what: ClassVar[str] = "recode"
    takes: ClassVar[str]  # the values that it can be given, in words
    example: ClassVar[str]
    needs_text: ClassVar[bool] = False  # 007 must not have become 7

    @abstractmethod
    def fits(self, kind: pa.DataType) -> bool:
        """Whether values of this type can be recoded."""

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

    @staticmethod
    def parse(text: str, known: Mapping[str, type[Recode]]) -> Recodes:
        """Read `step then step`."""
        steps = []
        for part in text.split(THEN):
            name, positional, keywords = split_call(part, "recode")
            if name not in known:
                raise UsageError(
                    f"There is no recode {name!r}. There are: "
                    f"{', '.join(recode.example for recode in known.values())}."
                )
            steps.append(known[name].from_arguments(positional, keywords))
        return Recodes(tuple(steps))

    def __str__(self) -> str:
        return THEN.join(map(str, self.steps))

    def apply(self, source: Source, column: str) -> tuple[Source, Recodes]:
        """The source with the column recoded, and the steps as this column made them."""
        done = []
        for step in self.steps:
            kind = source.schema.field(column).type
            if not step.fits(kind):
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


def by_value(array: pa.Array, function: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """A function of each value, of coded texts once for each that occurs."""
    if not pa.types.is_dictionary(array.type):
        return function(array)
    return function(array.dictionary).take(array.indices).dictionary_encode()


def as_texts(array: pa.Array) -> pa.Array:
    return array if pa.types.is_string(array.type) else array.cast(pa.string())


def count_values(source: Source, column: str) -> dict[Any, int]:
    """How often each text of a column occurs."""
    counts: dict[Any, int] = {}
    for batch in source.batches([column], 1 << 20):
        array = batch.column(0)
        plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        for counted in pc.value_counts(as_texts(plain)).to_pylist():
            counts[counted["values"]] = counts.get(counted["values"], 0) + counted["counts"]
            if len(counts) > 1 << 22:
                raise DataError(
                    f"Column {column!r} of {source.label} has more than {1 << 22:,} different "
                    "values: too many to look for rare ones. Recode it first, or drop it."
                )
    counts.pop(None, None)
    return counts
