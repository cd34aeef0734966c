"""Quasi columns made safe: every published combination of them is shared by at least k people.

Numbers and dates become ranges, two columns `age_low` and `age_high`; categories become a set,
`{divorced, widowed}`, or the node above them in a hierarchy. Which ranges and sets follows from how
many people have each combination of quasi values; nobody is withheld. What is in memory is one line
for each combination.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import Kind, value_text
from sfumato.errors import DataError, UsageError
from sfumato.scratch import scratch_database
from sfumato.table.hierarchy import Hierarchy
from sfumato.table.merging import IntArray, MergedAxis, certainty_penalty, classes
from sfumato.table.plain import normalize
from sfumato.table.sources import Source, reading_errors


@dataclass(frozen=True)
class QuasiMerge:
    """What `--quasi-k` did: the columns it was given, with their recodes, and what is lost.

    `loss` is the global certainty penalty, for the steward: 0 where nothing was widened.
    """

    k: int
    columns: Mapping[str, str]
    hierarchies: Mapping[str, Hierarchy]
    loss: float

    def to_json(self) -> dict[str, Any]:
        trees = {
            name: [list(path) for path in tree.paths.values()]
            for name, tree in self.hierarchies.items()
        }
        return {"k": self.k, "columns": dict(self.columns), "hierarchies": trees}

    @staticmethod
    def options(described: Mapping[str, Any]) -> dict[str, Any]:
        """What `read` has to be told to merge as a manifest says."""
        recodes = {name: text for name, text in described["columns"].items() if text}
        trees = {name: Hierarchy.of(lines) for name, lines in described["hierarchies"].items()}
        return {
            "quasi": list(described["columns"]),
            "quasi_k": described["k"],
            "hierarchies": trees,
            "recode": recodes,
        }

    @property
    def note(self) -> str:
        return (
            f"Merged until {self.k} people share every combination of quasi values: on average a "
            f"value is widened to {100 * self.loss:.1f} % of its domain; nobody is suppressed."
        )


class MergedSource(Source):
    """Another source whose quasi columns are ranges and sets of at least k people."""

    def __init__(self, source: Source, shown: ShownClasses, label: str) -> None:
        self._source, self.shown = source, shown
        self.label, self.engine, self.foreign = label, source.engine, source.foreign
        kept = [field for field in source.schema if field.name not in shown.quasi]
        self.schema = pa.schema([*shown.fields, *kept])

    def batches(
        self, columns: Sequence[str], rows: int, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        others = [name for name in columns if name not in self.shown.names]
        for batch in self._source.batches((*self.shown.quasi, *others), rows, threads):
            yield normalize(self.shown.show(batch), columns)


@dataclass(frozen=True, eq=False)
class ShownClasses:
    """Combinations of quasi values, in order of their keys, and what each one's class shows."""

    quasi: tuple[str, ...]
    domains: tuple[pa.Array, ...]
    keys: IntArray
    labels: pa.RecordBatch  # a row for each combination

    @property
    def names(self) -> list[str]:
        return list(self.labels.schema.names)

    @property
    def fields(self) -> list[pa.Field]:
        return list(self.labels.schema)

    def show(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with what is shown in the place of its quasi columns."""
        _, keys = _places([batch.column(name) for name in self.quasi], self.domains)
        position = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        # whoever was not counted is left out later, and must not be shown with anybody
        class_of = pa.array(position, mask=self.keys[position] != keys)
        others = [name for name in batch.schema.names if name not in self.quasi]
        arrays = [column.take(class_of) for column in self.labels.columns]
        return pa.RecordBatch.from_arrays(
            [*arrays, *(batch.column(name) for name in others)], names=[*self.names, *others]
        )


def merge_quasi(
    source: Source,
    kinds: Mapping[str, Kind],
    k: int,
    *,
    hierarchies: Mapping[str, Hierarchy] | None = None,
    needed: Sequence[str] = (),
    person: str | None = None,
) -> tuple[Source, tuple[str, ...], float]:
    """The source with the quasi columns of these kinds merged, their names, and the loss.

    Rows without a value in one of the `needed` columns do not count: they are left out later. Where
    a `person` may have several rows, who has the same quasi values in all of them counts, once:
    whichever of their rows are published, they are there.

    >>> from sfumato.table.sources import find_source
    >>> people = find_source(pa.table({"age": [20, 21, 60, 61], "sex": ["F", "M", "F", "F"]}))
    >>> made, names, loss = merge_quasi(people, {"age": "numeric", "sex": "categorical"}, 2)
    >>> for row in next(made.batches(names, 10)).to_pylist():
    ...     print(row)
    {'age_low': 20, 'age_high': 21, 'sex': '{F, M}'}
    {'age_low': 20, 'age_high': 21, 'sex': '{F, M}'}
    {'age_low': 60, 'age_high': 61, 'sex': 'F'}
    {'age_low': 60, 'age_high': 61, 'sex': 'F'}
    """
    if source.engine != "local":
        raise UsageError(
            "'quasi_k' works on tables that are read on this machine. Publish with --engine local."
        )
    quasi, trees = tuple(kinds), hierarchies or {}
    combinations = _combinations(source, quasi, needed, person)
    arrays_by_column = [array.combine_chunks() for array in combinations.columns[:-1]]
    domains = [array.unique() for array in arrays_by_column]
    domains = [domain.take(pc.sort_indices(domain)) for domain in domains]  # a null comes last
    if np.prod([len(domain) + 1 for domain in domains], dtype=object) >= 1 << 62:
        raise DataError(
            f"The quasi-identifiers of {source.label} have too many combinations. Recode or drop "
            f"some."
        )
    places, keys = _places(arrays_by_column, domains)
    order = np.argsort(keys)
    places, keys = places[:, order], keys[order]
    people = combinations["people"].to_numpy()[order]
    if people.sum() < k:
        same = "" if person is None else " with the same quasi values in all rows"
        raise DataError(
            f"{source.label} has {people.sum():,} people{same}: no combination can have {k} of "
            "them."
        )
    ordered = [
        name not in trees and (kinds[name] == "numeric" or _is_time(domain.type))
        for name, domain in zip(quasi, domains, strict=True)
    ]
    axes = [
        _line(domain)
        if number
        else _tree(domain, trees[name])
        if name in trees
        else MergedAxis(len(domain))
        for name, domain, number in zip(quasi, domains, ordered, strict=True)
    ]
    class_of = classes(axes, places, people, k)
    arrays: dict[str, pa.Array] = {}
    for name, domain, positions, number in zip(quasi, domains, places, ordered, strict=True):
        if number:
            arrays |= _ranges(name, domain, positions, class_of)
        else:
            arrays[name] = _sets(domain, positions, class_of, trees.get(name))
    taken = sorted(set(arrays) & (set(source.schema.names) - set(quasi)))
    if taken:
        raise DataError(f"{source.label} has a column {taken[0]!r} already. Rename it.")
    labels = pa.RecordBatch.from_pydict(arrays)
    shown = ShownClasses(quasi, tuple(domains), keys, labels)
    merged = MergedSource(source, shown, source.label)
    return merged, tuple(arrays), certainty_penalty(axes, places, people, class_of)


def _plain(array: pa.Array) -> pa.Array:
    """Texts uncoded, and what is not a number missing."""
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    if pa.types.is_floating(array.type):
        return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
    return array


def _combinations(
    source: Source, quasi: Sequence[str], needed: Sequence[str], person: str | None
) -> pa.Table:
    """The combinations that occur and, as `people`, who has each: of people with several rows
    those with the same in all of them. DuckDB groups, and spills."""
    columns = {name: f"c{index}" for index, name in enumerate(quasi)}
    columns |= {} if person is None else {person: "person"}
    kinds = [(column, source.schema.field(name).type) for name, column in columns.items()]
    schema = pa.schema(kinds)

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in source.batches(tuple(dict.fromkeys((*columns, *needed))), 1 << 17):
            for name in needed:
                column = batch.column(name)
                nan = pa.types.is_floating(column.type)
                batch = batch.filter(pc.invert(column.is_null(nan_is_null=nan)))
            arrays = [_plain(batch.column(name)) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    connection = scratch_database()
    connection.register("rows", pa.RecordBatchReader.from_batches(schema, rows()))
    counted, number = "rows", "count(*)"
    if person is not None:
        number = "count(*) FILTER (many = 1)"
        counted = (
            "(SELECT *, count(*) OVER (PARTITION BY person) AS many "
            "FROM (SELECT DISTINCT * FROM rows))"
        )
    named = ", ".join(columns[name] for name in quasi)
    with reading_errors(source):
        answer = connection.sql(
            f"SELECT {named}, {number} AS people FROM {counted} GROUP BY {named}"
        ).to_arrow_table()
    return answer.cast(pa.schema([*kinds[: len(quasi)], ("people", pa.int64())]))


def _places(arrays: Sequence[pa.Array], domains: Sequence[pa.Array]) -> tuple[IntArray, IntArray]:
    """Where values stand in their domains, by column, and one number for each combination."""
    places, key = [], np.zeros(len(arrays[0]), np.int64)
    for array, domain in zip(arrays, domains, strict=True):
        # what no counted row has gets a place beyond all, and so a key that nobody has
        codes = pc.index_in(_plain(array), value_set=domain).fill_null(len(domain))
        places.append(codes.to_numpy().astype(np.int64))
        key = key * (len(domain) + 1) + places[-1]
    return np.stack(places), key


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _line(domain: pa.Array) -> MergedAxis:
    """Numbers, or dates in their order; a missing value lies a whole span beyond them."""
    present = domain.drop_null()
    if pa.types.is_date(domain.type):
        present = present.cast(pa.int32())
    elif pa.types.is_timestamp(domain.type):
        present = present.cast(pa.int64())
    numbers = present.cast(pa.float64(), safe=False).to_numpy()
    if domain.null_count:
        span = float(numbers[-1] - numbers[0]) if len(numbers) else 0.0
        numbers = np.append(numbers, (numbers[-1] if len(numbers) else 0.0) + (span or 1.0))
    return MergedAxis(len(domain), numbers)


def _tree(domain: pa.Array, hierarchy: Hierarchy) -> MergedAxis:
    paths = [hierarchy.paths.get(str(value)) for value in domain.to_pylist()]
    if None in paths:
        raise DataError(
            f"A hierarchy lacks {paths.count(None):,} of the values of its column. Add a line for "
            "each, from leaf to root."
        )
    known_paths = [path for path in paths if path is not None]
    depth = max(map(len, known_paths))
    # the root again and again above itself, so that all paths are as long
    long = [path + (path[-1],) * (depth - len(path)) for path in known_paths]
    numbers = {node: index for index, node in enumerate(dict.fromkeys(n for p in long for n in p))}
    nodes = np.array([[numbers[node] for node in path] for path in long], np.int64).T
    under = np.zeros(len(numbers), np.int64)
    for path in known_paths:
        for node in set(path):
            under[numbers[node]] += 1
    return MergedAxis(len(domain), None, nodes, under)


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


def _sets(
    domain: pa.Array, own: IntArray, found: IntArray, hierarchy: Hierarchy | None
) -> pa.Array:
    """The values in the class of each combination, or the node above them."""
    texts = [None if value is None else str(value) for value in domain.to_pylist()]
    sets: list[list[str | None]] = [[] for _ in range(int(found.max()) + 1)]
    for position, group in sorted(set(zip(own.tolist(), found.tolist(), strict=True))):
        sets[group].append(texts[position])
    labels = pa.array([_label(values, hierarchy) for values in sets], pa.string())
    return labels.take(pa.array(found))


def _label(values: list[str | None], hierarchy: Hierarchy | None) -> str | None:
    if len(values) == 1:
        return values[0]
    if hierarchy is None:
        return "{" + ", ".join(value_text(v) if v is None else v for v in values) + "}"
    paths = [hierarchy.paths[str(value)] for value in values]
    return next(node for node in paths[0] if all(node in path for path in paths))
