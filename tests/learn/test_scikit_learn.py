"""scikit-learn's own checks of estimators.

They fit X and y, where nothing was published. All of them apply but one, which is skipped where
scipy is not told to take arrays of other libraries.
"""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sfumato.learn import LinearRegression, LogisticRegression


@pytest.mark.filterwarnings("ignore")  # the checks warn on purpose
@parametrize_with_checks([LinearRegression(), LogisticRegression()])
def test_it_behaves_as_an_estimator(estimator: Any, check: Any) -> None:
    check(estimator)
