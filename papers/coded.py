"""The tables that papers are rerun on, as integer codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.draws import IntArray


@dataclass(frozen=True, eq=False)
class People:
    """Codes of the quasi columns and of one sensitive column.

    >>> table = pa.table({"age": [30, 41, 30], "s": ["b", "a", "b"]})
    >>> coded(table, "s").counts.tolist()
    [1, 2]
    """

    quasi: Mapping[str, IntArray]
    sensitive: IntArray
    values: int

    @property
    def rows(self) -> int:
        return len(self.sensitive)

    @property
    def counts(self) -> IntArray:
        return np.bincount(self.sensitive, minlength=self.values)

    @property
    def largest_groups(self) -> int:
        """The most different values that groups of equal size can have."""
        return self.rows // int(self.counts.max())

    def first(self, rows: int) -> People:
        quasi = {name: codes[:rows] for name, codes in self.quasi.items()}
        return People(quasi, self.sensitive[:rows], self.values)


def coded(table: pa.Table, sensitive: str) -> People:
    """All columns of a table as codes, in the order of their values."""
    codes = {
        name: np.unique(np.asarray(table.column(name).to_pylist()), return_inverse=True)[1].astype(
            np.int64
        )
        for name in table.column_names
    }
    chosen = codes.pop(sensitive)
    return People(codes, chosen, int(chosen.max()) + 1)
