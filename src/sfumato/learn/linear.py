"""Linear regression by corrected moments, with standard errors.

What a record shows counts, without bias, as a number v̂ for its sensitive value (`Seen.unbiased`),
which stands in the place of a sensitive target.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.learn.base import Learner
from sfumato.learn.examples import Examples, as_numbers
from sfumato.learn.features import numbers_of
from sfumato.learn.sandwich import sandwich, scatter
from sfumato.learn.seen import Seen
from sfumato.operators.base import FloatArray

_FLAT = 1e-10  # of the largest eigenvalue of Σ x·xᵀ: directions that nothing is known of


class LinearRegression(Learner):
    """Least squares of a number, sensitive or not, on quasi columns.

    `coef_` has the slopes by unit, `coef_stderr_` their standard errors, in which people's scatter
    and the noise of publishing are included.
    """

    estimates_numbers = True

    def _learn(self, examples: Examples) -> None:
        design = examples.features.design(examples.table).toarray()
        seen = None
        self._features = examples.features
        if isinstance(examples.target, Seen):
            seen = examples.target
            numbers = seen.unbiased() @ as_numbers(seen)
        else:
            numbers = numbers_of("the target", examples.target)
            if not np.isfinite(numbers).all():
                raise UsageError("The target has missing numbers: leave these records out first.")
        normal = design.T @ design
        self._slopes = np.asarray(np.linalg.pinv(normal, _FLAT, True) @ (design.T @ numbers))
        rest = numbers - design @ self._slopes
        covariance = sandwich(
            normal, scatter(lambda piece: design[piece] * rest[piece, None], len(rest), seen)
        )
        unscale = examples.features.unscaled()
        coefficients = unscale @ self._slopes
        self.intercept_, self.coef_ = float(coefficients[0]), coefficients[1:]
        self.covariance_ = unscale @ covariance @ unscale.T
        errors = np.sqrt(np.maximum(np.diagonal(self.covariance_), 0.0))
        self.intercept_stderr_, self.coef_stderr_ = float(errors[0]), errors[1:]
        self.coef_names_ = examples.features.labels

    def predict(self, frame: Any) -> FloatArray:
        """The mean of the target given the features of every row."""
        table = self._table(frame)
        return np.asarray(self._features.design(table) @ self._slopes)

    def score(self, frame: Any) -> float:
        """R², from a frame that holds the target."""
        truth = numbers_of(self.target_, self._truth(frame))
        rest = ((truth - self.predict(frame)) ** 2).sum()
        return float(1 - rest / ((truth - truth.mean()) ** 2).sum())
