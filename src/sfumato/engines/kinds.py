"""People by all that they hold: which kinds there are, and the kind of every row's person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from sfumato.blocks import BlockTree
from sfumato.draws import BoolArray, IntArray
from sfumato.engines.coding import SensitiveCoder
from sfumato.engines.counting import drop_missing, plain_batch
from sfumato.errors import DataError
from sfumato.profile import Histogram, Kinds, Profile
from sfumato.scratch import scratch_database
from sfumato.table import Table, reading_errors


class PeopleCoder(Protocol):
    """From rows of the stream to the kinds and ranks of their people."""

    def __call__(
        self, codes: Mapping[str, IntArray], start: int, blocks: IntArray | None = None
    ) -> tuple[IntArray, IntArray] | None:
        """For rows with these codes, the first of them at `start`; None where they are others than
        those counted. `blocks` are theirs, where people are placed block by block."""


@dataclass(frozen=True, eq=False)
class CountedKinds:
    """Kinds, and for people with several rows the kind and the rank of every row's person.

    People of a kind are ranked by their first rows.
    """

    kinds: Kinds
    row_kinds: IntArray | None = None
    row_ranks: IntArray | None = None

    @cached_property
    def row_people(self) -> IntArray:
        """The person of every row, kind after kind and by rank."""
        assert self.row_kinds is not None
        assert self.row_ranks is not None
        begins = np.cumsum(self.kinds.counts) - self.kinds.counts
        return np.asarray(begins[self.row_kinds] + self.row_ranks)

    @cached_property
    def first_rows(self) -> BoolArray:
        """Which rows are the first of their person."""
        found = np.zeros(len(self.row_people), np.bool_)
        found[np.unique(self.row_people, return_index=True)[1]] = True
        return found

    def coder(self) -> PeopleCoder:
        if self.row_kinds is None:
            return RowCoder(self.kinds)
        return self._known

    def _known(
        self, codes: Mapping[str, IntArray], start: int, blocks: IntArray | None = None
    ) -> tuple[IntArray, IntArray] | None:
        assert self.row_kinds is not None
        assert self.row_ranks is not None
        rows = slice(start, start + len(next(iter(codes.values()))))
        kinds, ranks = self.row_kinds[rows], self.row_ranks[rows]
        return (kinds, ranks) if hold(self.kinds, kinds, codes) else None


def hold(kinds: Kinds, row_kinds: IntArray, codes: Mapping[str, IntArray]) -> bool:
    """Whether rows with these codes are all among those of people of these kinds."""
    own = np.stack([codes[name] for name in kinds.columns], axis=1)
    if len(row_kinds) != len(own):
        return False
    return bool((kinds.held[row_kinds] == own[:, None, :]).all(axis=2).any(axis=1).all())


class RowCoder:
    """Where every person has one row: ranks are counted as the rows come.

    `blocks` are those of the kinds, where people are placed block by block.
    """

    def __init__(self, kinds: Kinds, blocks: IntArray | None = None) -> None:
        self._columns, self._left = kinds.columns, kinds.counts.copy()
        self._seen = np.zeros_like(kinds.counts)
        held = kinds.held[:, 0] if blocks is None else np.c_[kinds.held[:, 0], blocks]
        self._places = {tuple(each): t for t, each in enumerate(held.tolist())}

    def __call__(
        self, codes: Mapping[str, IntArray], start: int, blocks: IntArray | None = None
    ) -> tuple[IntArray, IntArray] | None:
        beside = [] if blocks is None else [blocks]
        own = np.stack([*(codes[name] for name in self._columns), *beside], axis=1)
        if not len(own):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        listed, place = np.unique(own, axis=0, return_inverse=True)
        known = np.array([self._places.get(tuple(each), -1) for each in listed.tolist()], np.int64)
        if int(known.min()) < 0:
            return None
        kinds = known[place.reshape(-1)]
        counts = np.bincount(kinds, minlength=len(self._seen))
        self._left -= counts
        if int(self._left.min()) < 0:
            return None
        order = np.argsort(kinds, kind="stable")
        ranks = np.empty(len(kinds), np.int64)
        starts = np.cumsum(counts) - counts
        ranks[order] = np.arange(len(kinds)) + (self._seen - starts)[kinds[order]]
        self._seen += counts
        return kinds, ranks


def has_kinds(table: Table) -> bool:
    """Whether people hold more than one value: of several columns, or in several rows."""
    return len(table.sensitive) > 1 or has_several_rows(table)


def has_several_rows(table: Table) -> bool:
    return table.person is not None and (table.rows_per_person or 1) > 1


def count_kinds(table: Table, histograms: Mapping[str, Histogram]) -> CountedKinds:
    """One pass; DuckDB groups, and spills where it must.

    >>> from sfumato.engines.counting import take_profile
    >>> from sfumato.table import read
    >>> people = pa.table({"a": ["x", "x", "y"], "b": [1, 2, 2]})
    >>> declared = read(people, quasi="", sensitive="a,b")
    >>> count_kinds(declared, take_profile(declared).histograms).kinds.held[:, 0].tolist()
    [[0, 0], [0, 1], [1, 1]]
    """
    names, sizes = tuple(histograms), combination_sizes(table, histograms)
    several = has_several_rows(table)
    connection = scratch_database()
    reader = pa.RecordBatchReader.from_batches(
        _schema(table, several), _coded(table, histograms, several)
    )
    connection.register("coded", reader)
    with reading_errors(table.source):
        connection.execute("CREATE TABLE rows AS SELECT * FROM coded")
    if several:
        return _of_people(connection, names, sizes)
    found = connection.sql("SELECT code, count(*) AS n FROM rows GROUP BY code ORDER BY code")
    counted = found.to_arrow_table()
    held = unravelled(counted.column("code").to_numpy(), sizes)[:, None, :]
    return CountedKinds(Kinds(names, held, counted.column("n").to_numpy().astype(np.int64)))


def combination_sizes(table: Table, histograms: Mapping[str, Histogram]) -> list[int]:
    """How many values each column has; combinations of too many cannot be numbered."""
    sizes = [len(histogram.values) for histogram in histograms.values()]
    if int(np.prod(sizes, dtype=object)) >= 1 << 62:
        raise DataError(
            f"The sensitive columns {', '.join(histograms)} of {table.label} have too many "
            f"combinations ({' × '.join(map(str, sizes))}). Coarsen or drop some."
        )
    return sizes


def with_kinds(table: Table, profile: Profile) -> CountedKinds | None:
    """The kinds of a table where they are more than its histogram."""
    return count_kinds(table, profile.histograms) if has_kinds(table) else None


def _schema(table: Table, several: bool) -> pa.Schema:
    fields = [pa.field("position", pa.int64()), pa.field("code", pa.int64())]
    if several:
        fields.append(pa.field("person", table.type_of(str(table.person))))
    return pa.schema(fields)


def _coded(
    table: Table, histograms: Mapping[str, Histogram], several: bool
) -> Iterator[pa.RecordBatch]:
    coders = {name: SensitiveCoder(table, name, h.values) for name, h in histograms.items()}
    sizes = tuple(len(histogram.values) for histogram in histograms.values())
    start, schema = 0, _schema(table, several)
    for batch in table.batches([*table.sensitive, *([str(table.person)] if several else [])]):
        batch = drop_missing(table, batch)
        codes = [coder(batch.column(name)) for name, coder in coders.items()]
        flat = np.ravel_multi_index(tuple(codes), sizes).astype(np.int64)
        arrays = [pa.array(np.arange(start, start + len(flat))), pa.array(flat)]
        if several:
            arrays.append(plain_batch(batch.select([table.person])).column(0))
        start += len(flat)
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _of_people(connection, names: tuple[str, ...], sizes: list[int]) -> CountedKinds:  # type: ignore[no-untyped-def]
    connection.execute(
        "CREATE TABLE people AS SELECT person, list(code ORDER BY code) AS held, "
        "min(position) AS first FROM rows GROUP BY person"
    )
    kinds = connection.sql(
        "SELECT held, count(*) AS n FROM people GROUP BY held ORDER BY len(held), held"
    ).to_arrow_table()
    connection.register("kinds", kinds)
    placed = connection.sql(
        """
        WITH numbered AS (SELECT held, row_number() OVER (ORDER BY len(held), held) - 1 AS kind
                          FROM kinds),
             ranked AS (SELECT person, kind,
                               row_number() OVER (PARTITION BY kind ORDER BY first) - 1 AS rank
                        FROM people JOIN numbered USING (held))
        SELECT r.position, k.kind, k.rank FROM rows AS r JOIN ranked AS k USING (person)
        """
    ).to_arrow_table()
    rows = placed.column("position").to_numpy()
    row_kinds, row_ranks = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    row_kinds[rows], row_ranks[rows] = placed.column("kind"), placed.column("rank")
    lists = kinds.column("held").combine_chunks()
    counts = kinds.column("n").to_numpy().astype(np.int64)
    return CountedKinds(kinds_of_lists(names, sizes, lists, counts), row_kinds, row_ranks)


def people_in_blocks(
    table: Table, counted: CountedKinds, tree: BlockTree, kinds: Kinds, of_block: IntArray
) -> CountedKinds:
    """The same people by kind *and* block, which all rows of a person have in common: `kinds` are
    those of a plan, `of_block` their blocks. One pass over the columns that are cut."""
    batches = table.batches(list(dict.fromkeys([*tree.columns, *table.sensitive])))
    found = [tree.numbers(drop_missing(table, batch)) for batch in batches]
    block, people = np.concatenate(found), counted.row_people
    own = np.zeros(counted.kinds.people, np.int64)
    if len(block) == len(people):
        own[people] = block
    if len(block) != len(people) or not bool((own[people] == block).all()):
        raise DataError(
            f"{table.label} changed while it was being published: rows of a person lie in several "
            "blocks. Publish from a fixed copy."
        )
    places = {
        (tuple(each.ravel().tolist()), int(number)): place
        for place, (each, number) in enumerate(zip(kinds.held, of_block, strict=True))
    }
    held = [tuple(each.ravel().tolist()) for each in counted.kinds.held]
    kind = np.repeat(np.arange(len(held)), counted.kinds.counts)  # of every person
    pairs, at = np.unique(np.stack([kind, own], axis=1), axis=0, return_inverse=True)
    known = np.array([places[held[k], b] for k, b in pairs.tolist()], np.int64)
    placed = known[at.reshape(-1)]
    order = np.argsort(placed, kind="stable")  # people of a kind stand by rank
    counts = np.bincount(placed, minlength=len(kinds.counts))
    ranks = np.empty(len(placed), np.int64)
    ranks[order] = np.arange(len(placed)) - (np.cumsum(counts) - counts)[placed[order]]
    return CountedKinds(kinds, placed[people], ranks[people])


def kinds_of_lists(
    names: tuple[str, ...], sizes: list[int], lists: pa.ListArray, counts: IntArray
) -> Kinds:
    """Kinds of people who hold such lists of combinations, in ascending order."""
    lengths = np.asarray(pa.compute.list_value_length(lists).to_numpy(), np.int64)
    flat = unravelled(np.asarray(lists.flatten().to_numpy()), sizes)
    held = np.full((len(lengths), int(lengths.max(initial=1)), len(names)), -1, np.int64)
    kind = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(kind)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    held[kind, place] = flat
    return Kinds(names, held, counts)


def unravelled(flat: IntArray, sizes: list[int]) -> IntArray:
    """The codes of every column, by (combination, column)."""
    return np.stack(np.unravel_index(flat, tuple(sizes)), axis=1).astype(np.int64)
