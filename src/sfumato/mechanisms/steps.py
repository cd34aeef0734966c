"""Which piece of a line a place lies in, fast for many places."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sfumato.draws import IntArray

_FINE = 16  # cells of the coarse table per piece: the piece is mostly found at once


@dataclass(frozen=True, eq=False)
class Pieces:
    """Piece i of the line 0 … n begins at `begins[i]` (ascending; a piece may be empty).

    >>> Pieces(np.array([0, 3, 3, 5]), 8).at(np.array([0, 2, 3, 7])).tolist()
    [0, 0, 2, 3]
    """

    begins: IntArray
    length: int
    _guess: IntArray = field(init=False, repr=False)
    _width: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # one edge beyond the last place ends every search
        edges = np.append(self.begins, self.length + 1)
        width = max(1, self.length // (_FINE * len(edges)))
        cells = np.arange(0, self.length + width, width)
        object.__setattr__(self, "begins", edges)
        object.__setattr__(self, "_width", width)
        object.__setattr__(self, "_guess", np.searchsorted(edges, cells, side="right") - 1)

    def at(self, places: IntArray) -> IntArray:
        """The last piece that does not begin beyond each place: a table, and a step or two."""
        piece = self._guess[places // self._width]
        late = np.flatnonzero(self.begins[piece + 1] <= places)
        while late.size:
            piece[late] += 1
            late = late[self.begins[piece[late] + 1] <= places[late]]
        return piece
