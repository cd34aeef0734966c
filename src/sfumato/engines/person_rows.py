"""People with several rows: one row of each is published, drawn by `ranking`."""

from __future__ import annotations

from dataclasses import replace

from sfumato.columns import value_text
from sfumato.draws import Draws
from sfumato.engines.ranking import rank_rows
from sfumato.engines.run import Run
from sfumato.release import PersonRule
from sfumato.table import Table


def for_people(run: Run) -> Run:
    """The run with one row of each person, where the table says whose rows they are."""
    run = replace(run, promise=run.guarantee)
    if run.table.person is None:
        return run
    ranked = rank_rows(run.table, run.draws.child("people"))
    if not ranked.people:
        return run  # nobody: whoever counts the table says so
    rule = PersonRule(run.table.person, ranked.withheld, run.table.count_rows or "")
    return replace(run, table=ranked.chosen(), rule=rule, all_rows=ranked.histograms)


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
    return replace(rank_rows(table, draws).chosen(), person=None)
