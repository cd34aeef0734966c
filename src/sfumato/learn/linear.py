"""Linear regression by corrected moments, with standard errors.

What a record shows counts, without bias, as a number v̂ for its sensitive value, and as v̂₂ for the
square (`Seen.unbiased`). A sensitive target is replaced by v̂; for a sensitive regressor the normal
equations Σ x·xᵀ·β = Σ x·t hold with its v̂, and with v̂₂ where it meets itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import RegressorMixin

from sfumato.errors import SingularOperator, UsageError
from sfumato.learn.base import Learner
from sfumato.learn.coefficients import Coefficient, listed_coefficients
from sfumato.learn.examples import Examples, as_numbers
from sfumato.learn.features import numbers_of
from sfumato.learn.hidden import Encoded
from sfumato.learn.sandwich import sandwich, scatter
from sfumato.learn.seen import Seen
from sfumato.operators.base import FloatArray

_FLAT = 1e-10  # of the largest eigenvalue of Σ x·xᵀ: directions that nothing is known of


class LinearRegression(RegressorMixin, Learner):  # type: ignore[misc]
    """Least squares; a sensitive column may be the target or one of the features.

    `coef_` has the slopes by unit, `coef_stderr_` their standard errors, in which people's scatter
    and the noise of publishing are included.
    """

    estimates_numbers = True

    def __init__(self) -> None:
        pass

    def _learn(self, examples: Examples) -> None:
        design = examples.features.design(examples.table).toarray()
        hidden, seen = examples.hidden, None
        self._features = examples.features
        self._encoded: Encoded | None = None
        if isinstance(examples.target, Seen):
            seen = examples.target
            numbers = seen.unbiased() @ as_numbers(seen)
        else:
            numbers = numbers_of(self.target_ or "y", examples.target)
            if not np.isfinite(numbers).all():
                raise UsageError(
                    f"Column {self.target_!r} has missing numbers: leave these records out first."
                )
        if hidden is None:
            normal, right = design.T @ design, design.T @ numbers
            slopes = _solved(normal, right)
            rest = numbers - design @ slopes
            covariance = sandwich(
                normal, scatter(lambda piece: design[piece] * rest[piece, None], len(rest), seen)
            )
        else:
            slopes, covariance = self._with_hidden(design, numbers, hidden)
        unscale, labels = examples.features.unscaled(), examples.features.labels
        if self._encoded is not None:
            unscale = self._encoded.unscaled(unscale)
            labels = [*labels, *self._encoded.labels]
        self._slopes = slopes
        found = unscale @ slopes
        self.intercept_, self.coef_ = float(found[0]), found[1:]
        self.covariance_ = unscale @ covariance @ unscale.T
        errors = np.sqrt(np.maximum(np.diagonal(self.covariance_), 0.0))
        self.intercept_stderr_, self.coef_stderr_ = float(errors[0]), errors[1:]
        self.coef_names_ = labels

    def _with_hidden(
        self, design: FloatArray, numbers: FloatArray, hidden: Seen
    ) -> tuple[FloatArray, FloatArray]:
        """Slopes and their covariance, where a feature is hidden."""
        self._encoded = encoded = Encoded(hidden)
        weights, matrix = hidden.unbiased(), encoded.matrix
        shown = weights @ matrix
        cross = design.T @ shown
        squares = (matrix * weights.sum(axis=0)[:, None]).T @ matrix
        normal = np.block([[design.T @ design, cross], [cross.T, squares]])
        slopes = _solved(normal, np.concatenate([design.T @ numbers, shown.T @ numbers]))
        own, other = np.split(slopes, [design.shape[1]])
        foreseen = design @ own
        beyond = matrix * (matrix @ other)[:, None]

        def scores(piece: slice) -> FloatArray:
            rest = (numbers - foreseen)[piece, None]
            return np.hstack(
                [
                    design[piece] * (rest - (shown[piece] @ other)[:, None]),
                    shown[piece] * rest - weights[piece] @ beyond,
                ]
            )

        return slopes, sandwich(normal, scatter(scores, len(numbers), hidden))

    def predict(self, X: Any) -> FloatArray:
        """The mean of the target given the features of every row."""
        return self._foreseen(self._table(X))

    def _foreseen(self, table: pa.Table) -> FloatArray:
        design = self._features.design(table)
        found = design @ self._slopes[: design.shape[1]]
        if self._encoded is not None:
            found = found + self._encoded.rows(table) @ self._slopes[design.shape[1] :]
        return np.asarray(found)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R²; a frame may hold the target itself."""
        truth = self._truth(X, y)
        if isinstance(truth, pa.ChunkedArray):
            truth = numbers_of(str(self.target_), truth)
        return float(super().score(X, truth, sample_weight))

    def coefficients(self, confidence: float = 0.95) -> list[Coefficient]:
        """Every coefficient with its standard error and interval."""
        return listed_coefficients(self, [None], confidence)


def _solved(normal: FloatArray, right: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(normal)
    if values[0] < -_FLAT * values[-1]:
        raise SingularOperator(
            "So much noise was added to the sensitive feature that its corrected variance is not "
            "above 0, so no slope can be estimated: learn from more records, or leave it out."
        )
    kept = values > _FLAT * values[-1]
    return np.asarray((vectors[:, kept] / values[kept]) @ (vectors[:, kept].T @ right))
