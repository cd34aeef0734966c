"""Publishing, for every engine: count, choose a plan, write what it makes of the records."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sfumato.draws import Draws
from sfumato.engines.cautions import key_cautions, table_cautions
from sfumato.engines.choosing import (
    choose_draws,
    choose_plan,
    left_out_share,
    possible_mechanisms,
    refuse_left_out,
    with_counts,
)
from sfumato.engines.counting import (
    Progress,
    check_keys,
    count_combinations,
    no_progress,
    take_profile,
)
from sfumato.engines.engine import LocalEngine
from sfumato.engines.exposure import exposure_of
from sfumato.engines.ledger import OpenLedger, PublishedPeople, open_ledger
from sfumato.engines.options import Follow, RunOptions
from sfumato.engines.person_rows import for_people
from sfumato.engines.publication import (
    Publication,
    make_manifest,
    refuse_repeated,
    steward_notes,
)
from sfumato.engines.receipts import Receipt, describe_table, receipt_file
from sfumato.engines.republishing import as_before
from sfumato.engines.spark.engine import SparkEngine
from sfumato.engines.together import ColumnTold, told_by_columns
from sfumato.errors import UsageError
from sfumato.guarantees import Guarantee, jointly, parse_guarantee
from sfumato.guarantees.meaning import meaning_for_a_person
from sfumato.mechanisms import Mechanism, given_mechanism, parse_mechanism
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.profile import Profile
from sfumato.release import BundleWriter, FileEntry, Manifest, Release
from sfumato.release.manifest import NAME
from sfumato.storage import address_of, outgoing
from sfumato.table import Table, as_table

LEFT_OUT = "1/4"  # of the people: a promise that leaves out more is refused unless it is asked for
ENGINES: dict[str, type[LocalEngine]] = {cls.name: cls for cls in (LocalEngine, SparkEngine)}


def publish(
    table: Any,
    guarantee: Guarantee | str | Mapping[str, str],
    *,
    to: str | Path,
    mechanism: Mechanism | str | None = None,
    engine: str | None = None,
    seed: int | None = None,
    key_file: str | Path | None = None,
    left_out: str | float = LEFT_OUT,
    batch_rows: int = 1 << 17,
    threads: int | None = None,
    progress: Progress = no_progress,
    receipt: str | Path | None = None,
    previous: Release | str | Path | None = None,
    ledger: str | Path | None = None,
    ledger_promise: Guarantee | str | None = None,
    joint: bool = False,
    **roles: Any,
) -> Publication:
    """Publish `table` under `guarantee` into the folder `to`.

    `table` comes from `read`, or is anything that `read` takes, with its roles: `quasi`,
    `sensitive` and so on. A mapping as guarantee has a promise for each sensitive column.
    `mechanism` None picks the one with the smallest predicted error.
    `engine` is "local" or "spark"; None is Spark for a Spark DataFrame, this machine otherwise.
    `seed` makes the release repeatable and therefore worthless as protection: for experiments.
    `key_file` with a key column ties every draw to the person.
    `left_out` is the largest share of the people about whom nothing may be promised while their
    values may be shown; values that the guarantee names as open do not count.
    `receipt` is a file, private to the steward, for what repeats the draws, so that an audit can
    make the release again. `previous` is an earlier release under the same key file,
    whose operators and domains are taken over so that nobody is drawn again. `ledger` is a private
    file of what all releases of these people tell together; one that would break `ledger_promise`,
    by default the guarantee of its first release, is refused. `joint` promises the guarantee for
    what all sensitive columns tell together. `batch_rows` and `threads` are the local engine's.

    >>> import tempfile, pyarrow as pa
    >>> people = pa.table({"age": [30, 41, 52, 60], "ill": ["no", "yes", "no", "no"]})
    >>> done = publish(people, "rho-privacy(0.3, 0.6)", quasi="age", sensitive="ill",
    ...                mechanism="uniform", to=tempfile.mkdtemp() + "/release")
    >>> done.manifest.rows
    4
    """
    began = time.perf_counter()
    promised, named = parse_guarantee(guarantee), given_mechanism(mechanism)
    if engine is not None and engine not in ENGINES:
        raise UsageError(f"'engine' must be one of {', '.join(ENGINES)}. Got {engine!r} instead.")
    if batch_rows < 1:
        raise UsageError(f"'batch_rows' must be at least 1. Got {batch_rows} instead.")
    if engine is not None and not isinstance(table, Table):
        table = ENGINES[engine].source(table)
    threaded = threads is None or threads > 1
    table = as_table(table, roles, threads=threaded, progress=progress)
    promised = promised.for_columns(table.sensitive)
    if previous is not None:
        table, named = as_before(table, promised, named, key_file, previous)
    draws = choose_draws(table, seed, key_file)
    executor, share = engine or table.source.engine, left_out_share(left_out)
    with (
        receipt_file(receipt, Path(to)) as kept,
        open_ledger(ledger, ledger_promise, promised, Path(to)) as counted,
        outgoing(to) as (folder, store),
    ):
        options = RunOptions(
            release=folder,
            store=store,
            left_out=share,
            batch_rows=batch_rows,
            threads=threaded,
            progress=progress,
            joint=joint,
        )
        ran = run(ENGINES[executor], table, promised, named, draws, options, counted)
        manifest, rule = ran.manifest, ran.manifest.person
        if rule is not None:  # what was chosen, for whoever repeats it
            table = replace(table, rows_per_person=rule.rows)
        if kept is not None:
            made = Receipt(
                manifest=FileEntry.of(folder / NAME).sha256,
                engine=executor,
                draws=draws,
                guarantee=manifest.guarantee,
                mechanism=manifest.mechanism,
                as_before=previous is not None,
                table=describe_table(table),
            )
            kept.write(made.to_text())
        exposure = exposure_of(Release(folder, verify=False), ran.profile, ran.promise)
    histograms = ran.people.histograms.values()
    meanings = [meaning_for_a_person(promised, one, table.quasi) for one in histograms]
    notes = [
        *steward_notes(ran.people, ran.promise),
        *(warning.sentence() for warning in ran.together),
        ran.drawn,
        "" if counted is None else counted.ledger.note(ran.profile.histograms),
        "" if table.merged is None else table.merged.note,
        *(table_cautions(table) if table.source.engine == LocalEngine.name else ()),
        *(() if key_file is None else key_cautions(key_file, promised, table)),
    ]
    return Publication(
        address_of(to) or folder,
        manifest,
        ran.profile.rows + ran.profile.dropped + (0 if rule is None else rule.suppressed),
        time.perf_counter() - began,
        exposure,
        tuple(filter(None, notes)),
        tuple(filter(None, meanings)),
    )


@dataclass(frozen=True, eq=False)
class Run:
    """What a run did: what the release says, what was counted of rows and of people, the promise
    that it was planned with."""

    manifest: Manifest
    profile: Profile
    people: Profile
    promise: Guarantee
    together: Sequence[ColumnTold] = ()
    drawn: str = ""  # what drawing one row of each person did


def run(
    engine: type[LocalEngine],
    table: Table,
    guarantee: Guarantee,
    mechanism: Mechanism | None,
    draws: Draws,
    options: RunOptions,
    ledger: OpenLedger | None = None,
) -> Run:
    """Publish with these draws."""
    with ExitStack() as stack:
        bundle = stack.enter_context(BundleWriter(options.release))
        running = stack.enter_context(engine(table, options))
        people = for_people(running.table, guarantee, mechanism, draws)
        table, promise = people.table, people.guarantee
        if people.rule is not None:
            running.table = table
        refuse_repeated(table, check_keys(running.table))
        counted = take_profile(running.table)
        if options.joint and len(table.sensitive) > 1:
            promise = jointly(promise, counted.histograms)
        refuse_left_out(people.counted(counted), promise, options.left_out)
        profile = with_counts(counted, possible_mechanisms(promise, mechanism), table)
        chosen, plan = choose_plan(
            profile, promise, mechanism, draws, running.plans, options.progress
        )
        # nothing looks at these after planning, and the records need the memory
        profile = replace(profile, cells=None, binned=None)
        if ledger is not None:
            rows = 1 if people.rule is None else people.rule.rows
            name = options.release.name
            # of people with several rows another row may be drawn another time: a fresh look
            published = (
                PublishedPeople() if people.rule is not None else PublishedPeople.of(table, draws)
            )
            spent = ledger.ledger.with_release(name, chosen, plan, profile, draws, rows, published)
        together = []
        if isinstance(plan, PerturbedPlan):
            combined = partial(count_combinations, running.table, profile.histograms)
            together = told_by_columns(combined, profile.histograms, plan.operators, guarantee)
        written = running.write(bundle.folder, plan, profile, draws)
        manifest = make_manifest(
            table,
            profile,
            chosen.promised(guarantee),
            chosen,
            plan,
            written,
            randomness=draws.origin,
            person=people.rule,
            joint=options.joint and len(table.sensitive) > 1,
            together=together,
        )
        if ledger is not None:
            ledger.enter(spent)
        done = bundle.finish(manifest)
        counted = people.counted(profile)
        return Run(done, profile, counted, promise, together, people.note(profile))


def repeat(
    receipt: Receipt, table: Table, release: Release, to: Path, follow: Follow | None = None
) -> Manifest:
    """Make a release again, into the folder `to`, with the draws that its receipt repeats.

    Operators that were taken over from an earlier release are those that the release shows.
    `follow` sees who matches whom behind ranges and sets.
    """
    guarantee = parse_guarantee(receipt.guarantee)
    mechanism: Mechanism = parse_mechanism(receipt.mechanism)
    if receipt.as_before:
        table, mechanism = as_before(table, guarantee, mechanism, to, release)
    options = RunOptions(release=to, joint=release.manifest.joint, follow=follow)
    engine = ENGINES[receipt.engine]
    return run(engine, table, guarantee, mechanism, receipt.draws, options).manifest
