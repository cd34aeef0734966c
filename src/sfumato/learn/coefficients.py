"""Coefficients of a fitted model, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sfumato.errors import UsageError

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

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def listed_coefficients(model: Any, classes: Sequence[Any], confidence: float) -> list[Coefficient]:
    """The constant and all slopes, class by class."""
    check_is_fitted(model)
    if not 0 < confidence < 1:
        raise UsageError(f"confidence lies between 0 and 1. Got {confidence!r}.")
    quantile = NormalDist().inv_cdf((1 + confidence) / 2)
    slopes = np.atleast_2d(model.coef_)
    values = np.column_stack([np.atleast_1d(model.intercept_), slopes])
    errors = None
    if hasattr(model, "coef_stderr_"):
        stderrs = np.atleast_1d(model.intercept_stderr_), np.atleast_2d(model.coef_stderr_)
        errors = np.column_stack(stderrs)
    coefficients = []
    for row, class_ in enumerate(classes):
        for column, name in enumerate([CONSTANT, *model.coef_names_]):
            value = float(values[row, column])
            error = None if errors is None else float(errors[row, column])
            reach = None if error is None else quantile * error
            low, high = (None, None) if reach is None else (value - reach, value + reach)
            plain = class_.item() if isinstance(class_, np.generic) else class_
            coefficients.append(Coefficient(name, plain, value, error, low, high))
    return coefficients
