"""Questions to a release: SQL in, estimates with error bars out.

`ask` reads the SQL once, into a `Question` that knows nothing of kinds; one evaluator answers it:
the engine sums the records, numpy estimates. Nothing in here can see a raw table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.errors import QueryError, UsageError
from sfumato.queries.answer import Answer
from sfumato.queries.opened import OpenedRelease, open_release

if TYPE_CHECKING:
    from sfumato.queries.sources import Request
    from sfumato.release import Release


def ask(
    release: Release,
    sql: str,
    *,
    confidence: float = 0.95,
    keys: bool = False,
    estimator: str | None = None,
    threads: int | None = None,
) -> Answer:
    """Answer `sql` from a release alone.

    `confidence` is that of the intervals; `keys` shows the empty groups as well; `estimator` None
    is the kind's default.
    """
    from sfumato.queries.evaluate import answer
    from sfumato.queries.parse import parse
    from sfumato.queries.spelling import check_spelling

    request = request_for(
        confidence=confidence,
        keys=keys,
        estimator=estimator,
        threads=threads,
    )
    question = parse(sql, release.columns, release.merges)
    check_spelling(question, release.columns)
    try:
        return answer(release, question, request)
    except RecursionError:
        raise QueryError(
            "The question is nested too deeply. Use IN for long lists of values."
        ) from None


def request_for(
    *,
    confidence: float = 0.95,
    keys: bool = False,
    estimator: str | None = None,
    threads: int | None = None,
) -> Request:
    """How a question is to be answered, checked."""
    from sfumato.queries.sources import Request

    if not 0 < confidence < 1:
        raise UsageError(
            "The 'confidence' parameter must be a number between 0 and 1. "
            f"Got {confidence} instead."
        )
    if threads is not None and threads < 1:
        raise UsageError(
            f"The 'threads' parameter must be a whole number from 1 up. Got {threads} instead."
        )
    return Request(confidence, keys, estimator, threads)


open = open_release  # its public name

__all__ = ["Answer", "OpenedRelease", "ask", "open", "open_release"]
