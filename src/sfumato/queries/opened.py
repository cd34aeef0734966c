"""A release that can be asked."""

from __future__ import annotations

from pathlib import Path

from sfumato.queries.answer import Answer
from sfumato.release import Release


class OpenedRelease(Release):
    """A release folder, validated, that answers SQL."""

    def sql(
        self,
        sql: str,
        *,
        confidence: float = 0.95,
        keys: bool = False,
        consistent: bool = False,
        estimator: str | None = None,
        threads: int | None = None,
    ) -> Answer:
        """Answer `sql` from this release alone: see `sfumato.queries.ask`."""
        from sfumato.queries import ask

        return ask(
            self,
            sql,
            confidence=confidence,
            keys=keys,
            consistent=consistent,
            estimator=estimator,
            threads=threads,
        )


def open_release(path: str | Path, *, verify: bool = True) -> OpenedRelease:
    """Open a release folder; `verify=False` skips hashes and values, for a folder just checked."""
    return OpenedRelease(path, verify=verify)
