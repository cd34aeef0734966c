"""What a manifest says of the table, recomputed: checks of every release, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import convert

from sfumato.audits import catalogue
from sfumato.audits.case import AuditCase, concerns
from sfumato.audits.findings import Finding
from sfumato.columns import Column, Range, Values, quoted, value_text, value_to_json
from sfumato.engines.publication import missing_rule
from sfumato.engines.shown import domain_of
from sfumato.guarantees import ReconstructionPrivacy
from sfumato.mechanisms.buckets.ways import OptimalBuckets
from sfumato.operators import Decoy
from sfumato.public import PublicPlan, fitted_of, values_of
from sfumato.release import (
    BucketedRelease,
    GeneralizedRelease,
    PerturbedRelease,
    Release,
    typed_values,
)
from sfumato.release.manifest import FORMAT, PerturbedPart
from sfumato.release.values import in_utc
from sfumato.version import __version__


@concerns(Release)
def check_randomness(case: AuditCase) -> Iterator[Finding]:
    """A seeded release protects nobody: whoever guesses the seed can undo the draws."""
    randomness = case.release.manifest.randomness
    wrong = "made with --seed: for experiments only" if randomness == "seeded" else None
    yield Finding.limited(catalogue.RANDOMNESS, randomness, "system, key-file", wrong=wrong)


@concerns(Release)
def check_mechanism(case: AuditCase) -> Iterator[Finding]:
    """The mechanism that the manifest names can keep the promise that it names."""
    mechanism, wrong = case.mechanism, None
    if mechanism is None:
        return
    if not mechanism.keeps(case.guarantee):
        wrong = f"{mechanism} does not keep {case.guarantee}"
    yield Finding.plain(catalogue.MECHANISM, wrong)


@concerns(Release)
def check_rows(case: AuditCase) -> Iterator[Finding]:
    """Published and withheld records together are the table."""
    manifest = case.release.manifest
    witness = f"{manifest.suppressed:,} suppressed" if manifest.suppressed else None
    rows = manifest.rows + manifest.suppressed
    yield Finding.limited(catalogue.ROWS, rows, case.profile.rows, witness=witness)
    if case.release.scales is None:  # samples are checked group by group
        # whoever chose the rows to leave out could tell who the others are
        groups = [o.groups for o in case.release.operators.values() if isinstance(o, Decoy)]
        rows = manifest.rows + case.withheld_by_plan
        most = rows % groups[0] if groups else 0
        yield Finding.limited(catalogue.WITHHELD, case.withheld_by_plan, most)


@concerns(Release)
def check_domains(case: AuditCase) -> Iterator[Finding]:
    """Domains are those of what is published, in their own order: others could say something.

    Only who declared the table knows whether more was stated on purpose.
    """
    wrong = [strange for column in case.release.columns for strange in _strange(case, column)]
    if not wrong or case.declared:
        yield Finding.limited(catalogue.DOMAINS, len(wrong), listed=tuple(wrong))
        return
    witness = "stated, or added? The receipt tells, or a table with its declaration:"
    yield Finding.skipped(catalogue.DOMAINS, witness=witness, listed=tuple(wrong))


def _strange(case: AuditCase, column: Column) -> Iterator[str]:
    """What of a column's domain is neither stated nor observed."""
    domain, name, kept = column.domain, column.name, column.domain
    if column.role == "sensitive":
        histogram = case.profile.histograms[name]
        values = list(zip(histogram.values, histogram.counts.tolist(), strict=True))
        if not case.declared:
            values = [(value, count) for value, count in values if count]
            if not (column.bins or column.recode):
                values.sort(key=lambda pair: (pair[0] is None, () if pair[0] is None else pair[0]))
        kept = Values(tuple(value for value, _ in values))
    elif isinstance(case.release, GeneralizedRelease):
        kept = case.table.domains.get(name, domain) if case.declared else _shown(case, column)
    elif name in getattr(case.release.plan, "merges", ()):
        return  # the plan of samples is made again
    else:
        seen, kind = _distinct(case, quoted(name)), case.table.type_of(name)
        try:
            seen = seen.cast(kind)
        except pa.ArrowInvalid:  # values of another type, as after a merge that nobody states
            yield f"the type of {name}"
            return
        kept = domain_of(case.table, name, seen)
    if not isinstance(domain, Values) or not isinstance(kept, Values):
        yield from [] if domain == kept else [f"the domain of {name}"]
        return
    listed, expected = ([value_to_json(value) for value in side.values] for side in (domain, kept))
    observed = {*expected}
    yield from (f"{value_text(value)} of {name}" for value in listed if value not in observed)
    if [value for value in listed if value in observed] != expected:
        yield f"the order of {name}"


def _distinct(case: AuditCase, shown: str) -> pa.Array:
    distinct = in_utc(case.columns(f"SELECT DISTINCT {shown} AS v FROM published").column("v"))
    return pa.concat_arrays(distinct.chunks) if isinstance(distinct, pa.ChunkedArray) else distinct


