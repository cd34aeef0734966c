"""Models fitted through a release, in scikit-learn's manner.

    from sfumato.learn import LogisticRegression
    model = LogisticRegression().fit("release/", target="income")
    model.score(test)

Every learner reads the release alone and corrects for what publishing did: `correction="forward"`
fits the likelihood of what is shown, `"backward"` counts every record so that the mean is right.
"""

from __future__ import annotations

from sfumato.errors import UsageError

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError:
    raise UsageError(
        "Learning needs scikit-learn. Install it with: pip install 'sfumato[learn]'."
    ) from None

from sfumato.learn.boosting import Boosting
from sfumato.learn.decision_tree import DecisionTree
from sfumato.learn.linear import LinearRegression
from sfumato.learn.logistic import LogisticRegression
from sfumato.learn.naive_bayes import NaiveBayes

__all__ = ["Boosting", "DecisionTree", "LinearRegression", "LogisticRegression", "NaiveBayes"]
