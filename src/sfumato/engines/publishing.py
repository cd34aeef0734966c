"""Publishing, for every engine: count, choose a plan, write what it makes of the records."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sfumato.engines.cautions import table_cautions
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
from sfumato.engines.ledger import open_ledger
from sfumato.engines.person_rows import drawn_note, for_people
from sfumato.engines.publication import (
    Publication,
    make_manifest,
    refuse_repeated,
    steward_notes,
)
from sfumato.engines.receipts import Receipt, receipt_file
from sfumato.engines.republishing import as_before
from sfumato.engines.run import Follow, Run, RunOptions
from sfumato.engines.spark.engine import SparkEngine
from sfumato.engines.together import told_by_columns
from sfumato.errors import UsageError
from sfumato.guarantees import Guarantee, jointly, parse_guarantee
from sfumato.guarantees.meaning import meaning_for_a_person
from sfumato.mechanisms import Mechanism, Plan, given_mechanism, parse_mechanism
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.release import BundleWriter, Manifest, Release
from sfumato.storage import address_of, outgoing
from sfumato.table import Table, as_table
from sfumato.textform import members

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
    ledger_column: Mapping[str, str] | None = None,
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
    stated = {*table.unused, *(name for name, _ in members(str(promised)) if name in table.drop)}
    promised = promised.for_columns(table.sensitive, table.drop)
    if previous is not None:
        table, named = as_before(table, promised, named, key_file, previous)
    draws, most = choose_draws(table, seed, key_file), left_out_share(left_out)
    with (
        receipt_file(receipt, Path(to)) as write_receipt,
        open_ledger(ledger, ledger_promise, ledger_column or {}, promised, Path(to)) as in_ledger,
        outgoing(to) as (folder, store),
    ):
        options = RunOptions(
            engine=engine or table.source.engine,
            release=folder,
            store=store,
            left_out=most,
            batch_rows=batch_rows,
            threads=threaded,
            progress=progress,
            joint=joint,
        )
        done = carry_out(Run(table, promised, named, draws, options), in_ledger)
        write_receipt(done)
        exposure = exposure_of(Release(folder, verify=False), done.profile, done.promise)
    histograms = done.profile.histograms.values()
    meanings = [meaning_for_a_person(promised, one, table.quasi) for one in histograms]
    notes = [
        *done.notes,
        "" if table.merged is None else table.merged.note,
        f"Not published, so what is said of them is not used: {', '.join(sorted(stated))}."
        if stated
        else "",
        *(table_cautions(table) if table.source.engine == LocalEngine.name else ()),
    ]
    return Publication(
        address_of(to) or folder,
        done.manifest,
        done.profile.rows + done.profile.dropped + (done.rule.suppressed if done.rule else 0),
        time.perf_counter() - began,
        exposure,
        tuple(filter(None, notes)),
        tuple(filter(None, meanings)),
    )


def carry_out(
    run: Run, in_ledger: Callable[[Run], AbstractContextManager[Run]] = nullcontext
) -> Run:
    """Publish, step by step; the release is not there before the last one.

    `in_ledger` is the ledger's step, around the writing.
    """
    options = run.options
    with (
        BundleWriter(options.release) as bundle,
        ENGINES[options.engine](run.table, options) as engine,
    ):
        run = for_people(replace(run, table=engine.table))
        engine.table = run.table
        run = _counted(run)
        run = _planned(run, engine.plans)
        with in_ledger(run) as run:
            written = engine.write(bundle.folder, run.plan, run.profile, run.draws)
            run = replace(run, manifest=make_manifest(run, written))
        return replace(run, manifest=bundle.finish(run.manifest))


def _counted(run: Run) -> Run:
    """With the counts that planning looks at."""
    refuse_repeated(run.table, check_keys(run.table))
    run = replace(run, profile=take_profile(run.table))
    if run.joint:
        run = replace(run, promise=jointly(run.promise, run.profile.histograms))
    refuse_left_out(run.profile, run.promise, run.options.left_out)
    possible = possible_mechanisms(run.promise, run.mechanism)
    return replace(run, profile=with_counts(run.profile, possible, run.table))


def _planned(run: Run, kinds: tuple[type[Plan], ...]) -> Run:
    """With a plan, and what the steward is told of it."""
    chosen, plan = choose_plan(
        run.profile, run.promise, run.mechanism, run.draws, kinds, run.options.progress
    )
    # nothing looks at these after planning, and the records need the memory
    profile = replace(run.profile, cells=None, binned=None)
    together = list[str]()
    if isinstance(plan, PerturbedPlan):
        combined = partial(count_combinations, run.table, profile.histograms)
        told = told_by_columns(combined, profile.histograms, plan.operators, run.guarantee)
        together = [column.sentence() for column in told]
    run = replace(run, profile=profile, chosen=chosen, plan=plan)
    notes = (*steward_notes(run.profile, run.promise), *together, drawn_note(run))
    return replace(run, notes=notes)


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
    options = RunOptions(receipt.engine, to, joint=release.manifest.joint, follow=follow)
    return carry_out(Run(table, guarantee, mechanism, receipt.draws, options)).manifest
