"""Audits: does a release keep its guarantee, and is it what it says?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sfumato.audits import (  # noqa: F401
    blocks,
    bucketed,
    catalogue,
    draws,
    facts,
    generalized,
    people,
    perturbed,
    sampled,
)
from sfumato.audits.case import CHECKS, AuditCase, Look, concerns, raw_table
from sfumato.audits.catalogue import AuditCheck, Disclosure
from sfumato.audits.findings import CheckResult, Finding, Verdict
from sfumato.audits.perturbed import check_decoys
from sfumato.audits.replay import check_replay, declared_again
from sfumato.audits.spelling import check_promise_of_older, check_spelling
from sfumato.engines.counting import Progress, no_progress
from sfumato.engines.exposure import exposure_of
from sfumato.engines.receipts import Receipt
from sfumato.release import Release
from sfumato.table import Table, reading_errors

# 88 publications were enough to show three chosen people truly
TRIED = "that the publisher tried keys until one pleased, no audit excludes."
KEYED = f"A keyed choice by the publisher would be noticed with the receipt alone; {TRIED}"


def audit(
    table: Any,
    release: Release | str | Path,
    *,
    key: str | None = None,
    receipt: str | Path | None = None,
    progress: Progress = no_progress,
) -> Verdict:
    """Check a release in three layers: one spelling, the promise in exact numbers, the draws.

    `table` is a `Table` or anything that `sfumato.read` takes; the roles come from the manifest.
    None looks at the spelling alone. With `receipt`, what `publish` kept to repeat the draws, every
    record is drawn again and compared. Where the `key` repeats, it is told what a person's records
    may say together.

    >>> import tempfile, pyarrow as pa
    >>> from sfumato.engines.publishing import publish
    >>> people = pa.table({"age": [30, 41, 52, 60], "ill": ["no", "yes", "no", "no"]})
    >>> made = publish(people, "rho-privacy(0.3, 0.6)", quasi="age", sensitive="ill",
    ...                mechanism="uniform", to=tempfile.mkdtemp() + "/release")
    >>> audit(people, made.release).holds
    True
    """
    opened = release if isinstance(release, Release) else Release(release)
    progress("auditing", 0, 1)
    findings = [*check_promise_of_older(opened), *check_spelling(opened)]
    if table is None:
        findings += _unjudged(opened, findings, "no table was given")
        return Verdict(tuple(findings), _tested(opened, "spelling alone"), exposure_of(opened))
    key = table.key if key is None and isinstance(table, Table) else key
    again = None if receipt is None else Receipt.read(receipt)
    declared = raw_table(table, opened) if again is None else declared_again(table, again)
    sure = again is not None or declared is table
    case = AuditCase(declared, opened, declared=sure, key=key)
    with closing(case), reading_errors():
        if again is not None:
            findings += check_replay(case, again)
        looks = _looks(case)
        for done, look in enumerate(looks):
            progress("auditing", done, len(looks))
            findings += look(case)
    findings += _unjudged(opened, findings, _why_not(case))
    whom = f"{case.profile.rows:,} people"
    if opened.manifest.person is not None:
        whom = f"the people of {case.profile.rows:,} rows"
    whom += ", every record drawn again from the receipt" if again else ""
    tested = _tested(opened, whom)
    unseen = f"T{TRIED[1:]}" if again else _unseen(findings)
    return Verdict(tuple(findings), tested, exposure_of(opened, case.profile), unseen)


def _looks(case: AuditCase) -> list[Look]:
    """The checks that concern a release."""
    if not people.follows_chosen_rows(case):
        # only the records that were made again tell which rows of people were taken
        return CHECKS[Release] + ([check_decoys] if case.repeated else [])
    return [
        look
        for concerned, looks in CHECKS.items()
        if isinstance(case.release, concerned) or isinstance(case.guarantee, concerned)
        for look in looks
    ]


def _tested(release: Release, whom: str) -> str:
    """What the audit looked at, for its headline."""
    names = " and ".join(column.name for column in release.sensitive)
    about = "for " if whom[0].isdigit() or whom.startswith("the") else ""
    return f"{release.manifest.guarantee} of {names} {about}{whom}"


def _unseen(findings: list[Finding]) -> str:
    """How much could have been tampered with that no statistics find."""
    (power,) = [f.value for f in findings if f.check is catalogue.POWER] or [None]
    if power is None:
        return KEYED
    if isinstance(power, str):
        return f"Not even everybody shown truly would be noticed without the receipt; {TRIED}"
    return (
        f"A group of more than {power:,} people shown truly would be noticed; a keyed choice by "
        f"the publisher with the receipt alone; {TRIED}"
    )


def _why_not(case: AuditCase) -> str:
    if case.rows_of_people_withheld:
        return "rows of people were drawn, and only the receipt tells which: audit with --receipt"
    forms = sorted({operator.form for operator in case.release.operators.values()})
    what = f" with the operator {' and '.join(forms)}" if forms else ""
    return f"no audit knows how to hold a {case.release.kind} release{what} to this promise"


def _unjudged(release: Release, findings: list[Finding], why: str) -> Iterator[Finding]:
    """An audit never passes in silence: it says of which columns nothing judged the promise."""
    judged = {finding.column for finding in findings if finding.check.judges}
    for column in release.sensitive:
        if not {column.name, None} & judged:
            yield Finding.skipped(
                catalogue.PROMISE, column=column.name, value=release.manifest.guarantee, witness=why
            )


__all__ = [
    "CHECKS",
    "AuditCase",
    "AuditCheck",
    "CheckResult",
    "Disclosure",
    "Finding",
    "Verdict",
    "audit",
    "concerns",
]  # fmt: skip
