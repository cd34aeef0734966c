"""Quasi columns made safe: every published combination of them is shared by at least k people.

Numbers and dates become ranges, two columns `age_low` and `age_high`; categories become a set,
`{divorced, widowed}`. Which ranges and sets follows from how many people have each combination of
quasi values; nobody is withheld. What is in memory is one line for each combination.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Kind, value_text
from sfumato.errors import DataError
from sfumato.table.merging import IntArray, MergedAxis, certainty_penalty, classes
from sfumato.table.sources import Batches, Source
from sfumato.table.staging import Staged, without_nan


@dataclass(frozen=True)
class QuasiMerge:
    """What `--quasi-k` did: the columns it was given, with their recodes, and what is lost.

    `loss` is the global certainty penalty, for the steward: 0 where nothing was widened.
    """

    k: int
    columns: Mapping[str, str]
    loss: float

    def to_json(self) -> dict[str, Any]:
        return {"k": self.k, "columns": dict(self.columns)}

    @staticmethod
    def options(described: Mapping[str, Any]) -> dict[str, Any]:
        """What `read` has to be told to merge as a manifest says."""
        columns = described["columns"]
        recodes = {name: text for name, text in columns.items() if text}
        return {"quasi": list(columns), "quasi_k": described["k"], "recode": recodes}

    @property
    def note(self) -> str:
        return (
            f"Merged until {self.k} people share every combination of quasi values: on average a "
            f"value is widened to {100 * self.loss:.1f} % of its domain; nobody is suppressed."
        )


def merge_quasi(
    rows: Staged,
    kinds: Mapping[str, Kind],
    k: int,
    person: str | None = None,
) -> tuple[Source, tuple[str, ...], float]:
    """Staged rows with the quasi columns of these kinds merged, their names, and the loss.

    Where a column says whose rows they are, people are counted whose rows all have the same
    combination: whichever of their rows are published, they are there.

    >>> from sfumato.table import read
    >>> ages = [30, 31, 60, 61]
    >>> people = pa.table({"age": ages, "sex": ["F", "M", "F", "F"], "ill": list("abab")})
    >>> rows = read(people, quasi="age,sex", sensitive="ill").rows
    >>> merged, names, loss = merge_quasi(rows, {"age": "numeric", "sex": "categorical"}, 2)
    >>> for row in next(iter(merged.batches(names, 10))).to_pylist():
    ...     print(row)
    {'age_low': 30, 'age_high': 31, 'sex': '{F, M}'}
    {'age_low': 30, 'age_high': 31, 'sex': '{F, M}'}
    {'age_low': 60, 'age_high': 61, 'sex': 'F'}
    {'age_low': 60, 'age_high': 61, 'sex': 'F'}
    """
    quasi = tuple(kinds)
    combinations = _combinations(rows, quasi, person)
    domains = [column.unique() for column in combinations.columns[:-1]]
    domains = [domain.take(pc.sort_indices(domain)) for domain in domains]  # a null comes last
    if np.prod([len(domain) for domain in domains], dtype=object) >= 1 << 62:
        raise DataError(
            f"The quasi-identifiers of {rows.label} have too many combinations. Recode or drop "
            f"some."
        )
    places, keys = _places(combinations.columns[:-1], domains)
    order = np.argsort(keys)
    places, keys = places[:, order], keys[order]
    people = combinations["people"].to_numpy()[order]
    if people.sum() < k:
        same = "" if person is None else " with the same quasi values in all rows"
        raise DataError(
            f"{rows.label} has {people.sum():,} people{same}: no combination can have {k} of them."
        )
    ordered = [
        kinds[name] == "numeric" or pa.types.is_temporal(domain.type)
        for name, domain in zip(quasi, domains, strict=True)
    ]
    axes = [
        _line(domain) if number else MergedAxis(len(domain))
        for domain, number in zip(domains, ordered, strict=True)
    ]
    class_of = classes(axes, places, people, k)
    shown: dict[str, pa.Array] = {}
    for name, domain, positions, number in zip(quasi, domains, places, ordered, strict=True):
        if number:
            shown |= _ranges(name, domain, positions, class_of)
        else:
            shown[name] = _sets(domain, positions, class_of)
    kept = [field for field in rows.schema if field.name not in quasi]
    taken = sorted(set(shown) & {field.name for field in kept})
    if taken:
        raise DataError(f"{rows.label} has a column {taken[0]!r} already. Rename it.")

    def merged(batches: Batches) -> Batches:
        for batch in batches:
            _, found = _places([batch.column(name) for name in quasi], domains)
            combination = pa.array(np.searchsorted(keys, found))
            others = {n: batch.column(n) for n in batch.schema.names if n not in quasi}
            classed = {name: array.take(combination) for name, array in shown.items()}
            yield pa.RecordBatch.from_pydict({**classed, **others})

    schema = pa.schema([*((name, array.type) for name, array in shown.items()), *kept])
    loss = certainty_penalty(axes, places, people, class_of)
    return rows.derived(schema, merged, quasi), tuple(shown), loss


def _plain(array: pa.Array) -> pa.Array:
    """Texts uncoded, and what is not a number missing."""
    return without_nan(array.dictionary_decode() if pa.types.is_dictionary(array.type) else array)


def _combinations(rows: Staged, quasi: Sequence[str], person: str | None) -> pa.Table:
    """The combinations that occur and, as `people`, who has each: of people with several rows
    those with the same in all of them."""
    names = [*quasi, *([] if person is None else [person])]
    columns = [f"c{index}" for index in range(len(names))]
    schema = pa.schema([(c, rows.type(name)) for c, name in zip(columns, names, strict=True)])

    def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [_plain(batch.column(name)) for name in names]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    named = ", ".join(columns[: len(quasi)])
    query = f"SELECT {named}, count(*) AS people FROM people GROUP BY {named}"
    if person is not None:
        query = (
            f"SELECT {named}, count(*) FILTER (many = 1) AS people FROM (SELECT *, count(*) OVER "
            f"(PARTITION BY {columns[-1]}) AS many FROM (SELECT DISTINCT * FROM people)) "
            f"GROUP BY {named}"
        )
    counted = pa.Table.from_batches(rows.map(names, plain, schema).sql(query, *columns))
    kinds = [*(schema.field(column) for column in columns[: len(quasi)]), ("people", pa.int64())]
    return counted.cast(pa.schema(kinds)).combine_chunks()


def _places(arrays: Sequence[pa.Array], domains: Sequence[pa.Array]) -> tuple[IntArray, IntArray]:
    """Where values stand in their domains, by column, and one number for each combination."""
    places, key = [], 0
    for array, domain in zip(arrays, domains, strict=True):
        places.append(pc.index_in(_plain(array), value_set=domain).to_numpy().astype(np.int64))
        key = key * len(domain) + places[-1]
    return np.stack(places), np.asarray(key)


def _line(domain: pa.Array) -> MergedAxis:
    """Numbers, or dates in their order; a missing value lies a whole span beyond them."""
    present = domain.drop_null()
    if pa.types.is_temporal(domain.type):
        present = present.view(pa.int32() if domain.type.bit_width == 32 else pa.int64())
    numbers = present.cast(pa.float64(), safe=False).to_numpy()
    if domain.null_count:
        span = float(numbers[-1] - numbers[0]) if len(numbers) else 0.0
        numbers = np.append(numbers, (numbers[-1] if len(numbers) else 0.0) + (span or 1.0))
    return MergedAxis(len(domain), numbers)


def _ranges(name: str, domain: pa.Array, own: IntArray, found: IntArray) -> dict[str, pa.Array]:
    """The ends of the class of each combination."""
    number = int(found.max()) + 1
    low, high = np.full(number, len(domain)), np.full(number, -1)
    np.minimum.at(low, found, own)
    np.maximum.at(high, found, own)
    # missing values are last in the domain: a class that has one shows no ends
    unknown = (high >= len(domain) - domain.null_count)[found]
    return {
        f"{name}_low": domain.take(pa.array(low[found], mask=unknown)),
        f"{name}_high": domain.take(pa.array(high[found], mask=unknown)),
    }


def _sets(domain: pa.Array, own: IntArray, found: IntArray) -> pa.Array:
    """The values in the class of each combination."""
    texts = [None if value is None else str(value) for value in domain.to_pylist()]
    sets: list[list[str | None]] = [[] for _ in range(int(found.max()) + 1)]
    for position, group in sorted(set(zip(own.tolist(), found.tolist(), strict=True))):
        sets[group].append(texts[position])
    labels = [values[0] if len(values) == 1 else _set(values) for values in sets]
    return pa.array(labels, pa.string()).take(pa.array(found))


def _set(values: list[str | None]) -> str:
    return "{" + ", ".join(value_text(v) if v is None else v for v in values) + "}"
