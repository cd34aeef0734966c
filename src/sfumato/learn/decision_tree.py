"""One tree through a release.

It is cut where unbiased counts of the classes differ most between the two sides: least squares on
what records count, which is Gini's criterion where values are seen. Its leaves have the chances
under which what is shown is likeliest. How large it may grow is chosen by the likelihood of units
that were kept back; no true value is needed for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.tree import DecisionTreeRegressor

from sfumato.draws import IntArray
from sfumato.errors import UsageError
from sfumato.learn.seen import Seen, saturated
from sfumato.learn.trees import TreeClassifier, kept_back
from sfumato.operators.base import FloatArray
from sfumato.operators.links import Evidence
from sfumato.operators.undone import telling_scores

_SIZES = (2, 4, 8, 16, 32, 64, 128)  # leaves that are tried
_HELD_OUT = 5  # every fifth unit is kept back to choose by
_SMOOTH = 1.0  # record of the overall shares in every leaf


class DecisionTree(TreeClassifier):
    """`max_leaf_nodes` None takes the size under which units kept back are likeliest."""

    def __init__(
        self,
        *,
        max_leaf_nodes: int | None = None,
        min_samples_leaf: int = 20,
        correction: str = "forward",
    ) -> None:
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.correction = correction

    def _grow(self, matrix: FloatArray, target: Seen, evidence: Evidence) -> None:
        counts = telling_scores(target.likelihood, target.prior)[target.shown]

        def grown(rows: IntArray, seen: Evidence, size: int) -> tuple[Any, FloatArray]:
            tree = self._tree(matrix[rows], counts[rows], np.ones(len(rows)), size)
            leaf = tree.apply(matrix[rows])
            return tree, saturated(leaf, tree.tree_.node_count, seen, target.prior)

        def judged(size: int) -> float:
            tree, shares = grown(kept[0], kept[1], size)
            return back[1].weigh(shares[tree.apply(matrix[back[0]])])[0]

        kept, back = kept_back(evidence, _HELD_OUT)
        size = self._size(judged, target.records)
        self.tree_, self._shares = grown(np.arange(target.records), evidence, size)

    def _grow_seen(self, matrix: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        truth = np.eye(len(self.classes_))[codes]
        mean = np.average(truth, axis=0, weights=weights)

        def grown(rows: Any, size: int) -> tuple[Any, FloatArray]:
            tree = self._tree(matrix[rows], truth[rows], weights[rows], size)
            sums = np.zeros((tree.tree_.node_count, truth.shape[1]))
            np.add.at(sums, tree.apply(matrix[rows]), truth[rows] * weights[rows, None])
            sums += _SMOOTH * mean
            return tree, sums / sums.sum(axis=1, keepdims=True)

        def judged(size: int) -> float:
            tree, shares = grown(~back, size)
            likely = shares[tree.apply(matrix[back]), codes[back]]
            return float(weights[back] @ np.log(np.maximum(likely, 1e-30)))

        back = np.arange(len(codes)) % _HELD_OUT == 0
        self.tree_, self._shares = grown(slice(None), self._size(judged, len(codes)))

    def _size(self, judged: Callable[[int], float], rows: int) -> int:
        """How many leaves the tree has at most."""
        if self.max_leaf_nodes is not None:
            if self.max_leaf_nodes < 2:
                raise UsageError(f"max_leaf_nodes is at least 2. Got {self.max_leaf_nodes!r}.")
            return self.max_leaf_nodes
        if rows < 2 * _HELD_OUT:
            return _SIZES[-1]
        return max(_SIZES, key=judged)

    def _tree(self, matrix: FloatArray, counts: FloatArray, weights: FloatArray, size: int) -> Any:
        tree = DecisionTreeRegressor(
            max_leaf_nodes=size, min_samples_leaf=self._least, random_state=0
        )
        # of two classes one tells it all
        return tree.fit(matrix, counts[:, 1:] if counts.shape[1] == 2 else counts, weights)

    def _chances(self, table: pa.Table) -> FloatArray:
        return np.asarray(self._shares[self.tree_.apply(self._matrix(table))], np.float64)
