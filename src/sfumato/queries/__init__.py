"""Questions to a release: SQL in, estimates with error bars out.

`ask` reads the SQL once, into a `Question` that knows nothing of kinds; one evaluator answers it:
the engine sums the records, numpy estimates. Nothing in here can see a raw table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.queries.answer import Answer
from sfumato.queries.opened import OpenedRelease, open_release

if TYPE_CHECKING:
    from sfumato.release import Release


def ask(release: Release, sql: str, **how: Any) -> Answer:
    """Answer `sql` from a release alone; `how` it is answered says `Request`."""
    from sfumato.queries.exact import answered_exactly, with_known_parts
    from sfumato.queries.parse import deep_refused, question_of, read
    from sfumato.queries.resolved import resolved
    from sfumato.queries.sources import Request
    from sfumato.queries.spelling import check_spelling

    request = Request(**how)
    with deep_refused():
        tree = resolved(read(sql), [column.name for column in release.columns])
        table = answered_exactly(release, tree, request)
        if table is None:
            from sfumato.queries.evaluate import answer  # what only estimates need

            tree = with_known_parts(release, tree, request)
            question = question_of(tree, release.columns, release.merges)
            check_spelling(question, release.columns)
            table = answer(release, question, request)
        return table


open = open_release  # its public name

__all__ = ["Answer", "OpenedRelease", "ask", "open", "open_release"]
