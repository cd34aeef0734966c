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
    check_mechanism,
    check_quasi_columns,
    check_randomness,
    check_rows,
)
from sfumato.audits.dealing import check_dealing
from sfumato.audits.findings import Finding, Result, Verdict
from sfumato.audits.generalized import check_generalized
from sfumato.audits.hidden import check_hidden_texts, check_odd_numbers, check_words
from sfumato.audits.intersection import check_intersection
from sfumato.audits.links import check_links
from sfumato.audits.parts import check_parts
from sfumato.audits.people import check_people, follows_chosen_rows
from sfumato.audits.perturbed import check_amplification, check_fit
from sfumato.audits.previous import Before, check_previous
from sfumato.audits.reconstruction import check_reconstruction
from sfumato.audits.repeated import check_repeated
from sfumato.audits.replay import Trace, check_replay, declared_again
from sfumato.audits.small_sum import (
    check_group_size,
    check_own_share,
    check_personal_sums,
    check_published_counts,
    check_traced_groups,
)
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
        check_randomness,
        check_mechanism,
        check_rows,
        check_people,
        check_hidden_texts,
        check_odd_numbers,
        check_words,
    ],
    PerturbedRelease: [
        check_quasi_columns,
        check_amplification,
        check_together,
        check_fit,
        check_agreement,
        check_parts,
    ],
    GeneralizedRelease: [check_generalized],
    BucketedRelease: [check_quasi_columns, check_dealing, check_buckets, check_links],
    SmallSum: [
        check_group_size,
        check_published_counts,
        check_own_share,
        check_traced_groups,
        check_personal_sums,
    ],
    ReconstructionPrivacy: [check_reconstruction],
}


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
    """Check a release against the raw table it was made from.

    `table` is a `Table` or anything that `sfumato.read` takes; the roles come from the manifest.
    With `previous`, an earlier release of the same people, whoever stayed must be shown as before;
    `previous_table` and the column `key` tell whose value changed meanwhile. With `receipt`, what
    `publish` kept to repeat the draws, the release is made again and compared record by record.
    Where the `key` repeats, it is told what a person's records say together. With `other`, a
    further bucketed release of the same people, what both tell together is held to the promise.

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
    named = table.key if key is None and isinstance(table, Table) else key
    before = None if previous is None else Before.of(previous, previous_table, named)
    if receipt is not None:
        if before is not None or other is not None:
            raise UsageError(
                "With a receipt the release is made again as a whole. Leave --previous and --with "
                "out, or audit twice."
            )
        return _replayed(table, opened, Receipt.read(receipt))
    case = AuditCase(raw_table(table, opened), opened)
    looks = [
        look
        for concerned, listed in CHECKS.items()
        if isinstance(opened, concerned) or isinstance(case.guarantee, concerned)
        for look in listed
    ]
    if not follows_chosen_rows(case):
        looks = CHECKS[Release]
    with reading_errors(case.table.source):
        found: list[Finding] = []
        for done, look in enumerate(looks):
            progress("auditing", done, len(looks))
            found += look(case)
        found += check_repeated(case, named)
    if other is not None:
        further = other if isinstance(other, Release) else Release(other)
        with reading_errors(case.table.source):
            found += check_intersection(case, further)
    found += _unjudged(case, found)
    if before is not None:
        found += check_previous(case, before)
    several = any(each.check is catalogue.PERSON_TOGETHER and each.value for each in found)
    tested = _tested(case, before, "records" if several else "people")
    return Verdict(tuple(found), tested, exposure_of(opened, case.profile))


def _replayed(table: Any, release: Release, receipt: Receipt) -> Verdict:
    """The verdict over a release that was made again."""
    manifest = release.manifest
    trace = Trace()
    case = AuditCase(declared_again(table, receipt), release, trace)
    with reading_errors(case.table.source):
        found = [*check_randomness(case), *check_replay(case, receipt, trace)]
        found += check_traced_groups(case)
        if not case.rows_of_people_withheld:  # else only the records that were made again tell
            found += check_generalized(case) if trace.matches is not None else []
            found += check_parts(case)
    names = " and ".join(case.table.sensitive)
    tested = (
        f"{manifest.guarantee} of {names}, {manifest.rows:,} records, each made again from the "
        "receipt and compared"
    )
    return Verdict(tuple(found), tested, exposure_of(release, case.profile))


def _tested(case: AuditCase, before: Before | None, who: str) -> str:
    """What the audit looked at, for its headline."""
    manifest = case.release.manifest
    names = " and ".join(case.table.sensitive)
    whom = f"{case.profile.rows:,} {who}"
    if manifest.person is not None:
        whom = f"the people of {case.profile.rows:,} rows"
    told = f"{manifest.guarantee} of {names} for {whom}"
    return told if before is None else f"{told}, and against the release before"


def _unjudged(case: AuditCase, found: list[Finding]) -> Iterator[Finding]:
    """An audit never passes in silence: it says of which columns nothing judged the promise."""
    judged = {finding.column for finding in found if finding.check.judges}
    release = case.release
    for column in case.table.sensitive:
        if column in judged:
            continue
        if not follows_chosen_rows(case):
            yield Finding.unseen(
                catalogue.PROMISE,
                column=column,
                value=release.manifest.guarantee,
                witness="rows of people were withheld at random, and only the receipt tells which: "
                "audit with --receipt",
            )
            continue
        operator = release.operators.get(column)
        form = "" if operator is None else f" with the operator '{operator.form}'"
        yield Finding.unseen(
            catalogue.PROMISE,
            column=column,
            value=release.manifest.guarantee,
            witness=f"no audit knows how to hold a {release.kind} release{form} to this promise",
        )


__all__ = ["CHECKS", "AuditCase", "Check", "Disclosure", "Finding", "Result", "Verdict", "audit"]
