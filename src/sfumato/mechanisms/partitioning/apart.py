"""Values that must not share a sub-table (thesis, Section 4.5).

Values that mean nearly the same, `HIV` and `AIDS`, hide nobody among one another: a sub-table that
holds little besides tells what they have in common. So the table is cut by them first, into as many
pieces, each with one of them and with so much of all other values that it is as common there as
they together are in the table. Each piece is then cut into sub-tables by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.draws import IntArray
from sfumato.errors import UsageError
from sfumato.guarantees.value_table import OpenValues


@dataclass(frozen=True)
class ApartValues(OpenValues):
    """Values by name; ';' stands between them.

    >>> str(ApartValues.of("HIV;AIDS"))
    "'HIV;AIDS'"
    """

    usage: ClassVar[str] = (
        "'apart' names two values or more that must not share a sub-table, each once: "
        "apart='HIV;AIDS'"
    )
    named: ClassVar[str] = "which the mechanism is to hold apart"

    def __post_init__(self) -> None:
        if len(self.rows) < 2:
            raise UsageError(f"{self.usage}. Got {self.labels[0]!r} instead.")


def pieces_apart(counts: IntArray, apart: Sequence[int]) -> IntArray:
    """Counts by (piece, value): in each piece one of the values that are held apart.

    >>> pieces_apart(np.array([6, 2, 10, 3]), [0, 1]).tolist()
    [[6, 0, 7, 2], [0, 2, 3, 1]]
    """
    there = [code for code in apart if counts[code]]
    if len(there) < 2:
        return counts[None, :].astype(np.int64)
    weights = counts[there].astype(np.int64)
    edges = np.concatenate([[0], np.cumsum(weights)])
    # ⌊c·edge/total⌋ in Python's integers: counts multiply
    ends = np.array(
        [[int(c) * int(edge) // int(edges[-1]) for c in counts] for edge in edges], np.int64
    )
    pieces = np.diff(ends, axis=0)
    pieces[:, there] = np.diag(weights)
    return np.asarray(pieces)
