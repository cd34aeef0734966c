"""People with several rows: how many rows of a person are published, and what is promised of them.

Rows are put in a random order and chosen by `ranking`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

from sfumato.columns import value_text
from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan, profile_for
from sfumato.engines.counting import count_holders
from sfumato.engines.ranking import RankedRows, rank_rows
from sfumato.engines.run import Run
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import OddsGuarantee, for_rows
from sfumato.release import PersonRule
from sfumato.table import Table

TRIED = (1, 2, 3, 4)  # rows per person that are compared where none are asked for


def for_people(run: Run) -> Run:
    """The run with what is published of a table of people, and the promise that plans are made
    with: all rows, where each has one."""
    run = replace(run, promise=run.guarantee)
    if run.table.person is None:
        return run
    ranked = rank_rows(run.table, run.draws.child("people"))
    if not ranked.people:
        return run  # nobody: whoever counts the table says so
    asked, named = run.table.rows_per_person, run.mechanism
    if asked is not None:
        return _with_rows(run, ranked, asked)
    able = isinstance(run.guarantee, OddsGuarantee) and (named is None or named.several_rows)
    tried = [rows for rows in TRIED if rows <= ranked.most] if able else [1]
    runs = [_with_rows(run, ranked, rows) for rows in tried]
    return runs[0] if len(runs) == 1 else min(runs, key=lambda each: _loss(each, ranked))


def drawn_note(run: Run) -> str:
    """What drawing one row of each person did to the value whose share it moved most."""
    if run.all_rows is None or not run.rule or not run.rule.suppressed:
        return ""
    moved = [
        (abs(now - before), column, value, before, now)
        for column, drawn in run.profile.histograms.items()
        for value, before, now in zip(
            drawn.values, run.all_rows[column].shares, drawn.shares, strict=True
        )
    ]
    _, column, value, before, now = max(moved, key=lambda each: each[0])
    more = "With --count-rows NAME sums of NAME answer about rows."
    if run.rule.counted:
        more = f"SUM({run.rule.counted}) answers about rows."
    return (
        f"Shares are of people now, one row each: {value_text(value)} in {column!r} has "
        f"{100 * float(before):.1f} % of the rows and {100 * float(now):.1f} % of the drawn "
        f"ones. {more}"
    )


def one_row_each(table: Table, draws: Draws) -> Table:
    """The table with one row of each person, for whoever plans without publishing.

    >>> import pyarrow as pa
    >>> from sfumato.engines.counting import take_profile
    >>> from sfumato.table import read
    >>> stays = pa.table({"who": ["a", "a", "b"], "ill": ["flu", "cold", "HIV"]})
    >>> declared = read(stays, quasi="", sensitive="ill", person="who")
    >>> take_profile(one_row_each(declared, Draws.from_seed(1))).rows
    2
    """
    if table.person is None:
        return table
    if (table.rows_per_person or 1) > 1:
        raise UsageError(
            "What several rows of a person cost is told by 'describe --guarantee' and by 'publish' "
            "alone. Leave --rows-per-person out: one row of each person is looked at here."
        )
    chosen = rank_rows(table, draws).chosen(1)
    return replace(chosen, person=None, rows_per_person=None)


def _with_rows(run: Run, ranked: RankedRows, rows: int) -> Run:
    guarantee, mechanism, table = run.guarantee, run.mechanism, ranked.chosen(rows)
    assert table.person is not None
    rule = PersonRule(table.person, rows, ranked.withheld(rows), table.count_rows or "")
    run = replace(run, table=table, rule=rule)
    if rows == 1:
        return replace(run, all_rows=ranked.histograms)
    if not isinstance(guarantee, OddsGuarantee):
        raise UsageError(
            f"'{guarantee}' is kept for one row of each person, drawn at random: give "
            "--rows-per-person 1, or a guarantee on odds, such as rho-privacy."
        )
    promise = for_rows(guarantee, count_holders(table), rows)
    if mechanism is not None and not mechanism.keeps(promise):
        raise UsageError(
            f"'{mechanism}' keeps its promise for one row of a person. Give --rows-per-person 1, "
            "or use uniform, whose draws hold for several rows together."
        )
    return replace(run, promise=promise)


def _loss(run: Run, ranked: RankedRows) -> float:
    """The predicted relative error of a count: by the draws, and by what is withheld.

    √(e² + m·Σ f(1 − f)·(1/n − 1/N)), n of N rows taken as a random sample, in the terms of
    `Plan.predicted_error`, which speaks of the published rows alone.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is chosen is planned again, and warns then
            profile = profile_for(run.table, run.promise, run.mechanism)
            draws = Draws.system()  # for plans that are thrown away
            _, plan = choose_plan(profile, run.promise, run.mechanism, draws)
    except InfeasibleGuarantee:
        return math.inf
    sampled = 0.0
    for histogram in profile.histograms.values():
        shares = histogram.counts / profile.rows
        spread = len(shares) * float((shares * (1 - shares)).sum())
        sampled = max(sampled, spread * (1 / profile.rows - 1 / ranked.rows))
    return math.sqrt(plan.predicted_error() ** 2 + sampled)
