"""Personal groups: the records that nothing but the sensitive column tells apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato.draws import IntArray
from sfumato.mechanisms.reconstruction.merging import Merge, merge_values
from sfumato.profile import Cells

_BLOCK = 1 << 20  # records of a block


@dataclass(frozen=True, eq=False)
class PersonalGroups:
    """Cells by personal group: group g has the cells `starts[g] … starts[g+1]−1`.

    `keys[g]` codes the merged quasi values in mixed radix, first column slowest; `values` and
    `counts` are the cells' sensitive codes and numbers of records.
    """

    merges: tuple[Merge, ...]
    keys: IntArray
    starts: IntArray
    values: IntArray
    counts: IntArray

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def sizes(self) -> IntArray:
        """Records of each group."""
        return np.add.reduceat(self.counts, self.starts[:-1]) if len(self) else self.keys

    @cached_property
    def largest(self) -> IntArray:
        """Records with the commonest value of each group."""
        return np.maximum.reduceat(self.counts, self.starts[:-1]) if len(self) else self.keys

    def codes(self, groups: IntArray) -> dict[str, IntArray]:
        """The merged quasi values of these groups, column by column."""
        rest, by_column = self.keys[groups], {}
        for merge in reversed(self.merges):
            rest, by_column[merge.column] = np.divmod(rest, merge.count)
        return {merge.column: by_column[merge.column] for merge in self.merges}

    def blocks(self) -> Iterator[slice]:
        """Runs of groups with about a million records each, one group at the least."""
        edges = np.cumsum(self.sizes)
        start = 0
        while start < len(self):
            before = int(edges[start - 1]) if start else 0
            stop = max(int(np.searchsorted(edges, before + _BLOCK, side="right")), start + 1)
            yield slice(start, stop)
            start = stop

    def block(self, run: slice) -> tuple[IntArray, IntArray, IntArray]:
        """Owner (0 for the first group of the run), value and count of the run's cells."""
        starts = self.starts[run.start : run.stop + 1]
        cells = slice(int(starts[0]), int(starts[-1]))
        owner = np.repeat(np.arange(run.stop - run.start), np.diff(starts))
        return owner, self.values[cells], self.counts[cells]


def personal_groups(cells: Cells, values: int, significance: Fraction | None) -> PersonalGroups:
    """Merge the quasi values column by column, None merging nothing; then group the cells.
    O(cells log cells)."""
    starts = _starts(cells.keys)
    keys = cells.keys[starts[:-1]]
    if significance is None:
        merges = tuple(
            Merge(column, domain, np.arange(len(domain)))
            for column, domain in zip(cells.columns, cells.domains, strict=True)
        )
        return PersonalGroups(merges, keys, starts, cells.values, cells.counts)
    repeats, merges_found = np.diff(starts), []
    merged = np.zeros(len(keys), np.int64)
    stride = int(np.prod([len(domain) for domain in cells.domains], dtype=object))
    for column, domain in zip(cells.columns, cells.domains, strict=True):
        stride //= len(domain)
        code = keys // stride % len(domain)
        codes = np.repeat(code, repeats)
        table = _counted(codes, cells.values, cells.counts, len(domain), values)
        merge = merge_values(column, domain, table, significance)
        merges_found.append(merge)
        merged = merged * merge.count + merge.classes[code]
    if not any(merge.changes for merge in merges_found):
        return PersonalGroups(tuple(merges_found), keys, starts, cells.values, cells.counts)
    cell = np.repeat(merged, repeats) * values + cells.values
    order = np.argsort(cell, kind="stable")
    cell = cell[order]
    cell_starts = _starts(cell)
    counts = np.add.reduceat(cells.counts[order], cell_starts[:-1])
    merged_keys, sensitive = np.divmod(cell[cell_starts[:-1]], values)
    starts = _starts(merged_keys)
    return PersonalGroups(tuple(merges_found), merged_keys[starts[:-1]], starts, sensitive, counts)


def _counted(
    code: IntArray, value: IntArray, counts: IntArray, codes: int, values: int
) -> IntArray:
    flat = np.bincount(code * values + value, weights=counts, minlength=codes * values)
    return flat.astype(np.int64).reshape(codes, values)


def _starts(keys: IntArray) -> IntArray:
    """Where the runs of equal keys begin, and the end of the last."""
    changed = np.flatnonzero(np.diff(keys)) + 1
    first = np.zeros(1 if len(keys) else 0, np.int64)
    return np.concatenate([first, changed, np.array([len(keys)], np.int64)])
