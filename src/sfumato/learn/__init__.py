"""Regressions fitted through a release.

    from sfumato.learn import LogisticRegression
    model = LogisticRegression().fit("release/", target="income")
    model.score(test)

They read the release alone and correct for what publishing did. Every other learner trains on
completed tables: `release.complete` and `sf.combine`.
"""

from sfumato.learn.linear import LinearRegression
from sfumato.learn.logistic import LogisticRegression

__all__ = ["LinearRegression", "LogisticRegression"]
