"""The raw table in the terms of a release that merged quasi values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.sps import SamplingPerturbingScaling
from sfumato.release import Release, typed_values
from sfumato.table import Source, Table


class RelabelledSource(Source):
    """Another source, with the labels of merged values in their place."""

    def __init__(self, source: Source, labels: Mapping[str, tuple[pa.Array, pa.Array]]) -> None:
        self._source, self._labels = source, labels
        self.label = source.label
        self.schema = pa.schema(
            [
                pa.field(field.name, pa.string() if field.name in labels else field.type)
                for field in source.schema
            ]
        )

    def batches(
        self, columns: Sequence[str], rows: int, threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        for batch in self._source.batches(columns, rows, threads):
            arrays = [self._labelled(name, batch.column(name)) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _labelled(self, name: str, array: pa.Array) -> pa.Array:
        if name not in self._labels:
            return array
        values, labels = self._labels[name]
        plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        return labels.take(pc.index_in(plain, value_set=values)).dictionary_encode()


def merged_table(table: Table, release: Release) -> Table:
    """The table as the release names its quasi values; itself where nothing was merged."""
    labels = {}
    for column, classes in release.merges.items():
        values = [value for merged in classes for value in merged.values]
        names = [merged.label for merged in classes for _ in merged.values]
        labels[column] = (typed_values(tuple(values), table.type_of(column)), pa.array(names))
    if not labels:
        return table
    kinds = {name: "categorical" if name in labels else kind for name, kind in table.kinds.items()}
    return replace(table, source=RelabelledSource(table.source, labels), kinds=kinds)


def mechanism_on_merged(text: str) -> str:
    """The mechanism for a table whose values are merged already."""
    mechanism = parse_mechanism(text)
    return str(
        replace(mechanism, merge="none")
        if isinstance(mechanism, SamplingPerturbingScaling)
        else mechanism
    )
