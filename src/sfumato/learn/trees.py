"""What trees have in common: features in an order, and a sensitive feature spelled out."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.draws import Draws, IntArray
from sfumato.errors import UsageError
from sfumato.learn.base import Classifier
from sfumato.learn.examples import Examples
from sfumato.learn.hidden import given_all, hidden_codes
from sfumato.learn.ranks import feature_ranks, ranked
from sfumato.learn.seen import Seen, check_correction
from sfumato.operators.base import FloatArray
from sfumato.operators.links import Evidence

_LEAST = 1e-9

Part = tuple[IntArray, Evidence]  # the records of some units, and what is seen of them


def kept_back(evidence: Evidence, every: int) -> tuple[Part, Part]:
    """Most units to learn from, and one in so many to judge by."""
    order = Draws.from_seed(0).order("units kept back by a learner", evidence.units)
    return evidence.of(np.sort(order[len(order) // every :])), evidence.of(
        np.sort(order[: len(order) // every])
    )


class TreeClassifier(Classifier):
    """A classifier of features that can be cut in two."""

    correction: str
    min_samples_leaf: int

    def _learn_chances(self, examples: Examples, target: Seen) -> None:
        correction = check_correction(self.correction)
        if self.min_samples_leaf < 1:
            raise UsageError(f"min_samples_leaf is at least 1. Got {self.min_samples_leaf!r}.")
        # a leaf holds as much as so many records with true values would tell
        told = 1.0 if target.is_true else target.information
        most = max(target.records // 10, 1)
        self._least = min(math.ceil(self.min_samples_leaf / told), most)
        self._features = examples.features
        self._hidden: tuple[str, tuple[Any, ...], FloatArray] | None = None
        if examples.hidden is not None:
            if correction == "backward":
                raise UsageError(
                    "Backward correction gives negative weights, which trees cannot use for a "
                    "sensitive feature: use correction='forward'."
                )
            self._learn_spelled(examples, target, examples.hidden)
            return
        counts = target.weights[target.shown]
        self._ranks = feature_ranks(examples.features, examples.table, counts)
        matrix = examples.features.ordered(examples.table, self._ranks)
        if target.is_true:
            self._grow_seen(matrix, target.codes, np.ones(target.records))
        else:
            self._grow(matrix, target, target.through(correction))

    def _learn_spelled(self, examples: Examples, target: Seen, hidden: Seen) -> None:
        """Every record as all values that it may have, each weighted by its chance."""
        given = given_all(examples, target)
        record, value = np.nonzero(given > _LEAST)
        weights = given[record, value]
        truth = np.eye(len(target.values))[target.codes]
        self._ranks = feature_ranks(examples.features, examples.table, truth)
        place = ranked(value, len(hidden.values) + 1, truth[record], weights)
        self._hidden = (hidden.name, hidden.values, place)
        seen = examples.features.ordered(examples.table, self._ranks)
        matrix = np.column_stack([seen[record], place[value]])
        self._grow_seen(matrix, target.codes[record], weights)

    def _matrix(self, table: pa.Table) -> FloatArray:
        matrix = self._features.ordered(table, self._ranks)
        if self._hidden is None:
            return matrix
        name, values, place = self._hidden
        return np.column_stack([matrix, place[hidden_codes(table, name, values)]])

    @abstractmethod
    def _grow(self, matrix: FloatArray, target: Seen, evidence: Evidence) -> None:
        """Learn from what is seen of the target."""

    @abstractmethod
    def _grow_seen(self, matrix: FloatArray, codes: IntArray, weights: FloatArray) -> None:
        """Learn from rows whose class is seen, with weights."""
