"""Run attacks on a release, beside their baselines."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.attacks.people import People, common_keys, merged_table, other_halves, read_people
from sfumato.attacks.protocol import Attack, Guesses, Knowledge, Outcome, judge
from sfumato.attacks.range_views import view_of
from sfumato.attacks.registry import ALL, attacks_for, parse_attack
from sfumato.attacks.shown import see_shown
from sfumato.attacks.views import View, raw_view
from sfumato.audits.case import raw_table
from sfumato.draws import BoolArray, Draws, IntArray
from sfumato.engines.counting import Progress, no_progress
from sfumato.engines.publishing import publish
from sfumato.errors import SfumatoError, UsageError
from sfumato.guarantees import parse_guarantee
from sfumato.mechanisms import parse_mechanism
from sfumato.mechanisms.sps import SamplingPerturbingScaling
from sfumato.release import Release
from sfumato.scratch import scratch_space
from sfumato.table import Table, is_number
from sfumato.table.sources import find_source

QUICK_TARGETS, MOST_TARGETS = 2_000, 10_000
NOT_AGAIN = (
    "What the same attack reaches without the person is not known: another tool made the records."
)


def attack(
    table: Any,
    release: Release | str | Path | None,
    *,
    attacks: str | Attack | Sequence[str | Attack] = ALL,
    column: str | None = None,
    targets: int | None = None,
    thorough: bool = False,
    fresh: bool = True,
    seed: int = 0,
    shown: Any = None,
    remake: Callable[[pa.Table], Any] | None = None,
    progress: Progress = no_progress,
) -> list[Outcome]:
    """Attack a release and judge the guesses by the raw table; per column the best attack first.

    `table` is a `Table` or anything that `sfumato.read` takes; `release` None attacks `shown`, a
    table that another tool made of the `Table`, matched with it by its quasi columns, or else the
    raw `Table` itself, as if it had been given out. `remake` lets that tool make such a table of
    other records, so that the same attack can be tried without the person: it gets the quasi and
    sensitive columns of the fresh records. At most `targets` people, drawn at random, are
    attacked: 2,000, or 10,000 where `thorough`, which learns from everything that is shown,
    however long that takes. `fresh` False leaves out the baseline
    without the person, which publishes two tables of the same size. The seed decides targets and
    ties; it protects nobody and need not.

    >>> import pyarrow as pa
    >>> from sfumato.table import read
    >>> people = pa.table({"sex": ["F", "M"] * 20, "ill": ["no", "yes", "no", "no"] * 10})
    >>> declared = read(people, quasi="sex", sensitive="ill")
    >>> [outcome] = attack(declared, None, attacks="linkage", fresh=False)
    >>> outcome.success
    Interval(value=0.75, low=0.598..., high=0.858...)
    """
    if targets is None:
        targets = MOST_TARGETS if thorough else QUICK_TARGETS
    if targets < 1:
        raise UsageError(f"'targets' must be at least 1. Got {targets} instead.")
    if release is not None and shown is not None:
        raise UsageError("Attack a release or a shown table, not both at once.")
    if remake is not None and shown is None:
        raise UsageError("'remake' makes further shown tables: name the first with 'shown'.")
    if release is None:
        if not isinstance(table, Table):
            raise UsageError("To attack a raw table, declare its columns first with sfumato.read.")
        opened, source = None, table
    else:
        opened = release if isinstance(release, Release) else Release(release)
        source = merged_table(raw_table(table, opened), opened)
    chosen = _chosen(attacks, Release if opened is None else type(opened))

    def seen(people: People, number: int | None = None) -> tuple[View, str | None]:
        """What is attacked or, with a number, the same made of other people; and a note."""
        if shown is not None:
            again = shown if number is None or remake is None else remake(people.records)
            return see_shown(source, again, people)
        if opened is None:
            return raw_view(people), None
        if number is None:
            return view_of(opened, people), None
        return _published_again(opened, source, people, number), None

    outcomes = []
    names = _asked_columns(column, source)
    steps = len(names) * (len(chosen) + 1)
    for number, name in enumerate(names):
        done = number * (len(chosen) + 1)
        progress("attacking: releases without the people", done, steps)
        draws = Draws.from_seed(seed).child(name)
        people = read_people(source, name)
        view, note = seen(people)
        if shown is not None and remake is None:
            note = " ".join(filter(None, (NOT_AGAIN, note)))
        knowledge = replace(knowledge_of(people, opened, source, view), thorough=thorough)
        half, without = None, list[Knowledge]()
        if fresh and (shown is None or remake is not None):
            half, tables = other_halves(people, draws)
            try:
                for side, rows in enumerate(tables):
                    strangers = people.take(rows)
                    known = knowledge_of(strangers, opened, source, seen(strangers, side)[0])
                    without.append(replace(known, thorough=thorough))
                note = None
            except SfumatoError as error:
                half, note = None, f"No release of a fresh table to compare with: {error}"
        single = _singled_out(people)
        aim = draws.choose("targets", len(people), min(targets, len(people)))
        those, column_outcomes = people.take(aim), []
        for index, attempt in enumerate(chosen, done + 1):
            progress(f"attacking: {attempt}", index, steps)
            stream = draws.child(str(attempt))
            guesses = _guess(attempt, knowledge, those, stream)
            right = None
            if half is not None:
                right = guess_without(attempt, those, half[aim], without, stream)
            alone = None if single is None else single[aim]
            column_outcomes.append(
                judge(attempt, those, people.prior, guesses, right, note, alone, knowledge)
            )
        outcomes += sorted(column_outcomes, key=lambda outcome: -outcome.success.value)
    return outcomes


def _asked_columns(column: str | None, source: Table) -> tuple[str, ...]:
    if column is None:
        return tuple(source.sensitive)
    if column not in source.sensitive:
        names = ", ".join(source.sensitive)
        raise UsageError(f"{column!r} is not a sensitive column. Those are: {names}.")
    return (column,)


def knowledge_of(people: People, release: Release | None, table: Table, view: View) -> Knowledge:
    """What the adversary has to go by, and what a release promises about it."""
    numeric = tuple(
        table.kinds.get(name) == "numeric" and is_number(values.type)
        for name, values in zip(people.domains.names, people.domains.values, strict=True)
    )
    if release is None:
        return Knowledge(view, people, numeric)
    promise, ceilings = parse_guarantee(release.manifest.guarantee), None
    if people.histogram is not None:
        ceilings = np.array([float(ceiling) for ceiling in promise.ceilings(people.histogram)])
    return Knowledge(view, people, numeric, ceilings, promise.against())


def _published_again(release: Release, table: Table, people: People, number: int) -> View:
    """These people published as the release was: the n-th such table."""
    manifest, records = release.manifest, people.records
    assert records is not None
    rule = manifest.person
    if rule is not None:  # the people of a fresh table have one row each, drawn as several are
        records = records.append_column(rule.column, pa.array(range(len(people)), pa.int64()))
    # its values are recoded already, and its rows counted
    again = replace(table, source=find_source(records), count_rows=None, key=None)
    with scratch_space() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of was said when the release was made
        to = folder / "release"
        mechanism = parse_mechanism(manifest.mechanism)
        if isinstance(mechanism, SamplingPerturbingScaling):
            mechanism = replace(mechanism, merge="none")  # the values are merged already
        promise, joint = manifest.guarantee, manifest.joint
        publish(again, promise, to=to, mechanism=mechanism, joint=joint, seed=number, left_out=1)
        return view_of(Release(to, verify=False), people)


def _singled_out(people: People) -> BoolArray | None:
    """Who has quasi-identifiers that nobody shares."""
    if not people.codes:
        return None
    keys, _ = common_keys(people.codes, [codes[:0] for codes in people.codes])
    alone: BoolArray = np.bincount(keys)[keys] == 1
    return alone


def _guess(attack: Attack, knowledge: Knowledge, targets: People, draws: Draws) -> Guesses:
    if targets.codes:
        return attack.guess(knowledge, targets, draws)
    # without quasi-identifiers everybody looks like everybody
    prior = np.tile(knowledge.view.prior, (len(targets), 1))
    return Guesses.likeliest(attack, knowledge, prior, draws)


def guess_without(
    attack: Attack, targets: People, half: IntArray, known: Sequence[Knowledge], draws: Draws
) -> BoolArray:
    """For whom the attack is right on the fresh release that does not know them.

    `half` is the half that each target is in; `known[h]` is of nobody of half h.
    """
    right = np.zeros(len(targets), np.bool_)
    for side, knowledge in enumerate(known):
        inside = np.flatnonzero(half == side)
        those = targets.take(inside)
        guesses = _guess(attack, knowledge, those, draws.child(f"fresh {side}"))
        right[inside] = guesses.values == those.truth
    return right


def _chosen(attacks: str | Attack | Sequence[str | Attack], kind: type[Release]) -> list[Attack]:
    named = [attacks] if isinstance(attacks, (str, Attack)) else list(attacks)
    forms: list[Attack] = []
    for wanted in named:
        if wanted == ALL:
            forms += attacks_for(kind)
            continue
        attack = parse_attack(wanted) if isinstance(wanted, str) else wanted
        if not issubclass(kind, attack.kinds):
            what = "a raw table" if kind is Release else f"a {kind.kind} release"
            raise UsageError(
                f"The attack '{attack}' does not apply to {what}. Those that do: "
                f"{', '.join(str(other) for other in attacks_for(kind))}."
            )
        forms.append(attack)
    return forms
