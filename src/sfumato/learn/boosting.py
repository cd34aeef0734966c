"""Many small trees, each fitted to what those before it left over of the likelihood's gradient.

For a record this is (chance given what is seen) − (chance by the trees so far), whatever is seen of
it: a published value or the list of its bucket. Where the classes themselves are seen, this is
gradient boosting as scikit-learn has it, which then does the work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeRegressor

from sfumato.draws import IntArray
from sfumato.errors import UsageError
from sfumato.learn.seen import Seen
from sfumato.learn.trees import TreeClassifier, kept_back
from sfumato.operators.base import FloatArray
from sfumato.operators.links import Evidence, log_normal

_HELD_OUT = 10  # every tenth unit is kept back to stop by
_PATIENCE = 10  # rounds without a gain until it stops
_RIDGE = 1.0  # records' worth of doubt about the value of a leaf
_LEAST_TOLD = 0.1  # of what a true value would tell; below it steps grow no more
_FEWEST = 1000  # records below which none are kept back


class Boosting(TreeClassifier):
    """Gradient boosting through the release; units that were kept back say when to stop."""

    def __init__(
        self,
        *,
        learning_rate: float = 0.05,
        max_trees: int = 300,
        max_leaf_nodes: int = 8,
        min_samples_leaf: int = 20,
        correction: str = "forward",
    ) -> None:
        self.learning_rate = learning_rate
        self.max_trees = max_trees
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.correction = correction

    def _grow(self, matrix: FloatArray, target: Seen, evidence: Evidence) -> None:
        self._check()
        (rows, seen), (rest, unseen) = kept_back(evidence, _HELD_OUT)
        self._seen_by = None
        self._start = np.log(np.maximum(target.prior, 1e-9))
        self.trees_: list[tuple[Any, FloatArray]] = []
        scores = np.tile(self._start, (len(matrix), 1))
        inside, judge = matrix[rows], matrix[rest]
        best, many = -np.inf, 0
        for _ in range(self.max_trees):
            chances = np.exp(log_normal(scores[rows]))
            given = seen.weigh(chances)[1]
            tree, values = self._next(inside, chances, given, latent=seen.is_latent)
            self.trees_.append((tree, values))
            scores[rows] += values[tree.apply(inside)]
            if not len(rest):
                many = len(self.trees_)
                continue
            scores[rest] += values[tree.apply(judge)]
            found = unseen.weigh(np.exp(log_normal(scores[rest])))[0]
            if found > best:
                best, many = found, len(self.trees_)
            elif len(self.trees_) - many >= _PATIENCE:
                break
        del self.trees_[many:]

    def _next(
        self, matrix: FloatArray, chances: FloatArray, given: FloatArray, *, latent: bool
    ) -> tuple[Any, FloatArray]:
        """A tree for what is left over, and by node what it adds to the scores."""
        rest = given - chances
        tree = DecisionTreeRegressor(
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=self._least,
            random_state=0,
        )
        tree.fit(matrix, rest[:, 1:] if rest.shape[1] == 2 else rest)
        leaf, nodes = tree.apply(matrix), tree.tree_.node_count
        sums, curves = np.zeros((nodes, rest.shape[1])), np.zeros((nodes, rest.shape[1]))
        np.add.at(sums, leaf, rest)
        whole = chances * (1 - chances)
        np.add.at(curves, leaf, whole)
        told = 1.0
        if latent:
            # what is seen bends the likelihood less than true values would: steps may be longer
            open_ = float((given * (1 - given)).sum() / max(float(whole.sum()), 1e-12))
            told = max(1 - open_, _LEAST_TOLD)
        return tree, self.learning_rate * sums / (told * curves + _RIDGE)

    def _grow_seen(self, matrix: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        self._check()
        counts = np.bincount(codes, minlength=len(self.classes_))
        stops = len(codes) >= _FEWEST and int(counts.min()) > 1
        self._seen_by = None
        if len(self.classes_) == 1:
            self._start, self.trees_ = np.zeros(1), []
            return
        self._seen_by = HistGradientBoostingClassifier(
            learning_rate=self.learning_rate,
            max_iter=self.max_trees,
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=self._least,
            early_stopping=stops,
            validation_fraction=1 / _HELD_OUT,
            random_state=0,
        ).fit(matrix, codes, weights)

    def _check(self) -> None:
        for name, low in (("learning_rate", 0.0), ("max_trees", 0), ("max_leaf_nodes", 1)):
            if not getattr(self, name) > low:
                raise UsageError(f"{name} must be above {low}. Got {getattr(self, name)!r}.")

    def _chances(self, table: pa.Table) -> FloatArray:
        matrix = self._matrix(table)
        if self._seen_by is not None:
            return np.asarray(self._seen_by.predict_proba(matrix))
        scores = np.tile(self._start, (len(matrix), 1))
        for tree, values in self.trees_:
            scores += values[tree.apply(matrix)]
        return np.exp(log_normal(scores))
