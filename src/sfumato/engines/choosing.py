"""Which draws and which plan a run uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sfumato.columns import Value
from sfumato.draws import Draws
from sfumato.engines.counting import count_cells
from sfumato.errors import UsageError
from sfumato.guarantees import Guarantee
from sfumato.mechanisms import MECHANISMS, CellPlan, Mechanism, Plan, mechanisms_for
from sfumato.mechanisms.generalized import WholePlan
from sfumato.profile import Cells, Profile
from sfumato.table import Table

CountCells = Callable[[Table, str, tuple[Value, ...]], Cells]


def choose_draws(table: Table, seed: int | None, key_file: str | Path | None) -> Draws:
    """The draws a run asks for: secure ones unless told otherwise."""
    if seed is not None and key_file is not None:
        raise UsageError("Give a seed or a key file, not both.")
    if key_file is not None:
        if table.key is None:
            raise UsageError("A key file ties draws to people: name their key column with --key.")
        return Draws.from_key_file(key_file)
    return Draws.system() if seed is None else Draws.from_seed(seed)


def with_cells(
    table: Table,
    profile: Profile,
    guarantee: Guarantee,
    mechanism: Mechanism | None,
    count: CountCells = count_cells,
) -> Profile:
    """The profile with its cells, where a mechanism in question looks at them."""
    ways = mechanisms_for(guarantee) if mechanism is None else [mechanism]
    if not any(way.needs_cells for way in ways) or len(profile.histograms) != 1:
        return profile
    (histogram,) = profile.histograms.values()
    return replace(profile, cells=count(table, histogram.column, histogram.values))


def choose_plan(
    profile: Profile,
    guarantee: Guarantee,
    mechanism: Mechanism | None,
    draws: Draws,
    *,
    whole: bool = True,
) -> tuple[Mechanism, Plan]:
    """The given mechanism's plan, or the plan with the smallest predicted error.

    Draws under a key file belong to people, so only plans that publish a record by itself, not by
    its rank in the stream, can use them. `whole` says whether the engine can run plans that look at
    all records at once.
    """
    if mechanism is not None and not mechanism.keeps(guarantee):
        able = [name for name, kind in MECHANISMS.items() if kind().keeps(guarantee)]
        raise UsageError(
            f"The mechanism '{mechanism}' does not keep '{guarantee}'. "
            f"Mechanisms that do: {', '.join(able) or 'none yet'}."
        )
    ways = mechanisms_for(guarantee) if mechanism is None else [mechanism]
    if not ways:
        raise UsageError(f"No mechanism keeps '{guarantee}' yet.")
    plans = [(way, way.plan(profile, guarantee, draws.child("plan"))) for way in ways]
    if not whole:
        plans = [(way, plan) for way, plan in plans if not isinstance(plan, WholePlan)]
        if not plans:
            raise UsageError(
                f"{' and '.join(str(way) for way in ways)} must see all records at once, so it "
                "runs on one machine only. Publish with --engine local, or let optimal buckets "
                "keep the promise: they publish the quasi columns as they are, on any engine."
            )
    if draws.origin == "key-file":
        plans = [
            (way, plan)
            for way, plan in plans
            if not plan.needs_rank and not isinstance(plan, CellPlan)
        ]
        if not plans:
            raise UsageError(
                f"{' and '.join(str(way) for way in ways)} would place people by their rank in the "
                "table or draw for whole groups, so a person would not be published alike each "
                "time. With --key-file use a mechanism that draws for each record alone, such as "
                "uniform."
            )
    return min(plans, key=lambda pair: pair[1].predicted_error())
