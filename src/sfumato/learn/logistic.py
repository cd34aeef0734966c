"""Logistic regression through a release, with standard errors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sfumato.errors import UsageError
from sfumato.learn.base import Classifier
from sfumato.learn.coefficients import Coefficient, listed_coefficients
from sfumato.learn.examples import Examples
from sfumato.learn.features import Features
from sfumato.learn.sandwich import (
    curvature,
    sandwich,
    scatter,
    softmax_curvature,
    softmax_scores,
)
from sfumato.learn.seen import Seen, check_correction
from sfumato.operators.base import FloatArray
from sfumato.operators.links import SoftmaxFit

_STILL = 1e-11  # the relative gain in likelihood at which the search stops
_STEPS = 500  # of the search, at most


class LogisticRegression(Classifier):
    """Log odds that are linear in the features.

    Numbers have one slope each, categories one for every value but the most frequent. `C` is the
    inverse of a ridge on slopes of standardized features; `correction` "forward" fits the
    likelihood of what the release shows, "backward" an unbiased estimate of the true one.

    `coef_` has, for every class but the first, the slopes of its log odds against the first;
    `coef_stderr_` their standard errors, in which people's scatter and the noise of publishing are
    included. They cost a fit more; `standard_errors=False` leaves them out.
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        correction: str = "forward",
        standard_errors: bool = True,
    ) -> None:
        self.C = C
        self.correction = correction
        self.standard_errors = standard_errors

    def _learn_chances(self, examples: Examples, target: Seen) -> None:
        correction = check_correction(self.correction)
        if not self.C > 0:
            raise UsageError(f"C must be above 0. Got {self.C!r}.")
        self._features = examples.features
        design = examples.features.design(examples.table)
        ridge = np.full((design.shape[1], 1), 1 / self.C)
        ridge[0] = 0.0  # the constant is free
        self._start = np.log(np.maximum(target.prior, 1e-12))
        fit = SoftmaxFit(design, target.through(correction))
        none = np.zeros((design.shape[1], len(target.values)))
        self._slopes = fit.climb(self._start, none, ridge, _STILL, steps=_STEPS)
        covariance = None
        if self.standard_errors and len(target.values) > 1:
            covariance = self._covariance(fit, target, ridge)
        self._tell(examples.features, self._slopes, self._start, covariance)

    def _covariance(self, fit: SoftmaxFit, target: Seen, ridge: FloatArray) -> FloatArray:
        """Of the slopes against the first class, feature by feature."""
        shape = self._slopes.shape
        slopes = self._slopes

        def residuals(table: FloatArray) -> FloatArray:
            chances = fit.chances(self._start, table)
            return np.asarray((fit.evidence.weigh(chances)[1] - chances)[:, 1:])

        if target.listed is None or not fit.evidence.is_latent:
            chances = fit.chances(self._start, slopes)
            weights = fit.evidence.weigh(chances)[1]
            bread = softmax_curvature(fit.design, chances, weights, latent=fit.evidence.is_latent)
        else:

            def score(flat: FloatArray) -> FloatArray:
                table = np.zeros(shape)
                table[:, 1:] = flat.reshape(shape[0], -1)
                return np.asarray((fit.design.T @ residuals(table)).ravel())

            bread = curvature(score, (slopes - slopes[:, :1])[:, 1:].ravel())
        rest = residuals(slopes)

        def scores(piece: slice) -> FloatArray:
            rows = fit.design[piece].toarray()
            return np.asarray((rows[:, :, None] * rest[piece, None, :]).reshape(len(rows), -1))

        classes = shape[1] - 1
        shrink = np.eye(classes) - 1 / (classes + 1)
        bread = bread + np.kron(np.diagflat(ridge), shrink)
        followed = None
        if target.listed is not None and fit.evidence.is_latent:
            chances = fit.chances(self._start, slopes)
            followed = softmax_scores(fit.design, chances, target.blocks[target.unit])
        return sandwich(bread, scatter(scores, target.records, target, followed))

    def _tell(
        self,
        features: Features,
        slopes: FloatArray,
        start: FloatArray,
        covariance: FloatArray | None,
    ) -> None:
        """Slopes by unit, against the first class."""
        against = (slopes - slopes[:, :1])[:, 1:]
        against[0] += start[1:] - start[0]
        unscale = features.unscaled()
        coefficients = unscale @ against
        self.intercept_, self.coef_ = coefficients[0], coefficients[1:].T
        self.coef_names_ = features.labels
        if covariance is None:
            return
        classes = against.shape[1]
        whole = np.kron(unscale, np.eye(classes))
        self.covariance_ = whole @ covariance @ whole.T
        errors = np.sqrt(np.maximum(np.diagonal(self.covariance_), 0.0)).reshape(-1, classes)
        self.intercept_stderr_, self.coef_stderr_ = errors[0], errors[1:].T

    def coefficients(self, confidence: float = 0.95) -> list[Coefficient]:
        """Every coefficient with its standard error and interval."""
        return listed_coefficients(self, list(self.classes_[1:]), confidence)

    def _chances(self, table: pa.Table) -> FloatArray:
        scores = self._features.design(table) @ self._slopes + self._start
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))
