"""What learners have in common: scikit-learn's manners, and a release in the place of X and y."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sfumato.columns import list_some
from sfumato.errors import UsageError, WeakPromiseWarning
from sfumato.learn.examples import Examples, as_release, as_table, from_frame, from_release
from sfumato.learn.seen import Seen
from sfumato.operators.base import FloatArray

_TARGET = "y"


class Learner(BaseEstimator):  # type: ignore[misc]
    """Learns from a release, a frame, or X and y."""

    estimates_numbers = False
    target_: str | None
    feature_names_in_: npt.NDArray[Any]

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        target: str | None = None,
        features: Sequence[str] | None = None,
    ) -> Self:
        """Learn to predict `target` from `features`, all other columns by default.

        `X` is a release or its folder; a frame that holds the target, for comparison; or, with `y`,
        an array or a frame of features, as scikit-learn has it.
        """
        self._learn(self._examples(X, y, target, features))
        return self

    def _examples(
        self, given: Any, y: Any, target: str | None, features: Sequence[str] | None
    ) -> Examples:
        release = as_release(given)
        if release is not None or (target is not None and y is None):
            if y is not None:
                raise UsageError("A release holds its target: name it by target=… and leave y out.")
            if release is not None:
                examples = from_release(release, target, features, numbers=self.estimates_numbers)
                if getattr(self, "correction", None) == "forward":
                    _warn_of_blocks(examples, target)
            else:
                table = as_table(given)
                examples = from_frame(table, target, features, numbers=self.estimates_numbers)
            self.target_ = target
            self.feature_names_in_ = np.array(examples.features.names, object)
            self.n_features_in_ = len(examples.features.names)
            return examples
        if target is not None or features is not None:
            raise UsageError("Say target=… and features=… with a release, or y with X: not both.")
        return self._plain(given, y)

    def _plain(self, X: Any, y: Any) -> Examples:
        """scikit-learn's X and y, with all its checks."""
        numeric = self.estimates_numbers
        if hasattr(X, "__arrow_c_stream__") or isinstance(X, pa.Table):
            validate_data(self, X, y, skip_check_array=True)
            table = as_table(X)
            y = np.asarray(y)
        else:
            X, y = validate_data(self, X, y, y_numeric=numeric, dtype=np.float64)
            table = as_table(X)
        if not numeric:
            check_classification_targets(y)
        self.target_ = None
        name = _TARGET
        while name in table.column_names:
            name += "_"
        return from_frame(table.append_column(name, pa.array(y)), name, None, numbers=numeric)

    @abstractmethod
    def _learn(self, examples: Examples) -> None:
        """Fit what `predict` needs."""

    def _table(self, X: Any) -> pa.Table:
        """A frame to predict for, as an Arrow table with the learner's columns."""
        check_is_fitted(self)
        if self.target_ is not None and not isinstance(X, np.ndarray):
            if as_release(X) is not None:
                raise UsageError(
                    "A learner predicts for a frame with true values, not for a release."
                )
            return as_table(X)
        if hasattr(X, "__arrow_c_stream__") or isinstance(X, pa.Table):
            validate_data(self, X, reset=False, skip_check_array=True)
            return as_table(X)
        table = as_table(validate_data(self, X, reset=False, dtype=np.float64))
        names = getattr(self, "feature_names_in_", None)
        return table if names is None else table.rename_columns([str(name) for name in names])

    def _truth(self, X: Any, y: Any) -> Any:
        """The true target of a test frame."""
        if y is not None:
            return y
        if getattr(self, "target_", None) is None:
            raise UsageError("score needs y, the true values.")
        table = as_table(X)
        if self.target_ not in table.column_names:
            raise UsageError(
                f"The frame has no column {self.target_!r} to hold predictions against."
            )
        return table.column(self.target_)


class Classifier(ClassifierMixin, Learner):  # type: ignore[misc]
    """Predicts a class, with the chance of each."""

    classes_: npt.NDArray[Any]

    def _learn(self, examples: Examples) -> None:
        target = examples.target
        assert isinstance(target, Seen)
        self.classes_ = as_labels(target.values)
        self._learn_chances(examples, target)

    @abstractmethod
    def _learn_chances(self, examples: Examples, target: Seen) -> None:
        """Fit what `_chances` needs."""

    @abstractmethod
    def _chances(self, table: pa.Table) -> FloatArray:
        """The chance of every class, (records, classes)."""

    def predict_proba(self, X: Any) -> FloatArray:
        """The chance of every class in `classes_`, row by row."""
        return self._chances(self._table(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The likeliest class of every row."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of rows whose class is predicted right; a frame may hold the target itself."""
        truth = self._truth(X, y)
        if isinstance(truth, pa.ChunkedArray):
            truth = as_labels(truth.to_pylist())
            right = truth == self.predict(X)
            return float(np.average(right, weights=sample_weight))
        return float(super().score(X, truth, sample_weight))


def _warn_of_blocks(examples: Examples, target: str | None) -> None:
    """Inside a block that another column cut, a value goes otherwise with the features."""
    used = {target, *examples.features.names}
    cut_by = examples.target.cut_by if isinstance(examples.target, Seen) else ()
    beyond = [name for name in cut_by if name not in used]
    if beyond:
        warnings.warn(
            f"People were mixed inside blocks that are cut by {list_some(beyond)} too, which is no "
            "feature here: what is learned is off by what it tells beside the features. Add it to "
            "the features, or use correction='backward'.",
            WeakPromiseWarning,
            stacklevel=4,
        )


def as_labels(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Labels as numpy has them: of one type, or objects where something is missing."""
    if any(value is None for value in values):
        return np.array(list(values), object)
    return np.asarray(values)
