"""People with several rows: how many rows of a person are published, and what is promised of them.

Rows are put in a random order and chosen by `ranking`, on every engine in its own way.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan, possible_mechanisms, with_counts
from sfumato.engines.ranking import RankedRows, rank_rows
from sfumato.errors import InfeasibleGuarantee, UsageError
from sfumato.guarantees import (
    CeilingGuarantee,
    CeilingsOfPeople,
    Guarantee,
    OddsGuarantee,
    OddsOfPeople,
)
from sfumato.mechanisms import Mechanism
from sfumato.profile import Kinds, Profile
from sfumato.release import PersonRule
from sfumato.table import Table

TRIED = (1, 2, 3, 4)  # rows per person that are compared where none are asked for
Ranking = Callable[[Table, Draws], RankedRows]


@dataclass(frozen=True, eq=False)
class ForPeople:
    """A table with at most so many rows of a person, and the promise that plans are made with."""

    table: Table
    guarantee: Guarantee
    rule: PersonRule | None = None

    def counted(self, profile: Profile) -> Profile:
        """The people by value, for what is said of people: each may have several values."""
        if isinstance(self.guarantee, OddsOfPeople | CeilingsOfPeople):
            return replace(profile, histograms=self.guarantee.holders)
        return profile


def for_people(
    table: Table,
    guarantee: Guarantee,
    mechanism: Mechanism | None,
    draws: Draws,
    ranking: Ranking = rank_rows,
) -> ForPeople:
    """What is published of a table of people: all of it, where each has one row.

    `ranking` is an engine's way to put rows in a random order.
    """
    if table.person is None:
        return ForPeople(table, guarantee)
    ranked = ranking(table, draws.child("people"))
    if not ranked.people:
        return ForPeople(table, guarantee)  # nobody: whoever counts the table says so
    asked = table.rows_per_person
    if asked is not None:
        return _with_rows(ranked, asked, guarantee, mechanism)
    able = isinstance(guarantee, OddsGuarantee) and (mechanism is None or mechanism.several_rows)
    tried = [rows for rows in TRIED if rows <= ranked.most] if able else [1]
    found = [_with_rows(ranked, rows, guarantee, mechanism) for rows in tried]
    if len(found) == 1:
        return found[0]
    return min(found, key=lambda each: _loss(each, mechanism, ranked))


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
    chosen = rank_rows(table, draws).chosen([1])
    return replace(chosen, person=None, rows_per_person=None)


def _with_rows(
    ranked: RankedRows, rows: int, guarantee: Guarantee, mechanism: Mechanism | None
) -> ForPeople:
    shown = list(range(1, rows + 1))
    table = ranked.chosen(shown)
    assert table.person is not None
    rule = PersonRule(table.person, rows, ranked.withheld(shown))
    if rows == 1:
        return ForPeople(table, guarantee, rule)
    if isinstance(guarantee, CeilingGuarantee):
        return _in_buckets(ranked, shown, guarantee, mechanism)
    if not isinstance(guarantee, OddsGuarantee):
        raise UsageError(
            f"'{guarantee}' can be kept for people of whom one row each is published. Give "
            "--rows-per-person 1, or a promise about odds or ceilings, such as rho-privacy or "
            "l-diversity."
        )
    promise = OddsOfPeople(guarantee, ranked.holders(table), rows)
    if mechanism is not None and not mechanism.keeps(promise):
        raise UsageError(
            f"'{mechanism}' keeps its promise for one row of a person. Give --rows-per-person 1, "
            "or use uniform, whose draws hold for several rows together."
        )
    return ForPeople(table, promise, rule)


def _in_buckets(
    ranked: RankedRows,
    shown: list[int],
    guarantee: CeilingGuarantee,
    mechanism: Mechanism | None,
) -> ForPeople:
    """All rows of a person in one bucket, among people with as many rows.

    Where those with so many rows are too few, or hold a value too often, for any bucket of them,
    they show a row less each: `shown[n − 1]` rows of people with n.
    """
    if mechanism is not None and not mechanism.several_rows:
        raise UsageError(
            f"'{mechanism}' keeps its promise for one row of a person. Give --rows-per-person 1, "
            "or use optimal, whose buckets hold people with all their rows."
        )
    shown = shown[: ranked.most]  # a release lists as many rows of people as there are
    blocks = mechanism is not None and mechanism.needs_bins
    columns = ranked.person_columns() if blocks else ()
    while max(shown) > 1:
        table = replace(ranked.chosen(shown), person_columns=columns)
        counts = ranked.counts(table)
        kinds = counts.kinds(profile := counts.profile())
        assert kinds is not None  # people have several rows
        holders = {name: kinds.holders(each) for name, each in profile.histograms.items()}
        promise = CeilingsOfPeople(guarantee, holders, max(shown))
        too_many = crowded_rows(kinds, profile, promise)
        if not too_many:
            rule = PersonRule(str(table.person), max(shown), ranked.withheld(shown), tuple(shown))
            return ForPeople(table, promise, rule)
        most = max(too_many)
        shown = [number - (number == most) for number in shown]
    return _with_rows(ranked, 1, guarantee, mechanism)


def crowded_rows(kinds: Kinds, profile: Profile, promise: CeilingsOfPeople) -> list[int]:
    """Numbers of rows, above 1, of which even all people together break a ceiling."""
    found = []
    for rows in set(kinds.rows.tolist()) - {1}:
        chosen = kinds.rows == rows
        some = Kinds(kinds.columns, kinds.held[chosen], kinds.counts[chosen])
        for histogram in profile.histograms.values():
            ceilings, held = promise.ceilings(histogram), some.holders(histogram)
            if any(share > most for share, most in zip(held.shares, ceilings, strict=True)):
                found.append(rows)
                break
    return found


def _loss(found: ForPeople, mechanism: Mechanism | None, ranked: RankedRows) -> float:
    """The predicted relative error of a count: by the draws, and by what is withheld.

    √(e² + m·Σ f(1 − f)·(1/n − 1/N)), n of N rows taken as a random sample, in the terms of
    `Plan.predicted_error`, which speaks of the published rows alone.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is chosen is planned again, and warns then
            counts = ranked.counts(found.table)
            possible = possible_mechanisms(found.guarantee, mechanism)
            profile = with_counts(counts.profile(), possible, counts)
            draws = Draws.system()  # for plans that are thrown away
            _, plan = choose_plan(profile, found.guarantee, mechanism, draws)
    except InfeasibleGuarantee:
        return math.inf
    sampled = 0.0
    for histogram in profile.histograms.values():
        shares = histogram.counts / profile.rows
        spread = len(shares) * float((shares * (1 - shares)).sum())
        sampled = max(sampled, spread * (1 / profile.rows - 1 / ranked.rows))
    return math.sqrt(plan.predicted_error() ** 2 + sampled)
