"""What a report may say of the raw table: nothing that the release hides.

A report goes beside a release, and further than the table may. So figures that were measured with
the table are shown only where they cannot be turned back into a count of a sensitive value:

- a finding of the audit shows what its level of disclosure allows, the verdict alone unless its
  check says more (`sfumato audit` tells the rest to the steward);
- shares are rounded to steps of at least 1 % and at least ten people, and intervals outwards;
- errors are means over at least ten questions, rounded to two digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sfumato.attacks import Outcome
from sfumato.audits import CheckResult, Disclosure, Finding
from sfumato.guarantees.words import Standing
from sfumato.results import Interval, Result

STEP = 0.01
PEOPLE = 10  # a share of a few people is shown in steps of so many
QUESTIONS = 10  # a mean over fewer is not shown


def shown_finding(finding: Finding) -> Finding:
    """The finding as a report shows it, by its level of disclosure."""
    level = finding.shown_to
    if level is Disclosure.PUBLIC:
        return finding
    if level is Disclosure.WITHOUT_LIMIT:
        # fine limits follow from the shares: γₓ = θ(1 − fₓ)/(1 − θfₓ) could be solved for fₓ
        return replace(finding, limit=None)
    if level is Disclosure.DIFFERENCES:
        return replace(finding, witness=None, listed=())
    if level is Disclosure.CHANCE and isinstance(finding.value, float):
        value = two_digits(finding.value)
        kept = finding.limit is None or finding.check.direction.allows(value, finding.limit)
        if finding.result is CheckResult.OK and not kept:
            value = finding.value  # so close to the limit that two digits would cross it
        return replace(finding, value=value, witness=None, listed=())
    return finding.bare()


@dataclass(frozen=True, repr=False)
class ShownAttack(Result):
    """What an attack reached, in coarse figures: who is exposed is for the steward's eyes."""

    attack: str
    column: str
    success: Interval
    prior: float
    advantage: Interval
    over: str  # what the advantage is over
    rounded_to: float
    sentence: str
    standing: Standing | None  # whether the promise speaks of such a reader
    ceiling: float | None  # for the steward's eyes: it may follow from counts

    kept = ("ceiling",)


def shown_attack(outcome: Outcome) -> ShownAttack:
    """An outcome without people and in steps that hide the counts behind it."""
    step = max(STEP, PEOPLE / max(outcome.targets, 1))
    return ShownAttack(
        outcome.attack,
        outcome.column,
        _coarse(outcome.success, step),
        _rounded(outcome.prior, step),
        _coarse(outcome.advantage, step),
        outcome.over,
        step,
        outcome.sentence,
        outcome.standing,
        outcome.ceiling,
    )


def _coarse(figure: Interval, step: float) -> Interval:
    low, high = math.floor(figure.low / step) * step, math.ceil(figure.high / step) * step
    return Interval(_rounded(figure.value, step), round(low, 6), round(high, 6))


def _rounded(share: float, step: float) -> float:
    return round(round(share / step) * step, 6)


def two_digits(number: float) -> float:
    """
    >>> two_digits(0.79541), two_digits(12345.0), two_digits(0.0)
    (0.8, 12000.0, 0.0)
    """
    return float(f"{number:.2g}")
