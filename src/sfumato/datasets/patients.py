"""Patients with several hospital stays: a table in which a person has one to many rows.

A patient keeps age, sex and region, and half of the stays are for the same illness. How many stays
patients have is a fixed cycle, in which n stays are n^1.5 times as rare as one, so that a longer
table begins with the shorter one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.datasets.alias import Codes
from sfumato.datasets.network import Network
from sfumato.draws import Draws, IntArray, Positions

if TYPE_CHECKING:
    import pyarrow as pa

PATIENT = "patient"
_KEPT = ("age", "sex", "region")
_ONCE = 90  # patients of one stay in a cycle
_GOLDEN = 0.6180339887498949  # its multiples, modulo 1, are spread evenly: an order without draws


@dataclass(frozen=True)
class Patients(Network):
    """The stays of a hospital's network, of patients who have at most `stays` each."""

    stays: int = 20

    @cached_property
    def _ends(self) -> IntArray:
        """Rows up to the end of each patient of a cycle."""
        numbers = np.arange(1, self.stays + 1)
        sizes = np.repeat(numbers, np.maximum(1, np.rint(_ONCE / numbers**1.5).astype(np.int64)))
        return np.cumsum(sizes[np.argsort(np.arange(len(sizes)) * _GOLDEN % 1.0)])

    def patients(self, start: int, count: int) -> IntArray:
        """Whose stay each of these rows is.

        >>> Patients("hospital", (), (), stays=20).patients(0, 8).tolist()
        [0, 1, 2, 2, 2, 2, 2, 2]
        """
        cycle, remainder = np.divmod(np.arange(start, start + count), self._ends[-1])
        return np.asarray(
            cycle * len(self._ends) + np.searchsorted(self._ends, remainder, side="right")
        )

    def codes(self, draws: Draws, start: int, count: int) -> dict[str, Codes]:
        whose = self.patients(start, count)
        if not count:
            return super().codes(draws, start, count)
        first, people = int(whose[0]), int(whose[-1] - whose[0]) + 1
        person = super().codes(draws.child("patients"), first, people)
        codes: dict[str, Codes] = {name: person[name][whose - first] for name in _KEPT}
        stream = draws.child("dataset " + self.name)
        rows = slice(0, count)
        for column in self.columns:
            if column.name not in _KEPT:
                codes[column.name] = column.draw(stream, start, codes, rows).astype(np.int32)
        again = stream.bernoulli("again", Positions(start, count), Fraction(1, 2))
        for name in set(codes) - set(_KEPT):
            codes[name] = np.where(again, person[name][whose - first], codes[name])
        return codes

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([(PATIENT, pa.int64()), *super().schema()])

    def batch(self, draws: Draws, start: int, count: int) -> pa.RecordBatch:
        import pyarrow as pa

        codes = self.codes(draws, start, count)
        arrays = [self.column(name).arrow(codes[name]) for name in self.order]
        whose = pa.array(self.patients(start, count))
        return pa.RecordBatch.from_arrays([whose, *arrays], schema=self.schema())
