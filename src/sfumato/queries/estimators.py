"""The estimators that a release can be asked with: what each does, and when to use it."""

from __future__ import annotations

from sfumato.queries.evaluate import source_of
from sfumato.queries.session import session_of
from sfumato.queries.sources import UNBIASED
from sfumato.release import Release

WORDS = {
    "inverse": (
        "unbiased: too high as often as too low",
        "for sums of many answers, and where every group counts by itself",
    ),
    "shrunk": (
        "drawn towards independence where the release tells little",
        "for most questions; its interval holds for every truth",
    ),
    "matches": (
        "by who can stand behind a row of ranges or sets",
        "for most questions",
    ),
}


def estimators_of(release: Release) -> list[tuple[str, str, str]]:
    """Name, what it does, and when to use it, the default first; nothing where nothing is changed.

    >>> import tempfile, pyarrow as pa
    >>> from sfumato.engines.publishing import publish
    >>> people = pa.table({"age": [30, 41, 52, 60], "ill": ["no", "yes", "no", "no"]})
    >>> made = publish(people, "rho-privacy(0.3, 0.6)", quasi="age", sensitive="ill",
    ...                to=tempfile.mkdtemp() + "/release")
    >>> from sfumato.release import Release
    >>> [name for name, *_ in estimators_of(Release(made.release))]
    ['shrunk (default)', 'inverse']
    """
    source = source_of(release, session_of(release))
    estimators = []
    for name in source.estimators:
        title = f"{name} (default)" if name == source.estimators[0] else name
        estimators.append((title, *WORDS[name]))
    return estimators


def estimated_by(name: str) -> str | None:
    """One line under an answer that is not the unbiased estimate.

    >>> estimated_by("matches")
    "Estimated by 'matches': by who can stand behind a row of ranges or sets."
    >>> estimated_by("inverse") is None, estimated_by("") is None
    (True, True)
    """
    if name in ("", UNBIASED):
        return None
    return f"Estimated by {name!r}: {WORDS[name][0]}."
