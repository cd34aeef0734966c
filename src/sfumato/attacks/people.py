"""Those whom an attack is tried on: the raw records as small integers, and how to find them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.draws import Draws, IntArray, Positions
from sfumato.engines.counting import take_profile
from sfumato.profile import Histogram
from sfumato.release import Release, typed_values
from sfumato.table import Table
from sfumato.table.sources import ColumnMap
from sfumato.table.staging import codes_among

Codes = list[IntArray]  # one array per quasi column, in the order of the columns


@dataclass(frozen=True, eq=False)
class Domains:
    """The values of the quasi columns by code; the code after the last stands for all others."""

    names: tuple[str, ...]
    values: tuple[pa.Array, ...]

    @property
    def sizes(self) -> list[int]:
        return [len(values) + 1 for values in self.values]

    def codes(self, column: int, array: pa.Array | pa.ChunkedArray) -> IntArray:
        """The code of every entry of an array of that column."""
        values = self.values[column]
        indices = pc.index_in(plain(array).cast(values.type), value_set=values)
        return np.asarray(indices.fill_null(len(values)).to_numpy(), np.int64)

    def all_codes(self, records: pa.Table) -> Codes:
        """The codes of all columns of a table."""
        return [self.codes(k, records.column(name)) for k, name in enumerate(self.names)]


@dataclass(frozen=True, eq=False)
class People:
    """The raw records: row numbers (from 0), quasi codes, and the truth about one column."""

    rows: IntArray
    domains: Domains
    codes: Codes
    column: str
    values: int  # how many values the sensitive column has
    truth: IntArray
    records: pa.Table | None = None  # what was read, to publish it again
    histogram: Histogram | None = None  # of the sensitive column, over its domain

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def prior(self) -> float:
        """How often the best guess is right without any release: the largest share."""
        return float(np.bincount(self.truth, minlength=1).max() / max(len(self), 1))

    def take(self, chosen: IntArray) -> People:
        return replace(
            self,
            rows=self.rows[chosen],
            codes=[codes[chosen] for codes in self.codes],
            truth=self.truth[chosen],
            records=None if self.records is None else self.records.take(pa.array(chosen)),
        )


def read_people(table: Table, column: str) -> People:
    """Load the quasi columns and one sensitive column; rows without a sensitive value stay out."""
    histograms, names = take_profile(table).histograms, (*table.quasi, *table.sensitive)
    batches = list(table.batches(names))
    read = {name: [plain(batch.column(name)) for batch in batches] for name in names}
    records = pa.table({n: pa.chunked_array(parts, table.type_of(n)) for n, parts in read.items()})
    coded = {
        name: codes_among(plain(records.column(name)), pa.array(h.values, table.type_of(name)))
        for name, h in histograms.items()
    }
    kept = np.flatnonzero(np.min(list(coded.values()), axis=0) >= 0)
    records, histogram = records.take(pa.array(kept)), histograms[column]
    values = tuple(plain(records.column(name).unique()) for name in table.quasi)
    domains, truth = Domains(table.quasi, values), coded[column][kept]
    codes, size = domains.all_codes(records), len(histogram.values)
    return People(kept, domains, codes, column, size, truth, records, histogram)


@dataclass(frozen=True, eq=False)
class MergedLabels(ColumnMap):
    """Values by the label that a release merged them under."""

    values: pa.Array
    labels: pa.Array

    def type(self, kind: pa.DataType) -> pa.DataType:
        return pa.string()

    def apply(self, array: pa.Array) -> pa.Array:
        return self.labels.take(pc.index_in(plain(array), value_set=self.values))


def merged_table(table: Table, release: Release) -> Table:
    """The table as the release names its quasi values; itself where nothing was merged."""
    labels = {}
    for column, classes in release.merges.items():
        values = tuple(value for merged in classes for value in merged.values)
        names = pa.array([merged.label for merged in classes for _ in merged.values])
        labels[column] = MergedLabels(typed_values(values, table.type_of(column)), names)
    if not labels:
        return table
    kinds = {name: "categorical" if name in labels else kind for name, kind in table.kinds.items()}
    return replace(table, source=table.source.mapped(labels), kinds=kinds)


def common_keys(first: Codes, second: Codes) -> tuple[IntArray, IntArray]:
    """One number per combination of codes, the same on both sides.

    >>> common_keys([np.array([1, 2])], [np.array([2, 2, 5])])
    (array([0, 1]), array([1, 1, 2]))
    """
    if not first:
        raise ValueError("there are no quasi-identifiers")
    split = len(first[0])
    key = np.zeros(split + len(second[0]), np.int64)
    for one, two in zip(first, second, strict=True):
        both = np.concatenate([one, two])
        _, key = np.unique(key * (int(both.max(initial=0)) + 1) + both, return_inverse=True)
    return key[:split], key[split:]


def other_halves(people: People, draws: Draws) -> tuple[IntArray, list[IntArray]]:
    """Two halves of the people, and for each half a table from its other half.

    The halves hold every value alike. A fresh table has as many records of every value as the raw
    one, drawn with replacement from those of the *other* half, so that nobody in a half stands in
    the table that stands for "without the person". (Somebody who alone has a value cannot be
    replaced and stays.) Returns the half of each person and the rows of the two fresh tables.
    """
    order = draws.order("halves", len(people))
    ranked = order[np.argsort(people.truth[order], kind="stable")]
    half = np.empty(len(people), np.int64)
    half[ranked] = np.arange(len(people)) % 2
    tables = []
    for side in (0, 1):
        words = draws.below(f"fresh {side}", Positions(0, len(people)), 1 << 62)
        rows = []
        for value in range(people.values):
            having = np.flatnonzero(people.truth == value)
            others = having[half[having] != side]
            pool = others if len(others) else having
            rows.append(pool[words[having] % max(len(pool), 1)] if len(having) else having)
        tables.append(np.concatenate(rows))
    return half, tables


def pick(scores: np.ndarray, prior: np.ndarray, draws: Draws, purpose: str) -> IntArray:
    """The best value per row: the largest score; of equal scores the one that is more common in
    the release; of those a draw. (The stated tie rule of every attack: errata H20.)

    Scores of minus infinity throughout are equal, too.

    >>> pick(np.array([[0.0, 2.0]]), np.array([0.9, 0.1]), Draws.from_seed(1), "demo")
    array([1])
    """
    if not len(scores):
        return np.empty(0, np.int64)
    best = scores.max(axis=1, keepdims=True)
    tied = scores >= np.where(np.isfinite(best), best - 1e-9 * (1 + np.abs(best)), best)
    common = np.where(tied, prior[None, :], -1.0)
    tied &= common >= common.max(axis=1, keepdims=True) * (1 - 1e-9)
    words = draws.words(purpose, Positions(0, scores.size)).reshape(scores.shape)
    return np.asarray(np.where(tied, words >> np.uint64(1), 0).argmax(axis=1), np.int64)


def plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array of plain values."""
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
