"""Questions to a release: SQL in, estimates with error bars out.

`ask` reads the SQL once, into a `Question` that knows nothing of kinds; one evaluator answers it:
the engine sums the records, numpy estimates. Nothing in here can see a raw table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.errors import UsageError
from sfumato.queries.answer import Answer
from sfumato.queries.opened import OpenedRelease, open_release

if TYPE_CHECKING:
    from sfumato.queries.dialect import Node
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
    min_count: int | None = None,
) -> Answer:
    """Answer `sql` from a release alone.

    `confidence` is that of the intervals; `keys` shows the empty groups as well; `estimator` None
    is the kind's default.
    """
    from sfumato.queries.exact import answered_exactly, with_known_parts
    from sfumato.queries.parse import deep_refused, read

    request = request_for(
        confidence=confidence,
        keys=keys,
        estimator=estimator,
        threads=threads,
    )
    with deep_refused():
        tree = read(sql)
        found = answered_exactly(release, tree, request)
        if found is None:
            found = _estimated(release, with_known_parts(release, tree, request), request)
        return found if min_count is None else found.hiding(min_count)


def _estimated(release: Release, tree: Node, request: Request) -> Answer:
    from sfumato.queries.evaluate import answer
    from sfumato.queries.parse import question_of
    from sfumato.queries.spelling import check_spelling

    question = question_of(tree, release.columns, release.merges)
    check_spelling(question, release.columns)
    return answer(release, question, request)


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