def _shown(case: AuditCase, column: Column) -> Values | Range | None:
    """What ranges span, or sets hold."""
    names = [quoted(name) for name in case.release.shown_as(column)]
    if len(names) == 2 and isinstance(column.domain, Range):
        ends = (pc.min(_distinct(case, names[0])), pc.max(_distinct(case, names[1])))
        low, high = (end.as_py() for end in ends)
        same = (low, high) == (column.domain.low, column.domain.high)
        return column.domain if same else Range(low, high)
    if not isinstance(column.domain, Values):
        return column.domain
    seen = _distinct(case, f"unnest({names[0]})")
    is_seen = pc.is_in(typed_values(column.domain.values, seen.type), value_set=seen).to_pylist()
    pairs = zip(column.domain.values, is_seen, strict=True)
    return Values(tuple(value for value, there in pairs if there))


@concerns(Release)
def check_facts(case: AuditCase) -> Iterator[Finding]:
    """What sentences depend on is as the table has it, where the plan follows from counts alone."""
    release, manifest, plan = case.release, case.release.manifest, case.release.plan
    rule = missing_rule(manifest.missing, manifest.columns, case.profile.dropped)
    facts = {"missing": rule == manifest.missing}
    if isinstance(release, BucketedRelease) and isinstance(case.mechanism, OptimalBuckets):
        association = case.mechanism.association
        facts["association"] = plan.association == (association and str(association))
        facts["fakes"] = plan.fakes == case.mechanism.fakes
    drawn = isinstance(release, PerturbedRelease) and plan.sampling is None
    public: PublicPlan = {}
    if drawn and case.mechanism is not None:
        public = {} if case.plan is None else case.plan.public()
        part = convert(values_of(public), PerturbedPart) if "operators" in public else None
        if part is None or part.operators != plan.operators:
            yield from _other_operators(case, public)
            # a receipt's run has compared the whole manifest; of drawn rows nobody knows which
            unknown = case.repeated or case.rows_of_people_withheld > 0
            facts["floors"] = unknown or not plan.floors
        else:
            yield Finding.plain(catalogue.OPERATORS, None)
            for name in ("floors", "part_columns"):
                facts[name] = getattr(part, name) == getattr(plan, name)
    if manifest.format == FORMAT:  # else it is made of the plan as it is read
        facts["fitted"] = manifest.fitted == tuple(_fitted_again(case, public))
    wrong = tuple(name for name, holds in facts.items() if not holds)
    yield Finding.limited(catalogue.FACTS, len(wrong), listed=wrong)


def _fitted_again(case: AuditCase, public: PublicPlan) -> Iterator[str]:
    """What a manifest calls fitted, in its order, as far as an audit can know: only a receipt tells
    of an earlier release, and whether a domain was stated."""
    manifest, plan = case.release.manifest, case.release.plan
    merges = getattr(plan, "merges", {})
    if isinstance(case.release, GeneralizedRelease):
        yield from ("spans",) if plan.groups is None else ("matches", "spans", "groups")
    elif getattr(plan, "sampling", None) is not None:
        yield from ("sampling", "merges") if merges else ("sampling",)
    elif public and manifest.randomness != "key-file":
        yield from fitted_of(public)
    elif isinstance(case.release, PerturbedRelease):
        yield from (name for name in ("operators", "floors") if name in manifest.fitted)
    for column in case.release.columns:
        name, drawn = f"domain of {column.name}", isinstance(case.release, PerturbedRelease)
        counted = drawn and "rare(" in column.recode
        hidden = column.role == "sensitive" and (counted or name in manifest.fitted)
        if hidden or column.name in merges:
            yield name


def _other_operators(case: AuditCase, public: PublicPlan) -> Iterator[Finding]:
    """The plan made again has other operators, or none: the low digits of one could say something.

    There is a reason where operators follow from shares of drawn rows, or from an earlier release.
    """
    manifest, why = case.release.manifest, ""
    if case.repeated:
        return  # compared already
    if case.rows_of_people_withheld and (not public or fitted_of(public)):
        why = "they follow from the rows of people that were drawn: audit with --receipt"
    elif manifest.randomness == "key-file":
        why = "they may be those of an earlier release under the key file: audit with --receipt"
    elif manifest.sfumato != __version__:
        why = f"sfumato {manifest.sfumato} planned them, and this is {__version__}"
    if why:
        yield Finding.skipped(catalogue.OPERATORS, witness=why)
    else:
        yield Finding.plain(catalogue.OPERATORS, f"{case.mechanism} makes others of this table")


@concerns(PerturbedRelease, BucketedRelease)
def check_quasi_columns(case: AuditCase) -> Iterator[Finding]:
    """The quasi columns are the raw ones as a multiset, less the withheld records."""
    if not case.quasi or isinstance(case.guarantee, ReconstructionPrivacy):
        return  # values may be merged; the sizes of all groups are checked instead
    ((absent, invented),) = case.rows(
        "SELECT coalesce(sum(n) FILTER (n > 0), 0)::BIGINT, "
        f"coalesce(-sum(n) FILTER (n < 0), 0)::BIGINT FROM {case.balance}"
    )
    off = invented + abs(absent - case.release.manifest.suppressed)
    wrong = f"{invented:,} published records match no raw record, {absent:,} raw records are "
    yield Finding.limited(catalogue.QUASI_COLUMNS, off, wrong=wrong + "not there")
