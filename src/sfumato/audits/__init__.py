"""Audits: does a release keep its guarantee, and is it what it says?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sfumato.audits import catalogue
from sfumato.audits.agreement import check_agreement
from sfumato.audits.bucketed import check_buckets
from sfumato.audits.case import AuditCase, raw_table
from sfumato.audits.catalogue import Check, Disclosure
from sfumato.audits.common import (
    check_domains,
    check_facts,
    check_mechanism,
    check_quasi_columns,
    check_randomness,
    check_rows,
)
from sfumato.audits.dealing import check_dealing
from sfumato.audits.findings import Finding, Result, Verdict
from sfumato.audits.generalized import check_generalized
from sfumato.audits.intersection import check_intersection
from sfumato.audits.links import check_links
from sfumato.audits.parts import check_parts
from sfumato.audits.people import check_people, follows_chosen_rows
from sfumato.audits.perturbed import check_amplification, check_fit
from sfumato.audits.previous import Before, check_previous
from sfumato.audits.reconstruction import check_reconstruction, check_sampled_draws
from sfumato.audits.repeated import check_repeated
from sfumato.audits.replay import check_replay, declared_again
from sfumato.audits.small_sum import (
    check_group_size,
    check_own_share,
    check_personal_sums,
    check_published_counts,
    check_traced_groups,
)
from sfumato.audits.spelling import check_spelling
from sfumato.audits.together import check_together
from sfumato.engines.counting import Progress, no_progress
from sfumato.engines.exposure import exposure_of
from sfumato.engines.receipts import Receipt
from sfumato.errors import UsageError
from sfumato.guarantees import Guarantee, ReconstructionPrivacy, SmallSum
from sfumato.release import (
    BucketedRelease,
    GeneralizedRelease,
    PerturbedRelease,
    Release,
)
from sfumato.table import Table, reading_errors

Look = Callable[[AuditCase], Iterator[Finding]]

# by the class of the release, those of every kind first, and of the guarantee, which may bring its
# own; a check that does not concern a release finds nothing
CHECKS: dict[type[Release] | type[Guarantee], list[Look]] = {
    Release: [
        *(check_randomness, check_mechanism, check_rows, check_people, check_domains, check_facts)
    ],
    PerturbedRelease: [check_quasi_columns, check_amplification, check_together, check_parts],
    GeneralizedRelease: [check_generalized],
    BucketedRelease: [check_quasi_columns, check_buckets, check_links],
    SmallSum: [check_group_size, check_traced_groups, check_personal_sums],
    ReconstructionPrivacy: [check_reconstruction],
}
# what only draws can show: where the receipt repeats them, nothing is left to guess
DRAWS: dict[type[Release] | type[Guarantee], list[Look]] = {
    PerturbedRelease: [check_fit, check_agreement],
    BucketedRelease: [check_dealing],
    SmallSum: [check_published_counts, check_own_share],
    ReconstructionPrivacy: [check_sampled_draws],
}
KEYED = "A keyed choice by the publisher would not be noticed: ask for the receipt"


def audit(
    table: Any,
    release: Release | str | Path,
    *,
    previous: Release | str | Path | None = None,
    previous_table: Any = None,
    key: str | None = None,
    receipt: str | Path | None = None,
    other: Release | str | Path | None = None,
    progress: Progress = no_progress,
) -> Verdict:
    """Check a release in three layers: one spelling, the promise in exact numbers, the draws.

    `table` is a `Table` or anything that `sfumato.read` takes; the roles come from the manifest.
    None looks at the spelling alone. With `previous`, an earlier release of the same people,
    whoever stayed must be shown as before; `previous_table` and the column `key` tell whose value
    changed meanwhile. With `receipt`, what `publish` kept to repeat the draws, every record is
    drawn again and compared. Where the `key` repeats, it is told what a person's records say
    together. With `other`, a further bucketed release of the same people, what both tell together
    is held to the promise.

    >>> import tempfile, pyarrow as pa
    >>> from sfumato.engines.publishing import publish
    >>> people = pa.table({"age": [30, 41, 52, 60], "ill": ["no", "yes", "no", "no"]})
    >>> made = publish(people, "rho-privacy(0.3, 0.6)", quasi="age", sensitive="ill",
    ...                mechanism="uniform", to=tempfile.mkdtemp() + "/release")
    >>> audit(people, made.release).holds
    True
    """
    opened = release if isinstance(release, Release) else Release(release)
    if previous is None and previous_table is not None:
        raise UsageError("A table behind the previous release was given, but not that release.")
    progress("auditing", 0, 1)
    found = list(check_spelling(opened))
    if table is None:
        found += _unjudged(opened, found, "no table was given")
        return Verdict(tuple(found), _tested(opened), exposure_of(opened))
    named = table.key if key is None and isinstance(table, Table) else key
    before = None if previous is None else Before.of(previous, previous_table, named)
    again = None if receipt is None else Receipt.read(receipt)
    own = raw_table(table, opened) if again is None else declared_again(table, again)
    declared, then = again is not None or own is table, before.release if before else None
    case = AuditCase(own, opened, declared=declared, previous=then)
    with reading_errors(case.table.source):
        if again is not None:
            found += check_replay(case, again)
        looks = _looks(case, made_again=again is not None)
        for done, look in enumerate(looks):
            progress("auditing", done, len(looks))
            found += look(case)
        found += check_repeated(case, named)
        if other is not None:
            further = other if isinstance(other, Release) else Release(other)
            found += check_intersection(case, further)
    found += _unjudged(opened, found, _why_not(case))
    if before is not None:
        found += check_previous(case, before)
    return Verdict(
        tuple(found),
        _tested(opened, case, again is not None) + (", after the release before" if before else ""),
        exposure_of(opened, case.profile),
        "" if again is not None else f"{KEYED}.",
    )


def _looks(case: AuditCase, *, made_again: bool) -> list[Look]:
    """The checks that concern a release."""
    if not follows_chosen_rows(case):
        # only the records that were made again tell which rows of people were taken
        return CHECKS[Release] + ([check_traced_groups] if made_again else [])
    return [
        look
        for checks in ((CHECKS,) if made_again else (CHECKS, DRAWS))
        for concerned, listed in checks.items()
        if isinstance(case.release, concerned) or isinstance(case.guarantee, concerned)
        for look in listed
    ]


def _tested(release: Release, case: AuditCase | None = None, made_again: bool = False) -> str:
    """What the audit looked at, for its headline."""
    manifest = release.manifest
    names = " and ".join(column.name for column in release.sensitive)
    if case is None:
        return f"{manifest.guarantee} of {names}, {manifest.rows:,} records, spelling alone"
    whom = f"{case.profile.rows:,} people"
    if manifest.person is not None:
        whom = f"the people of {case.profile.rows:,} rows"
    drawn = ", every record drawn again from the receipt" if made_again else ""
    return f"{manifest.guarantee} of {names} for {whom}{drawn}"


def _why_not(case: AuditCase) -> str:
    if not follows_chosen_rows(case):
        return "rows of people were drawn, and only the receipt tells which: audit with --receipt"
    forms = sorted({operator.form for operator in case.release.operators.values()})
    what = f" with the operator {' and '.join(forms)}" if forms else ""
    return f"no audit knows how to hold a {case.release.kind} release{what} to this promise"


def _unjudged(release: Release, found: list[Finding], why: str) -> Iterator[Finding]:
    """An audit never passes in silence: it says of which columns nothing judged the promise."""
    judged = {finding.column for finding in found if finding.check.judges}
    for column in release.sensitive:
        if not {column.name, None} & judged:
            yield Finding.skipped(
                catalogue.PROMISE,
                column=column.name,
                value=release.manifest.guarantee,
                witness=why,
            )


__all__ = ["CHECKS", "AuditCase", "Check", "Disclosure", "Finding", "Result", "Verdict", "audit"]
