"""Names that people ask for and that are no guarantee here: what comes nearest, and why."""

from __future__ import annotations

SIGNPOSTS: dict[str, str] = {
    "k-anonymity": (
        "it hides which of k records is a person's, but where all k have the same sensitive value "
        "it hides nothing. Nearest: 'l-diversity(5)', which also limits how sure anybody can be "
        "of the value; with --mechanism heterogeneous it publishes ranges and sets, as k-anonymous "
        "tables do. --quasi-k 5 makes the published quasi-identifiers k-anonymous besides any "
        "promise. "
        "'sfumato check' measures k of any table."
    ),
    "t-closeness": (
        "it keeps the values of every group near the table's as a distribution, which says little "
        "about one value. Nearest: 'beta-likeness(3)', which says it for every value: none becomes "
        "more than 1 + beta times as likely as in the whole table. 'sfumato check' measures t of "
        "any table."
    ),
    "differential-privacy": (
        "it would hide that somebody is in the table at all, and here quasi-identifiers are "
        "published "
        "as they are. Nearest: 'rho-privacy(0.08, 1/3)' by --mechanism uniform, which is locally "
        "differentially private for the sensitive column; the release's caveats state its epsilon "
        "(1.75 for these numbers), and it holds whatever a reader knew before."
    ),
}

_SPELLINGS = {
    "k-anonymous": "k-anonymity",
    "kanonymity": "k-anonymity",
    "k-anon": "k-anonymity",
    "tcloseness": "t-closeness",
    "dp": "differential-privacy",
    "ldp": "differential-privacy",
    "local-differential-privacy": "differential-privacy",
    "epsilon-differential-privacy": "differential-privacy",
    "epsilon": "differential-privacy",
    "eps": "differential-privacy",
}


def signpost(name: str) -> str | None:
    """The sentence for a name that is no guarantee; None where there is nothing to say.

    >>> signpost("t-closeness")[:76]
    "There is no guarantee 't-closeness': it keeps the values of every group near"
    >>> signpost("secrecy")
    """
    spelling = _SPELLINGS.get(name, name)
    return (
        f"There is no guarantee {name!r}: {SIGNPOSTS[spelling]}" if spelling in SIGNPOSTS else None
    )
