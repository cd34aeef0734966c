"""Two rules fitted together: P(s | q) for a hidden feature, and P(t | s, q) for the target.

Slopes are against the first class and the first value. The score of a record is, by the chances w
of the hidden value given all that it shows, Σ_s w_s·x_s·(1{t} − P(t | s, q)) for the target's
slopes and q·(w − P(s | q)) for those of the hidden feature.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.learn.sandwich import Scores
from sfumato.learn.seen import Seen
from sfumato.operators.base import FloatArray
from sfumato.operators.links import Evidence

_NUISANCE = 1.0  # the ridge of the hidden feature's rule


@dataclass(frozen=True, eq=False)
class JointFit:
    """Records with a design of what is seen; `matrix` has a row for every hidden value."""

    design: Any  # sparse (records, features), a column of ones first
    target: Seen
    hidden: Seen
    matrix: FloatArray  # (hidden values, columns)
    evidence: Evidence
    C: float

    @property
    def _shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        features = self.design.shape[1]
        own = features + self.matrix.shape[1], len(self.target.values) - 1
        return own, (features, len(self.hidden.values) - 1)

    @cached_property
    def _ridge(self) -> FloatArray:
        own, other = self._shapes
        ridges = np.full(own, 1 / self.C), np.full(other, _NUISANCE)
        for ridge in ridges:
            ridge[0] = 0.0
        return np.concatenate([ridge.ravel() for ridge in ridges])

    def _tables(self, flat: FloatArray) -> tuple[FloatArray, FloatArray]:
        own, other = self._shapes
        cut = own[0] * own[1]
        return flat[:cut].reshape(own), flat[cut:].reshape(other)

    def slopes(self, flat: FloatArray) -> FloatArray:
        """The target's slopes, 0 for its first class."""
        own, _ = self._tables(flat)
        return np.hstack([np.zeros((len(own), 1)), own])

    def _read(self, flat: FloatArray) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """The log likelihood, w, w·(1{t} − P(t)) by (record, value, class), and w − P(s)."""
        own, other = self._tables(flat)
        features = self.design.shape[1]
        seen, hidden = self.design @ own[:features], self.matrix @ own[features:]
        rates = _softmax(seen[:, None, :] + hidden[None, :, :])  # (records, values, classes)
        prior = _softmax(self.design @ other)
        records = np.arange(self.target.records)
        likelihood, given = self.evidence.weigh(prior * rates[records, :, self.target.codes])
        rates = -rates
        rates[records, :, self.target.codes] += 1
        rates *= given[:, :, None]
        return likelihood, given, rates[:, :, 1:], (given - prior)[:, 1:]

    def score(self, flat: FloatArray) -> FloatArray:
        """Of all records, with the ridge."""
        _, _, rest, other = self._read(flat)
        return self._gradient(rest, other) - self._ridge * flat

    def _gradient(self, rest: FloatArray, other: FloatArray) -> FloatArray:
        own = np.vstack([self.design.T @ rest.sum(axis=1), self.matrix.T @ rest.sum(axis=0)])
        return np.concatenate([own.ravel(), (self.design.T @ other).ravel()])

    def scores(self, flat: FloatArray) -> Scores:
        """Of the records one by one."""
        _, _, rest, other = self._read(flat)

        def of(piece: slice) -> FloatArray:
            rows = self.design[piece].toarray()
            own = np.einsum("rf,rk->rfk", rows, rest[piece].sum(axis=1)).reshape(len(rows), -1)
            beyond = np.einsum("ve,rvk->rek", self.matrix, rest[piece]).reshape(len(rows), -1)
            nuisance = np.einsum("rf,rv->rfv", rows, other[piece]).reshape(len(rows), -1)
            return np.hstack([own, beyond, nuisance])

        return of

    def climb(self, still: float, steps: int) -> FloatArray:
        from scipy.optimize import minimize

        size = len(self._ridge)
        unit = 1 / np.sqrt(self._ridge + 0.05 * self.target.records)

        def loss(scaled: FloatArray) -> tuple[float, FloatArray]:
            flat = scaled * unit
            likelihood, _, rest, other = self._read(flat)
            gradient = self._ridge * flat - self._gradient(rest, other)
            return 0.5 * float((self._ridge * flat**2).sum()) - likelihood, gradient * unit

        options: dict[str, Any] = {"maxiter": steps, "maxcor": 20, "ftol": still}
        found = minimize(
            loss,
            np.zeros(size),
            jac=True,
            method="L-BFGS-B",
            options=options,  # type: ignore[call-overload]
        )
        return np.asarray(found.x * unit)


def _softmax(scores: FloatArray) -> FloatArray:
    """Chances against the first, whose score is 0, along the last axis."""
    whole = np.concatenate([np.zeros((*scores.shape[:-1], 1)), scores], axis=-1)
    whole -= whole.max(axis=-1, keepdims=True)
    np.exp(whole, out=whole)
    whole /= whole.sum(axis=-1, keepdims=True)
    return whole
