"""Which draws and which plan a run uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from sfumato.columns import label, list_some, value_text
from sfumato.draws import Draws
from sfumato.engines.binning import count_binned
from sfumato.engines.counting import Progress, count_cells, count_holdings, take_profile
from sfumato.errors import UsageError
from sfumato.guarantees import DEFAULT_PROMISE, Guarantee
from sfumato.mechanisms import MECHANISMS, Mechanism, Plan, mechanisms_for
from sfumato.mechanisms.buckets import LocalBuckets, OptimalBuckets
from sfumato.profile import Holdings, Profile
from sfumato.table import Table
from sfumato.table.staging import no_progress, stage
from sfumato.textform import decimal_text, rational

MOST_IN_BLOCKS = 1000  # values: answers from blocks take seconds with more, so a default has none


def choose_draws(table: Table, seed: int | None, key_file: str | Path | None) -> Draws:
    """The draws a run asks for: secure ones unless told otherwise."""
    if seed is not None and key_file is not None:
        raise UsageError("Give a seed or a key file, not both.")
    if key_file is not None:
        if table.key is None:
            raise UsageError("A key file ties draws to people: name their key column with --key.")
        return Draws.from_key_file(key_file)
    return Draws.system() if seed is None else Draws.from_seed(seed)


def possible_mechanisms(guarantee: Guarantee, mechanism: Mechanism | None) -> list[Mechanism]:
    """The given mechanism, or all that `publish` chooses from; refused where none keeps it.

    >>> from sfumato.guarantees import SmallSum
    >>> [str(mechanism) for mechanism in possible_mechanisms(SmallSum(3), None)]
    ['splu']
    """
    if mechanism is not None and not mechanism.keeps(guarantee):
        able = [name for name, cls in MECHANISMS.items() if cls().keeps(guarantee)]
        raise UsageError(
            f"The mechanism '{mechanism}' does not keep '{guarantee}'. "
            f"Mechanisms that do: {', '.join(able) or 'none yet'}."
        )
    mechanisms = mechanisms_for(guarantee) if mechanism is None else [mechanism]
    if not mechanisms:
        raise UsageError(f"No mechanism keeps '{guarantee}' yet.")
    return mechanisms


def with_counts(profile: Profile, possible: Sequence[Mechanism], table: Table) -> Profile:
    """The profile with its cells, bins or kinds, where a mechanism in question looks at them.

    Of many values bins are counted for a mechanism that was named, not for one among several.
    """
    alone, needs_bins = len(possible) == 1, any(candidate.needs_bins for candidate in possible)
    if len(profile.histograms) > 1:
        if profile.holdings is None and any(candidate.needs_holdings for candidate in possible):
            profile = replace(profile, holdings=count_holdings(table, profile.histograms))
        holdings, needs_bins = profile.holdings, needs_bins and alone
    else:
        (histogram,) = profile.histograms.values()
        if profile.cells is None and any(candidate.needs_cells for candidate in possible):
            profile = replace(profile, cells=count_cells(table, histogram.column))
        holdings = Holdings.one(histogram)
        needs_bins &= alone or len(histogram.values) <= MOST_IN_BLOCKS
    if needs_bins and profile.binned is None and holdings is not None:
        profile = replace(profile, binned=count_binned(table, holdings))
    return profile


def profile_for(table: Table, guarantee: Guarantee, mechanism: Mechanism | None = None) -> Profile:
    """The counts of a table that planning needs, taken on this machine."""
    table = stage(table)
    return with_counts(take_profile(table), possible_mechanisms(guarantee, mechanism), table)


def choose_plan(
    profile: Profile,
    guarantee: Guarantee,
    mechanism: Mechanism | None,
    draws: Draws,
    runs: tuple[type[Plan], ...] = (Plan,),
    progress: Progress = no_progress,
) -> tuple[Mechanism, Plan]:
    """The given mechanism's plan, or the plan with the smallest predicted error; where that is one
    of optimal buckets, of local ones if they serve.

    Plans whose promise is narrower than the guarantee are only made when they are named.
    `runs` are the kinds of plan that the engine can run. Draws under a key file belong to people,
    so only plans that draw for each record alone can use them.
    """
    possible = possible_mechanisms(guarantee, mechanism)
    if mechanism is None and profile.binned is None:
        # a profile that counts no groups of people is enough for the others
        possible = [candidate for candidate in possible if not candidate.needs_bins] or possible
    named = " and ".join(str(candidate) for candidate in possible)
    planning, local = draws.child("plan"), None
    if mechanism is None:  # errors of blocks follow from what groups of people have
        local = next((each for each in possible if isinstance(each, LocalBuckets)), None)
        possible = [candidate for candidate in possible if candidate is not local]
    plans = []
    for done, candidate in enumerate(possible):
        progress(f"planning {candidate}", done, len(possible))
        plans.append((candidate, candidate.plan(profile, candidate.promised(guarantee), planning)))
    plans = [(candidate, plan) for candidate, plan in plans if isinstance(plan, runs)]
    if not plans:
        raise UsageError(
            f"{named} must see all records at once, so it runs on one machine only. Publish with "
            "--engine local, or let optimal buckets keep the promise: they publish the "
            "quasi-identifiers as they are, on any engine."
        )
    if draws.origin == "key-file":
        plans = [(candidate, plan) for candidate, plan in plans if plan.draws_for_people]
        if not plans:
            raise UsageError(
                f"{named} would place people by their rank in the table or draw for whole groups, "
                "so a person would not be published alike each time. With --key-file use a "
                "mechanism that draws for each record alone, such as uniform."
            )
    if mechanism is None:  # a default does not change the adversary, if it can be helped
        plans = [(candidate, plan) for candidate, plan in plans if not plan.narrower] or plans
    best = plans[0]  # what it would be compared by may take a while
    if len(plans) > 1:
        best = min(plans, key=lambda pair: pair[1].compared_error(guarantee))
    if local and isinstance(best[0], OptimalBuckets) and local.serves(profile, guarantee):
        return local, local.plan(profile, guarantee, planning)
    return best


def left_out_share(given: object) -> Fraction:
    """The share of the people whom a promise may leave out.

    >>> left_out_share("1/4")
    Fraction(1, 4)
    """
    share = rational(given, "left_out")
    if not 0 <= share <= 1:
        raise UsageError(
            f"'left_out' is a share of the people, from 0 to 1. Got {decimal_text(share)} instead."
        )
    return share


def refuse_left_out(profile: Profile, guarantee: Guarantee, most: Fraction) -> None:
    """Refuse a promise that leaves out more people than that, and lets their values be shown.

    Values that the steward named as open do not count: that they need no protection was said.
    """
    if not guarantee.shows_left_out:
        return
    for histogram in profile.histograms.values():
        unasked = set(guarantee.left_out(histogram)) - set(guarantee.open_codes(histogram))
        codes = sorted(code for code in unasked if histogram.counts[code])
        # who has several rows may hold several of them, and is one person
        people = min(int(histogram.counts[codes].sum()), histogram.rows)
        if people > most * histogram.rows:
            named = ";".join(label(histogram.values[code]) for code in codes)
            raise UsageError(
                f"'{guarantee}' promises nothing about {people:,} of {histogram.rows:,} people "
                f"({people / histogram.rows:.0%}), those with "
                f"{list_some([value_text(histogram.values[code]) for code in codes])} in column "
                f"{histogram.column!r}: the release may show their values as they are. Choose a "
                "stricter promise; or say that these values need no protection, with "
                f"open='{named}' in the promise; or allow it with "
                f"--left-out {_up(people, histogram.rows)}."
            ).repaired_by(guarantee=DEFAULT_PROMISE)


def _up(people: int, rows: int) -> str:
    """A share in hundredths that so many people are not above."""
    return decimal_text(Fraction(-(-100 * people // rows), 100))
