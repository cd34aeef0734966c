"""What a release charges to the account of a person: how far its draw raises odds, exactly.

An operator raises the odds of value x at most γ_x times, and independent draws multiply. Of the
other draws the largest γ counts, because the value may have been another then: whoever knows how
values follow one another learns this one by a draw of that one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from msgspec import Struct

from sfumato.engines.run import Run
from sfumato.errors import UsageError
from sfumato.guarantees import OddsGuarantee, parse_guarantee
from sfumato.guarantees.words import ANYBODY
from sfumato.mechanisms.perturbed import PerturbedPlan
from sfumato.release import KINDS
from sfumato.table.staging import stated_values

_WHY = {
    "partitioned": "who is in which part follows from everybody's values",
    "splu": "decoys are other people's values",
    "sps": "who is sampled follows from counts",
    "fine-grain": "its operator was fitted to counts",
}


class Charge(Struct, frozen=True):
    """A draw in an account: its largest γ, None without bound, and what it leaves of the limit of
    some value at least, limit over γ; None where nothing is limited."""

    account: str
    most: Fraction | None
    room: Fraction | None


def used(charges: Sequence[Charge]) -> Fraction | float:
    """The largest part of a value's limit that draws use up together: above 1 is too much.

    >>> used([Charge("ill", Fraction(2), Fraction(3)), Charge("ill", Fraction(3), Fraction(2))])
    Fraction(1, 1)
    """
    parts: list[Fraction | float] = [Fraction(0)]
    for index, charge in enumerate(charges):
        others = [other.most for other in (*charges[:index], *charges[index + 1 :])]
        if charge.room is not None:
            lost = None in others or not charge.room
            parts.append(math.inf if lost else math.prod(m or 1 for m in others) / charge.room)
    return max(parts)


def charge_of(run: Run, column: str, account: str, promised: str) -> Charge:
    """What a release draws in a column; refused where no product of odds says all that it tells."""
    promise, plan = parse_guarantee(promised), run.plan
    if not isinstance(promise, OddsGuarantee):
        if KINDS[plan.kind].shows_values and str(run.guarantee) == promised:
            return Charge(account, None, Fraction(1))  # once, and nothing beside it
        raise UsageError(
            f"The ledger is for '{promised}', one release of everybody in buckets or ranges. For "
            "several begin another, with rho-privacy or fine-rho-privacy."
        )
    operators = plan.operators if isinstance(plan, PerturbedPlan) and not plan.fitted else {}
    chosen_by_counts = run.mechanism is None and run.guarantee.against() != ANYBODY
    if column not in operators or chosen_by_counts:
        why = _WHY.get(run.chosen.name, "two releases of the same people can be intersected")
        raise UsageError(
            f"A ledger multiplies how far draws raise odds, and no product covers '{run.chosen}': "
            f"{'counts chose it' if chosen_by_counts else why}. With --ledger use --mechanism "
            "uniform, or fine-grain under fine-rho-privacy with limits."
        )
    histogram = run.profile.histograms[column]
    if histogram.values != stated_values(column, run.table.domains.get(column)):
        texts = [f'"{text}"' if "," in text else text for text in map(str, histogram.values)]
        raise UsageError(
            f"The domain of column {column!r} follows from who is in the table, which no product "
            "of odds covers. With --ledger state it, with values that nobody has today: "
            f"--domain '{column}={','.join(texts)}'."
        )
    gains = operators[column].odds_gains()
    limits = promise.stated_limits(replace(histogram, column=account))
    pairs = [(gain, limit) for gain, limit in zip(gains, limits, strict=True) if limit]
    rooms = [limit / gain if gain else Fraction(0) for gain, limit in pairs]
    bounded = [gain for gain in gains if gain is not None]
    most = max(bounded) if len(bounded) == len(gains) else None
    return Charge(account, most, min(rooms, default=None))
