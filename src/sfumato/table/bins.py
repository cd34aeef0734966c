"""Bins turn a numeric sensitive column into a few values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.errors import UsageError


@dataclass(frozen=True)
class Bins:
    """Half-open bins between ascending edges; the last one includes its upper edge.

    >>> Bins((0, 100, 1000)).labels
    ('[0, 100)', '[100, 1000]')
    >>> Bins((0, 100, 1000)).codes(np.array([0.0, 99.9, 100.0, 1000.0])).tolist()
    [0, 0, 1, 1]
    >>> Bins((-math.inf, 1000000.5, 1000001)).labels
    ('(-inf, 1000000.5)', '[1000000.5, 1000001]')
    """

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(float(edge) for edge in self.edges))
        if len(self.edges) < 3 or any(
            not low < high for low, high in zip(self.edges, self.edges[1:], strict=False)
        ):
            raise UsageError(
                "Bins need at least three ascending edges, for example 'cost=0,100,1000' "
                f"(inf and -inf are allowed). Got {', '.join(_edge(e) for e in self.edges)}."
            )

    @staticmethod
    def parse(edges: str | Sequence[float]) -> Bins:
        parts = edges.split(",") if isinstance(edges, str) else list(edges)
        try:
            return Bins(tuple(float(part) for part in parts))
        except ValueError:
            raise UsageError(f"Bins need numbers between commas. Got {edges!r}.") from None

    @property
    def labels(self) -> tuple[str, ...]:
        pairs = list(zip(self.edges, self.edges[1:], strict=False))
        closed = [")"] * (len(pairs) - 1) + ["]"]
        return tuple(
            f"{'(' if math.isinf(low) else '['}{_edge(low)}, {_edge(high)}"
            f"{')' if math.isinf(high) else bracket}"
            for (low, high), bracket in zip(pairs, closed, strict=True)
        )

    def codes(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """The bin of each number; -1 where it lies outside."""
        code = np.searchsorted(np.asarray(self.edges), numbers, side="right") - 1
        code[numbers == self.edges[-1]] = len(self.edges) - 2
        code[code > len(self.edges) - 2] = -1
        return code


def _edge(edge: float) -> str:
    # two edges must never look alike: their bins would be one value
    return str(int(edge)) if edge.is_integer() and abs(edge) < 1e15 else repr(edge)
