"""What a table is, what can be promised about it, and what a release of one is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.columns import domain_text, value_text
from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan, possible_mechanisms, with_counts
from sfumato.engines.counting import Progress, no_progress, take_profile
from sfumato.engines.exposure import exposure_of
from sfumato.engines.person_rows import for_people, one_row_each
from sfumato.engines.publication import steward_notes
from sfumato.engines.ranking import RankedRows, rank_rows
from sfumato.engines.run import Run
from sfumato.engines.shown import domains_of
from sfumato.engines.words import Facts
from sfumato.errors import UsageError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms import Mechanism, given_mechanism
from sfumato.outlook.catalogue import allowed_guarantees
from sfumato.outlook.survey import Description, marker_notes, survey
from sfumato.profile import Histogram, Profile
from sfumato.queries.estimators import estimators_of
from sfumato.release import Release
from sfumato.results import ResultTable
from sfumato.storage import is_release
from sfumato.table import Table, as_table
from sfumato.table.reading import MARKERS, Reading
from sfumato.table.staging import stage, staged

_SHOWN = 10  # most and least common values shown of a long histogram
_NAMED = 8  # values of a release's column that are named


def describe(
    origin: Any,
    guarantee: Guarantee | str | Mapping[str, str] | None = None,
    mechanism: Mechanism | str | None = None,
    *,
    progress: Progress = no_progress,
    **roles: Any,
) -> Description:
    """What a table is, or a release: columns, histograms, what can be promised.

    `origin` is a `Table`, anything that `read` takes, or a release folder. Without roles, of which
    `read` tells, it is a first look, with guesses which column could have which role. With a
    `guarantee`, also what that would mean for this table, by the given mechanism or by the one that
    `publish` would choose; raises `InfeasibleGuarantee` as `publish` would. Nothing is published.

    >>> import pyarrow as pa
    >>> people = pa.table({"age": [30, 41, 52, 60], "ill": ["no", "yes", "no", "no"]})
    >>> print(describe(people, quasi="age", sensitive="ill").parts()[1])
    Histogram. ill: 2 values, most common first
    ill    count  share
    'no'   3      0.75
    'yes'  1      0.25
    """
    release = release_at(origin)
    declared = Reading.split(roles) or guarantee or isinstance(origin, Table)
    if release is not None or not declared:
        if release is None:
            return survey(origin, Reading.of(**roles), progress=progress)
        if roles or guarantee:
            raise UsageError(
                f"{str(release.path)!r} is a release: its columns have their roles and its promise "
                "is made. Describe it without any."
            )
        return _release(release)
    table = stage(as_table(origin, roles, progress=progress))
    profile = take_profile(table)
    tables, marks = [_columns(table, profile)], _markers(table, profile)
    tables += [_histogram(histogram) for histogram in profile.histograms.values()]
    if table.person is not None:
        tables.append(_rows_of_people(rank_rows(table, Draws.system())))
    elif table.key is not None:
        ranked = rank_rows(replace(table, person=table.key, key=None), Draws.system())
        if ranked.most > 1:
            tables.append(_rows_of_people(ranked, f"Say --person {table.key} instead of --key."))
    if guarantee is None:
        first = profile  # what can be promised, always: of one row of each person
        if table.person is not None:
            first = take_profile(one_row_each(table, Draws.system()))
        return Description(profile.rows, [*tables, _allowed(first)], marks)
    guarantee = parse_guarantee(guarantee).for_columns(table.sensitive, table.drop)
    mechanism = given_mechanism(mechanism)
    people = for_people(Run(table, guarantee, mechanism, Draws.system()))
    profile = profile if people.rule is None else take_profile(people.table)
    profile = with_counts(profile, possible_mechanisms(people.promise, mechanism), people.table)
    mechanism, plan = choose_plan(
        profile, people.promise, mechanism, Draws.system(), progress=progress
    )
    guarantee = mechanism.promised(guarantee)
    domains = domains_of(people.table, plan.kind)
    words = Facts.of_plan(mechanism, guarantee, plan, profile.histograms, domains)
    notes = words.statement()
    notes += people.rule.sentences() if people.rule else []
    notes += steward_notes(profile, people.promise)
    notes.append("Does not protect against: " + "; ".join(guarantee.unprotected()) + ".")
    notes += words.caveats() + plan.notes()
    return Description(profile.rows, tables, [*marks, f"Mechanism: {mechanism}.", *notes])


def release_at(origin: Any) -> Release | None:
    """The release that somebody means, where it is one."""
    if isinstance(origin, Release):
        return origin
    if isinstance(origin, str | Path) and is_release(origin):
        return Release(origin)
    return None


def _markers(table: Table, profile: Profile) -> list[str]:
    """Values that may stand for what is not known."""
    domains = staged(table).domains
    values = {
        name: domains[name].drop_null().to_pylist() for name in table.quasi if name in domains
    }
    values |= {name: list(histogram.values) for name, histogram in profile.histograms.items()}
    return marker_notes({
        name: [v for v in sorted(map(str, value)) if v.strip().casefold() in MARKERS]
        for name, value in values.items()
    })  # fmt: skip


def _columns(table: Table, profile: Profile) -> ResultTable:
    rows: list[tuple[str, str, str, str, str, int]] = []
    here = staged(table)
    for name in table.quasi:
        column, domain = here.columns[name], here.domains.get(name)
        value = column
        if domain is not None and domain.null_count:  # its last code
            value = f"nullif({column}, {len(domain) - 1})"
        ask = f"count(*) - count({value}), count(DISTINCT {value}), min({value}), max({value})"
        (batch,) = here.people.sql(f"SELECT {ask} FROM people", column)
        missing, different, low, high = (cell.as_py() for (cell,) in batch.columns)
        numbers = table.kinds[name] == "numeric" and domain is None
        span = f"{low} … {high}" if numbers else f"{different:,} values"
        rows.append((name, "quasi", str(table.type_of(name)), table.kinds[name], span, missing))
    for name, histogram in profile.histograms.items():
        absent = int(histogram.counts[-1]) if histogram.values[-1] is None else 0
        domain = f"{len(histogram.values):,} values"
        kind = table.kinds[name]
        rows.append((name, "sensitive", str(table.type_of(name)), kind, domain, absent))
    title = f"{table.label}, {profile.rows:,} rows"
    heads = ("column", "role", "type", "kind", "domain", "missing")
    return ResultTable("Columns", title, heads, rows)


def _rows_of_people(ranked: RankedRows, note: str = "") -> ResultTable:
    numbers = np.flatnonzero(ranked.sizes)
    shown = [n for n in numbers.tolist() if n <= _SHOWN] or numbers[:1].tolist()
    rows: list[tuple[str, int]] = [(str(n), int(ranked.sizes[n])) for n in shown]
    more = [n for n in numbers.tolist() if n > max(shown)]
    if more:
        rows.append((f"{more[0]:,} to {more[-1]:,}", int(ranked.sizes[more].sum())))
    return ResultTable(
        "People",
        f"{ranked.table.person}: {ranked.people:,} people, {ranked.most:,} rows at most",
        ("rows", "people"),
        rows,
        note=f"One row of each person is published, {ranked.withheld:,} are suppressed. {note}",
    )


def _histogram(histogram: Histogram) -> ResultTable:
    order = np.argsort(-histogram.counts, kind="stable").tolist()
    shown = order if len(order) <= 2 * _SHOWN else order[:_SHOWN] + order[-_SHOWN:]
    counts = histogram.counts.tolist()
    rows = [(value_text(histogram.values[k]), counts[k], counts[k] / histogram.rows) for k in shown]
    title = f"{histogram.column}: {len(order):,} values, most common first"
    between = f"({len(order) - len(shown):,} values between the {_SHOWN} most and the {_SHOWN} "
    note = f"{between}least common)" if len(shown) < len(order) else ""
    return ResultTable("Histogram", title, (histogram.column, "count", "share"), rows, note=note)


def _allowed(profile: Profile) -> ResultTable:
    """What every guarantee could promise here."""
    rows = [(name, one.example, one.limit) for name, one in allowed_guarantees(profile).items()]
    title, heads = "what each guarantee can promise", ("guarantee", "for example", "limit")
    note = "'sfumato advise' finds the strongest that keeps counts as accurate as you need them."
    return ResultTable("Possible", f"{title} about this table", heads, rows, note=note)


def _release(release: Release) -> Description:
    """A release's columns, its promise and what to read beside it, as its manifest states them."""
    manifest = release.manifest
    title = f"{release.path.name}, {manifest.rows:,} rows of the kind {manifest.kind}"
    facts = [
        ("guarantee", manifest.guarantee),
        ("mechanism", manifest.mechanism),
        ("records", f"{manifest.rows:,} published, {manifest.suppressed:,} suppressed"),
        ("randomness", manifest.randomness),
    ]
    heads = ("column", "role", "type", "kind", "domain")
    columns = [
        (c.name, c.role, c.type, c.kind, domain_text(c.domain, _NAMED)) for c in manifest.columns
    ]
    exposed = [(line,) for line in str(exposure_of(release)).splitlines()]
    tables = [
        ResultTable("Columns", title, heads, columns),
        ResultTable("Release", "what it promises, and how it was made", ("", "is"), facts),
        ResultTable("Exposure", "what it shows of people, told from it alone", ("",), exposed),
    ]
    if estimators := estimators_of(release):
        ways = "ways to ask it, with --estimator NAME"
        tables.append(
            ResultTable("Estimators", ways, ("estimator", "answers", "use it"), estimators)
        )
    against = "Does not protect against: " + "; ".join(manifest.does_not_protect) + "."
    return Description(manifest.rows, tables, [*manifest.statement, *manifest.caveats, against])
