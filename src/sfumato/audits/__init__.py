"""Audits: does a release keep its guarantee? One module per family of guarantee."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sfumato.audits.agreement import check_agreement
from sfumato.audits.bucketed import check_buckets
from sfumato.audits.case import AuditCase, raw_table
from sfumato.audits.common import check_quasi_columns, check_randomness, check_rows
from sfumato.audits.findings import Finding, Verdict
from sfumato.audits.generalized import check_generalized
from sfumato.audits.parts import check_parts
from sfumato.audits.perturbed import check_amplification, check_fit
from sfumato.audits.previous import Before, check_previous
from sfumato.audits.reconstruction import check_reconstruction
from sfumato.audits.resampled import check_resampled
from sfumato.audits.small_sum import (
    check_group_size,
    check_own_share,
    check_personal_sums,
    check_published_counts,
    check_traced_groups,
)
from sfumato.errors import UsageError
from sfumato.guarantees import CeilingGuarantee
from sfumato.release import Release
from sfumato.table import Table, reading_errors

Check = Callable[[AuditCase], Iterator[Finding]]

# a check that does not concern a release of its kind finds nothing
CHECKS: dict[str, list[Check]] = {
    "perturbed": [
        check_randomness,
        check_rows,
        check_quasi_columns,
        check_amplification,
        check_fit,
        check_agreement,
        check_parts,
        check_group_size,
        check_published_counts,
        check_own_share,
        check_traced_groups,
        check_personal_sums,
        check_reconstruction,
    ],
    "generalized": [check_randomness, check_rows, check_generalized],
    "bucketed": [check_randomness, check_rows, check_quasi_columns, check_buckets],
    "synthetic": [
        check_randomness,
        check_rows,
        check_quasi_columns,
        check_resampled,
        check_agreement,
    ],
}

# the checks that see whether a release is what it says; all others hold it to its promise
SHAPE: set[Check] = {
    check_randomness,
    check_rows,
    check_quasi_columns,
    check_fit,
    check_agreement,
    check_published_counts,
    check_own_share,
    check_traced_groups,
    check_personal_sums,
}


def audit(
    table: Any,
    release: Release | str | Path,
    *,
    trace: str | Path | None = None,
    previous: Release | str | Path | None = None,
    previous_table: Any = None,
    key: str | None = None,
) -> Verdict:
    """Check a release against the raw table it was made from.

    `table` is a `Table` or anything that `sfumato.read` takes; the roles come from the manifest.
    `trace` is the folder of the private trace, where the mechanism wrote one. With `previous`, an
    earlier release of the same people, whoever stayed must be shown as before; `previous_table`
    and the column `key` tell whose value changed meanwhile.
    """
    opened = release if isinstance(release, Release) else Release(release)
    if previous is None and previous_table is not None:
        raise UsageError("A table behind the previous release was given, but not that release.")
    named = table.key if key is None and isinstance(table, Table) else key
    before = None if previous is None else Before.of(previous, previous_table, named)
    case = AuditCase(raw_table(table, opened), opened, None if trace is None else str(trace))
    with reading_errors(case.table.source):
        found = [(check, f) for check in CHECKS.get(opened.kind, []) for f in check(case)]
    judged = [finding for check, finding in found if check not in SHAPE]
    history = () if before is None else tuple(check_previous(case, before))
    return Verdict((*(finding for _, finding in found), *_unjudged(case, judged), *history))


def _unjudged(case: AuditCase, judged: list[Finding]) -> Iterator[Finding]:
    """An audit never passes in silence: a column whose promise nothing looked at fails.

    So does a promise that groups of people cannot be held to, because it states no ceilings.
    """
    release, columns = case.release, case.table.sensitive
    ceilings = isinstance(case.guarantee, CeilingGuarantee)
    for column in columns:
        named = [f for f in judged if f"{f.check} ".endswith(f" of {column} ")]
        named += [f for f in judged if f" of {column} " in f.check]
        if not (judged if len(columns) == 1 else named) or (
            release.kind in ("bucketed", "generalized") and not ceilings
        ):
            forms = release.plan.get("operators", {}).get(column, {})
            form = f" with the operator '{forms['form']}'" if "form" in forms else ""
            yield Finding(
                f"promise about {column}",
                False,
                release.manifest.guarantee,
                None,
                f"no audit knows how to hold a {release.kind} release{form} to this promise",
            )


__all__ = ["CHECKS", "AuditCase", "Finding", "Verdict", "audit"]
