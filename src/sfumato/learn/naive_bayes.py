"""Naive Bayes on corrected counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.errors import UsageError
from sfumato.learn.base import Classifier
from sfumato.learn.examples import Examples
from sfumato.learn.hidden import hidden_codes
from sfumato.learn.seen import Seen, check_correction
from sfumato.operators.base import FloatArray
from sfumato.operators.links import links_of_counts


class NaiveBayes(Classifier):
    """Classes from counts by (feature value, class), one feature at a time.

    `correction` "forward" takes the likeliest counts, given what the release shows; "backward" the
    unbiased ones, none below 0. `alpha` is added to every count. Numbers are cut into 20 ranges.
    """

    def __init__(self, *, alpha: float = 1.0, correction: str = "forward") -> None:
        self.alpha = alpha
        self.correction = correction

    def _learn_chances(self, examples: Examples, target: Seen) -> None:
        correction = check_correction(self.correction)
        if self.alpha <= 0:
            raise UsageError(f"alpha must be above 0. Got {self.alpha!r}.")
        features, hidden = examples.features, examples.hidden
        tables = [
            target.counted(codes, size, correction)
            for codes, size in zip(features.codes(examples.table), features.sizes, strict=True)
        ]
        self._features, self._hidden = features, None
        if hidden is not None:
            known = hidden.counted(target.codes, len(target.values), correction)
            # a value that nobody has stands for one that the release does not know
            tables.append(np.vstack([known.T, np.zeros(len(target.values))]))
            self._hidden = (hidden.name, hidden.values)
        counts: Any = target.prior * target.records
        self._links = links_of_counts(counts, tables, self.alpha)  # type: ignore[arg-type]

    def _chances(self, table: pa.Table) -> FloatArray:
        codes = self._features.codes(table)
        if self._hidden is not None:
            codes.append(hidden_codes(table, *self._hidden))
        if not codes:
            raise UsageError("There is no feature to predict from.")
        return np.asarray(np.exp(self._links.log_chances(codes)))
