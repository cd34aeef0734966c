"""What is seen of one column of the records: its values themselves, or what a release shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.draws import IntArray
from sfumato.errors import SingularOperator, UsageError
from sfumato.learn.undone import Undone
from sfumato.operators.base import FloatArray
from sfumato.operators.links import RecordLikelihoods, ShownSymbols, seen_truth

CORRECTIONS = ("forward", "backward")
_HARDLY = 1e-4  # the least eigenvalue at which values can still be told apart


@dataclass(frozen=True, eq=False)
class Seen:
    """A column of the records, as far as it is seen."""

    name: str
    values: tuple[Any, ...]  # what it may hold, sorted
    prior: FloatArray  # their shares
    shown: IntArray  # by record: its symbol
    likelihood: FloatArray  # Pr(symbol | value), (symbols, values), up to a factor by symbol
    weights: FloatArray  # (symbols, values): what a record counts towards a value, unbiased
    told: float  # how well values can be told apart, from 0 to 1
    unit: IntArray  # by record: what is independent of all others
    together: RecordLikelihoods | None = None  # where the records of a unit tell of each other
    listed: Any = None  # (units, values), where units list values: how often
    block: IntArray | None = None  # by unit, where people were mixed block by block
    cut_by: tuple[str, ...] = ()  # the columns by which blocks were cut
    copies: FloatArray | None = None  # by record: how many of them stand for one that was drawn

    @property
    def records(self) -> int:
        return len(self.shown)

    @property
    def units(self) -> int:
        return int(self.unit.max(initial=-1)) + 1

    @property
    def blocks(self) -> IntArray:
        """By unit: the block inside which its people were mixed."""
        return np.zeros(self.units, np.int64) if self.block is None else self.block

    @property
    def is_true(self) -> bool:
        """Whether the values themselves are seen."""
        return self.listed is None and np.array_equal(self.likelihood, np.eye(len(self.values)))

    @property
    def codes(self) -> IntArray:
        """The values themselves, where they are seen."""
        assert self.is_true
        return self.shown

    def unbiased(self) -> FloatArray:
        """What every record counts towards every value: (records, values)."""
        if self.told < _HARDLY:
            raise SingularOperator(
                f"The release cannot tell some values of column {self.name!r} apart, so nothing "
                "that counts them without bias can be learned; where a learner has a correction, "
                "use 'forward'."
            )
        return np.asarray(self.weights[self.shown])

    def through(self, correction: str) -> RecordLikelihoods:
        """What a rule is fitted to."""
        if correction == "backward" and not self.is_true:
            return Undone(self.unbiased(), self.unit)
        return self.together or ShownSymbols(self.shown, self.likelihood)


def truly_seen(name: str, values: tuple[Any, ...], codes: IntArray) -> Seen:
    """A column whose values are seen."""
    many = len(values)
    prior = np.bincount(codes, minlength=many) / max(len(codes), 1)
    evidence = seen_truth(codes, many)
    exact = np.eye(many)
    return Seen(name, values, prior, codes, evidence.likelihood, exact, 1.0, np.arange(len(codes)))


def check_correction(correction: object) -> str:
    if correction not in CORRECTIONS:
        raise UsageError(f"correction is 'forward' or 'backward'. Got {correction!r}.")
    return str(correction)
