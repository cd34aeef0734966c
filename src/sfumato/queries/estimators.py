"""The estimators that a release can be asked with: what each does, and when to use it."""

from __future__ import annotations

from sfumato.queries.evaluate import source_of
from sfumato.queries.session import session_of
from sfumato.release import Release

UNBIASED = "inverse"
WORDS = {
    "inverse": (
        "unbiased: too high as often as too low",
        "for sums of many answers, and where every group counts by itself",
    ),
    "shrunk": (
        "drawn towards independence where the release tells little",
        "for most questions; its interval holds for every truth",
    ),
    "uniform": (
        "the papers': everybody in a bucket, or a range, has each of its values alike",
        "to compare with the papers; drawn far towards independence",
    ),
    "matches": (
        "by who can stand behind a row of ranges or sets",
        "for most questions",
    ),
    "em": (
        "the most likely table without negative counts",
        "for tables with few values and many records; small counts are often 0",
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
    ['shrunk (default)', 'inverse', 'em']
    """
    source = source_of(release, session_of(release))
    estimators = []
    for name in source.estimators:
        title = f"{name} (default)" if name == source.estimators[0] else name
        estimators.append((title, *WORDS[name]))
    return estimators


def estimated_by(name: str) -> str | None:
    """One line under an answer that is not the unbiased estimate.

    >>> estimated_by("em")
    "Estimated by 'em': the most likely table without negative counts."
    >>> estimated_by("inverse") is None, estimated_by("") is None
    (True, True)
    """
    if name in ("", UNBIASED):
        return None
    return f"Estimated by {name!r}: {WORDS[name][0]}."
