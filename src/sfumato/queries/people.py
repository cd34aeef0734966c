"""`COUNT_PEOPLE(*)`: people instead of records, where a release tells which records are a person.

With one row a person, records are people. Of several rows of a person a release never shows which
belong together: drawn one by one they stand among all others, and in buckets beside the rows of
everybody who shares the bucket.
"""

from __future__ import annotations

from sfumato.errors import QueryError
from sfumato.queries.aggregates import COUNT_PEOPLE
from sfumato.queries.question import Question
from sfumato.release import Release


def check_people(release: Release, question: Question) -> None:
    """Refuse to count people where the release does not tell them."""
    calls = [call for each in question.aggregates for call in each.calls()]
    if not any(call.rule is COUNT_PEOPLE for call in calls):
        return
    rule = release.manifest.person
    if rule is None:
        raise QueryError(
            "COUNT_PEOPLE(*) needs to know whose rows they are, and the release was published "
            "without --person. Ask for COUNT(*), which counts records."
        )
    if rule.rows > 1:
        raise QueryError(
            f"COUNT_PEOPLE(*) cannot be told: of a person up to {rule.rows} rows are published, "
            "and nothing shows which belong together. Ask for COUNT(*), which counts records, or "
            "for a release with --rows-per-person 1."
        )
