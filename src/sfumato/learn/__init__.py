"""Regressions fitted through a release, in scikit-learn's manner.

    from sfumato.learn import LogisticRegression
    model = LogisticRegression().fit("release/", target="income")
    model.score(test)

They read the release alone and correct for what publishing did. Every other learner trains on
completed tables: `release.complete` and `sf.combine`.
"""

from __future__ import annotations

from sfumato.errors import UsageError

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError:
    raise UsageError(
        "Learning needs scikit-learn. Install it with: pip install 'sfumato[learn]'."
    ) from None

from sfumato.learn.linear import LinearRegression
from sfumato.learn.logistic import LogisticRegression

__all__ = ["LinearRegression", "LogisticRegression"]
