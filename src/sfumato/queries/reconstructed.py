"""The estimator `em`: answers from the likeliest table of counts (thesis, Section 3.3).

For each group of the quasi keys the joint histogram of the sensitive columns is estimated whole;
conditions and keys on sensitive columns then read that table. The standard error stays that of the
unbiased estimate.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import NoReturn

import numpy as np

from sfumato.errors import QueryError, WeakPromiseWarning
from sfumato.operators import Parts
from sfumato.operators.base import FloatArray
from sfumato.operators.estimator import Moments
from sfumato.operators.reconstruct import most_likely
from sfumato.queries.aggregates import COUNT, COUNT_PEOPLE
from sfumato.queries.question import Question
from sfumato.queries.sources import PerturbedSource

EM = "em"
MOST_ITERATED = 2_000_000


def likeliest_counts(
    source: PerturbedSource, columns: Sequence[str], moments: Moments
) -> dict[Hashable, FloatArray]:
    """By weight: counts by (class, value …), one constrained maximum likelihood for each class."""
    operators = [source.operator(column) for column in columns]
    sizes = [each.values for each in operators]
    cells = moments.classes * int(np.prod(sizes))
    if cells > MOST_ITERATED:
        raise QueryError(
            f"The estimator 'em' would iterate over {cells:,} cells; at most {MOST_ITERATED:,} are "
            "tried. Group by fewer columns, or use 'inverse'."
        )
    counts: dict[Hashable, FloatArray] = {}
    for weight in [pair[0] for pair in moments.sums if len(pair) == 1]:
        found = most_likely(moments.table(weight, sizes), operators)
        if not found.converged:
            warnings.warn(
                f"The estimator 'em' stopped after {found.cycles:,} cycles, up to "
                f"{float(found.gap.max()):.2g} below the maximal log-likelihood.",
                WeakPromiseWarning,
                stacklevel=2,
            )
        counts[weight] = found.counts
        for axis, operator in enumerate(operators, start=1):
            if isinstance(operator, Parts):
                belongs = operator.symbol_codes[:, None] == np.arange(operator.domain)
                by_symbol = np.moveaxis(counts[weight], axis, -1)
                counts[weight] = np.moveaxis(by_symbol @ belongs, -1, axis)
    return counts


def check_counts(question: Question) -> None:
    """What a table of counts can answer: COUNT(*), of groups that quasi conditions choose."""
    for aggregate in question.aggregates:
        first, *others = aggregate.calls()
        if (
            first.text != aggregate.text
            or first.rule not in (COUNT, COUNT_PEOPLE)
            or first.arguments
            or others
        ):
            _refuse(f"{aggregate.text}: 'em' reconstructs counts", "Ask for COUNT(*)")
        for term in first.filter:
            if term.quasi or not term.sensitive:
                _refuse(
                    f"the FILTER {term.text}: it has to use sensitive columns alone",
                    "Move it into WHERE",
                )
    for term in (*question.where, *question.keys):
        if term.is_mixed:
            _refuse(
                f"{term.text}: it mixes quasi-identifiers and sensitive columns",
                "Join conditions on either by AND, and group by columns of either",
            )


def _refuse(what: str, instead: str) -> NoReturn:
    raise QueryError(
        f"The estimator 'em' cannot answer {what}. {instead}, or leave the estimator out."
    )
