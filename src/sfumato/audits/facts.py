"""What a manifest says of the table, recomputed: checks of every release, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import convert

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, concerns, quoted
from sfumato.audits.findings import Direction, Finding
from sfumato.columns import Values, value_text
from sfumato.draws import Draws
from sfumato.engines.choosing import TableCounts, with_counts
from sfumato.engines.publication import missing_rule
from sfumato.engines.together import told_by_release
from sfumato.errors import SfumatoError
from sfumato.guarantees import ReconstructionPrivacy
from sfumato.release import BucketedRelease, PerturbedRelease, Release
from sfumato.release.manifest import PerturbedPart


@concerns(Release)
def check_randomness(case: AuditCase) -> Iterator[Finding]:
    """A seeded release protects nobody: whoever guesses the seed can undo the draws."""
    randomness = case.release.manifest.randomness
    yield Finding.limited(
        catalogue.RANDOMNESS,
        randomness,
        Direction.ONE_OF,
        "system, key-file",
        witness="made with --seed: for experiments only" if randomness == "seeded" else None,
    )


@concerns(Release)
def check_mechanism(case: AuditCase) -> Iterator[Finding]:
    """The mechanism that the manifest names can keep the promise that it names."""
    mechanism, told = case.mechanism, None
    if mechanism is None:
        return
    if not mechanism.keeps(case.guarantee):
        told = f"{mechanism} does not keep {case.guarantee}"
    elif case.rows_per_person > 1 and not mechanism.several_rows:
        told = f"{mechanism} keeps its promise for one row of a person"
    yield Finding.plain(catalogue.MECHANISM, told is None, witness=told)


@concerns(Release)
def check_rows(case: AuditCase) -> Iterator[Finding]:
    """Published and withheld records together are the table."""
    manifest = case.release.manifest
    yield Finding.limited(
        catalogue.ROWS,
        manifest.rows + manifest.suppressed,
        Direction.EXACTLY,
        case.profile.rows,
        witness=f"{manifest.suppressed:,} suppressed" if manifest.suppressed else None,
    )


@concerns(Release)
def check_domains(case: AuditCase) -> Iterator[Finding]:
    """Listed values are those of the table, in their own order: others could say something.

    Only who declared the table knows whether more were stated on purpose. A sensitive domain that
    an earlier release lists was taken over, and says nothing new.
    """
    wrong = []
    for column in case.release.columns:
        if not isinstance(column.domain, Values):
            continue
        if case.declared:
            stated = case.stated_values(column)
            wrong += [] if stated in (None, column.domain.values) else [column.name]
            continue
        if case.listed_before(column):
            continue
        found = [value_text(value) for value in case.values_nobody_has(column)]
        values = [v for v in case.release.domain(column.name).to_pylist() if v is not None]
        if not (column.bins or column.recode) and values != sorted(values):
            found.append("the order")
        wrong += [f"{each} of {column.name}" for each in found]
    if not wrong or case.declared:
        yield Finding.none(catalogue.DOMAINS, len(wrong), listed=tuple(wrong))
        return
    witness = "stated, or added? The receipt tells, or a table with its declaration:"
    yield Finding.skipped(catalogue.DOMAINS, witness=witness, listed=tuple(wrong))


@concerns(Release)
def check_facts(case: AuditCase) -> Iterator[Finding]:
    """What sentences depend on is as the table has it, where the plan follows from counts alone."""
    release, manifest, plan = case.release, case.release.manifest, case.release.plan
    rule = missing_rule(manifest.missing, manifest.columns, case.profile.dropped)
    wrong = [] if rule == manifest.missing else ["missing"]
    drawn = isinstance(release, PerturbedRelease) and plan.sampling is None
    if drawn and case.mechanism is not None:
        told = told_by_release(case.table, release, case.profile, case.guarantee)
        beyond = tuple(each.column for each in told if each.exceeds and not manifest.joint)
        wrong += [] if plan.beyond == beyond else ["beyond"]
        try:
            profile = with_counts(case.profile, [case.mechanism], TableCounts(case.table))
            public = case.mechanism.plan(profile, case.guarantee, Draws.from_seed(0)).public()
        except SfumatoError:
            public = {}
        made = convert(public, PerturbedPart) if "operators" in public else plan
        if case.rows_of_people_withheld:
            pass  # which rows were drawn decides, and only the receipt tells
        elif made.operators == plan.operators:
            facts = ("fitted", "floors", "common", "part_columns")
            wrong += [name for name in facts if getattr(made, name) != getattr(plan, name)]
        elif plan.floors or plan.common:
            wrong.append("floors, common")
    yield Finding.none(catalogue.FACTS, len(wrong), listed=tuple(wrong))


@concerns(PerturbedRelease, BucketedRelease)
def check_quasi_columns(case: AuditCase) -> Iterator[Finding]:
    """The quasi columns are the raw ones as a multiset, less the withheld records."""
    columns = ", ".join(quoted(name) for name in case.table.quasi)
    if not columns or isinstance(case.guarantee, ReconstructionPrivacy):
        return  # values may be merged; the sizes of all groups are checked instead
    absent, invented = (int(number) for number in case.connect().execute(
        f"""
        SELECT coalesce(sum(n) FILTER (n > 0), 0), coalesce(-sum(n) FILTER (n < 0), 0) FROM (
            SELECT {columns}, sum(side) AS n FROM (
                SELECT {columns}, 1 AS side FROM raw
                UNION ALL SELECT {columns}, -1 AS side FROM published
            ) GROUP BY {columns} HAVING sum(side) <> 0)
        """
    ).fetchall()[0])  # fmt: skip
    off = invented + abs(absent - case.release.manifest.suppressed)
    told = f"{invented:,} published records match no raw record, {absent:,} raw records are "
    told += "not there"
    yield Finding.none(catalogue.QUASI_COLUMNS, off, witness=told if off else None)
