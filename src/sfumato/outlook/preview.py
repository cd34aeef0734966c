"""What a promise would mean for a table, told from its counts alone and while one watches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sfumato.columns import label
from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan, possible_mechanisms
from sfumato.engines.publication import steward_notes
from sfumato.engines.shown import domains_of
from sfumato.engines.words import Facts
from sfumato.errors import UsageError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.mechanisms import Mechanism, given_mechanism
from sfumato.outlook.prediction import error_by_count, error_by_value
from sfumato.profile import Profile
from sfumato.table import Table
from sfumato.table.staging import stage

USUAL_COUNT = 500  # errors by value are told for counts of this size


def preview(
    profile: Profile,
    guarantee: Guarantee | str,
    mechanism: Mechanism | str | None = None,
    *,
    exact: bool = False,
    table: Table | None = None,
) -> dict[str, Any]:
    """What `publish` would promise and cost, as the page shows it; nothing is published, the table
    is not read.

    `ceilings` have the chance that the promise allows of every value, `by_value` the error of a
    count of 500 of it, or of all who have it; `errors` by size of count. An error is None where
    nothing can be told.

    The profile has its cells where a mechanism looks at them (`engines.choosing.with_counts`).
    Raises `InfeasibleGuarantee`, as `publish` would. Unless `exact`, mechanisms that count groups
    of people are not compared: then it is `quick`. What follows from its domains the `table` says,
    where it is given.

    >>> import numpy as np
    >>> from sfumato.profile import Histogram
    >>> counts = Histogram("disease", ("flu", "HIV", "none"), np.array([400, 100, 500]))
    >>> seen = preview(Profile(1000, {"disease": counts}), "l-diversity(2)")
    >>> seen["mechanism"], seen["ceilings"][0]["ceiling"]
    ('optimal', 0.5)
    """
    guarantee = parse_guarantee(guarantee).for_columns(list(profile.histograms))
    mechanism = given_mechanism(mechanism)
    several = len(profile.histograms) > 1  # then blocks are for who names them
    possible = looked_at(guarantee, mechanism, exact=exact and not several)
    lacking = profile.cells is None and any(candidate.needs_cells for candidate in possible)
    if lacking or (profile.binned is None and any(candidate.needs_bins for candidate in possible)):
        raise UsageError(f"{possible[0]} looks at groups of people: count them first.")
    named = possible[0] if len(possible) == 1 else None
    chosen, plan = choose_plan(profile, guarantee, named, Draws.system())
    unpriced = [] if several else _not_priced(guarantee, mechanism, possible)
    guarantee = chosen.promised(guarantee)
    ceilings, errors, by_value = list[dict[str, Any]](), list[dict[str, Any]](), []
    for column, histogram in profile.histograms.items():
        told = [label(value) for value in histogram.values]
        limits = zip(told, histogram.shares, guarantee.ceilings(histogram), strict=True)
        ceilings += [
            {"column": column, "value": value, "share": float(share), "ceiling": float(ceiling)}
            for value, share, ceiling in limits
        ]
        predicted = error_by_count(plan, profile, column)
        errors += [
            {"column": column, "count": n, "error": _finite(e)} for n, e in predicted.items()
        ]
        values = error_by_value(plan, profile, column, USUAL_COUNT)
        by_value += [{"column": column, "value": label(v), "error": _finite(e)} for v, e in values]
    domains = {} if table is None else domains_of(stage(table), plan.kind)
    words = Facts.of_plan(chosen, guarantee, plan, profile.histograms, domains)
    return {
        "feasible": True,
        "guarantee": str(guarantee),
        "mechanism": str(chosen),
        "quick": bool(unpriced),
        "statement": words.statement(),
        "does_not_protect": guarantee.unprotected(),
        "caveats": words.caveats(),
        "notes": [*steward_notes(profile, guarantee), *unpriced],
        "ceilings": ceilings,
        "errors": errors,
        "by_value": by_value,
    }


def looked_at(guarantee: Guarantee, mechanism: Mechanism | None, *, exact: bool) -> list[Mechanism]:
    """The mechanisms that a preview compares.

    One that counts groups of people first is looked at where it is named or `exact` is asked for:
    `publish` chooses it only where it is predicted better than what is shown.
    """
    possible = possible_mechanisms(guarantee, mechanism)
    quick = [candidate for candidate in possible if not candidate.needs_bins]
    return possible if exact or not quick else quick


def _not_priced(
    guarantee: Guarantee, mechanism: Mechanism | None, priced: Sequence[Mechanism]
) -> list[str]:
    """What `publish` compares and this preview did not, in a sentence."""
    others = [one for one in possible_mechanisms(guarantee, mechanism) if one not in priced]
    names = " and ".join(map(str, others))
    sentence = (
        f"Publishing looks at {names} too and takes it where it is predicted better: errors are at "
        "most those shown here. Exact figures compare it."
    )
    return [sentence] if others else []


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
