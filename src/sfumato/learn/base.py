"""What regressions have in common: a release, or a frame for comparison, and what is predicted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from sfumato.errors import UsageError
from sfumato.learn.examples import Examples, as_release, as_table, from_frame, from_release
from sfumato.operators.base import FloatArray

CONSTANT = "(constant)"


@dataclass(frozen=True)
class Coefficient:
    """An estimate with its standard error and interval; `of` is the class that it is for."""

    name: str
    of: Any
    value: float
    stderr: float | None
    low: float | None
    high: float | None


class Learner(ABC):
    """Learns from a release or from a frame."""

    estimates_numbers: ClassVar[bool] = False
    target_: str
    coef_: FloatArray
    intercept_: Any
    coef_stderr_: FloatArray | None = None
    intercept_stderr_: Any = None
    coef_names_: list[str]

    def fit(self, data: Any, *, target: str, features: Sequence[str] | None = None) -> Self:
        """Learn to predict `target` from `features`, all other columns by default.

        `data` is a release or its folder; or, for comparison, a frame that holds the target.
        """
        release, numbers = as_release(data), self.estimates_numbers
        if release is not None:
            examples = from_release(release, target, features, numbers=numbers)
        else:
            examples = from_frame(as_table(data), target, features, numbers=numbers)
        self._learn(examples)
        self.target_ = target
        return self

    @abstractmethod
    def _learn(self, examples: Examples) -> None:
        """Fit what `predict` needs."""

    def coefficients(self, confidence: float = 0.95) -> list[Coefficient]:
        """Every coefficient, class by class, with its standard error and interval."""
        if not 0 < confidence < 1:
            raise UsageError(f"confidence lies between 0 and 1. Got {confidence!r}.")
        self._check_fitted()
        quantile = NormalDist().inv_cdf((1 + confidence) / 2)
        values = np.column_stack([np.atleast_1d(self.intercept_), np.atleast_2d(self.coef_)])
        errors = np.full(values.shape, np.nan)
        if self.coef_stderr_ is not None:
            stderrs = np.atleast_1d(self.intercept_stderr_), np.atleast_2d(self.coef_stderr_)
            errors = np.column_stack(stderrs)
        coefficients = []
        for class_, row, stderrs_of_row in zip(self._classes(), values, errors, strict=True):
            names = [CONSTANT, *self.coef_names_]
            for name, value, error in zip(names, row.tolist(), stderrs_of_row, strict=True):
                spread: tuple[float | None, ...] = (None, None, None)
                if np.isfinite(error):
                    reach = quantile * float(error)
                    spread = float(error), value - reach, value + reach
                coefficients.append(Coefficient(name, class_, value, *spread))
        return coefficients

    def _classes(self) -> list[Any]:
        """What the rows of coefficients are for."""
        return [None]

    def _check_fitted(self) -> None:
        if not hasattr(self, "target_"):
            raise UsageError("Nothing is learned yet: call fit(…) first.")

    def _table(self, frame: Any) -> pa.Table:
        """A frame to predict for, as an Arrow table."""
        self._check_fitted()
        if as_release(frame) is not None:
            raise UsageError("A learner predicts for a frame with true values, not for a release.")
        return as_table(frame)

    def _truth(self, frame: Any) -> pa.ChunkedArray:
        """The true target of a test frame."""
        table = self._table(frame)
        if self.target_ not in table.column_names:
            raise UsageError(
                f"The frame has no column {self.target_!r} to hold predictions against."
            )
        return table.column(self.target_)
