"""Logistic regression through a release, with standard errors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.columns import list_some
from sfumato.errors import UsageError, WeakPromiseWarning
from sfumato.learn.base import Learner
from sfumato.learn.examples import Examples
from sfumato.learn.features import Features
from sfumato.learn.sandwich import (
    curvature,
    sandwich,
    scatter,
    softmax_curvature,
    softmax_scores,
)
from sfumato.learn.seen import Seen
from sfumato.operators.base import FloatArray
from sfumato.operators.links import SoftmaxFit

_STILL = 1e-11  # the relative gain in likelihood at which the search stops
_STEPS = 500  # of the search, at most


class LogisticRegression(Learner):
    """Log odds that are linear in the features.

    Numbers have one slope each, categories one for every value but the most frequent. `C` is the
    inverse of a ridge on slopes of standardized features. What is fitted is the likelihood of what
    the release shows (forward correction).

    `coef_` has, for every class but the first, the slopes of its log odds against the first;
    `coef_stderr_` their standard errors, in which people's scatter and the noise of publishing are
    included. They cost a fit more; `standard_errors=False` leaves them out.
    """

    classes_: npt.NDArray[Any]

    def __init__(self, *, C: float = 1.0, standard_errors: bool = True) -> None:
        self.C = C
        self.standard_errors = standard_errors

    def _learn(self, examples: Examples) -> None:
        target = examples.target
        assert isinstance(target, Seen)
        _warn_of_blocks(examples, target)
        self.classes_ = _labels(target.values)
        if not self.C > 0:
            raise UsageError(f"C must be above 0. Got {self.C!r}.")
        self._features = examples.features
        design = examples.features.design(examples.table)
        ridge = np.full((design.shape[1], 1), 1 / self.C)
        ridge[0] = 0.0  # the constant is free
        self._start = np.log(np.maximum(target.prior, 1e-12))
        fit = SoftmaxFit(design, target.evidence)
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

        if target.listed is None:
            chances = fit.chances(self._start, slopes)
            weights = fit.evidence.weigh(chances)[1]
            bread = softmax_curvature(fit.design, chances, weights)
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
        if target.listed is not None:
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

    def _classes(self) -> list[Any]:
        return [*self.classes_[1:].tolist()]

    def predict_proba(self, frame: Any) -> FloatArray:
        """The chance of every class in `classes_`, row by row."""
        table = self._table(frame)
        scores = self._features.design(table) @ self._slopes + self._start
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def predict(self, frame: Any) -> npt.NDArray[Any]:
        """The likeliest class of every row."""
        likeliest = self.predict_proba(frame).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def score(self, frame: Any) -> float:
        """The share of rows whose class, which the frame holds, is predicted right."""
        return float((_labels(self._truth(frame).to_pylist()) == self.predict(frame)).mean())


def _warn_of_blocks(examples: Examples, target: Seen) -> None:
    """Inside a block that another column cut, a value goes otherwise with the features."""
    used = {target.name, *examples.features.names}
    beyond = [name for name in target.cut_by if name not in used]
    if beyond:
        warnings.warn(
            f"People were mixed inside blocks that are cut by {list_some(beyond)} too, which is no "
            "feature here: what is learned is off by what it tells beside the features. Add it to "
            "the features.",
            WeakPromiseWarning,
            stacklevel=4,
        )


def _labels(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Labels as numpy has them: of one type, or objects where something is missing."""
    missing = any(value is None for value in values)
    return np.array(list(values), object) if missing else np.asarray(values)
