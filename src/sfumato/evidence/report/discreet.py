"""What a report may say of the raw table: nothing that the release hides.

A report goes beside a release, and further than the table may. So figures that were measured with
the table are shown only where they cannot be turned back into a count of a sensitive value:

- a check of the audit shows its figures only where it is listed here; of every other check the
  verdict alone is shown (`sfumato audit` tells the rest to the steward);
- shares are rounded to steps of at least 1 % and at least ten people, and intervals outwards;
- errors are means over at least ten questions, rounded to two digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from sfumato.attacks import Outcome
from sfumato.audits import Finding
from sfumato.guarantees import Guarantee, LDiversity, RhoPrivacy
from sfumato.pages.charts import Figure
from sfumato.release import Release

STEP = 0.01
PEOPLE = 10  # a share of a few people is shown in steps of so many
QUESTIONS = 10  # a mean over fewer is not shown

# checks, by how they begin, whose figures follow from the release, its operator and the promise
_PUBLIC = (
    "randomness",
    "quasi columns",
    "group size of ",
    "values handed out so that the promise can hold",
    "values of ",  # that a part leaves possible: from the operator and the published parts
)
# whose figures are numbers of differences, 0 where all is well
_DIFFERENCES = (
    "rows",
    "sizes",
    "histogram",
    "members",
    "room",
    "ceilings",
    "group sizes",
    "copies of the sample",
    "scales of parts",
    "Chernoff's bound",
    "records published with a borrowed group of ",
    "rows and records without ",
    "rows whose value comes from outside their matches",
    "rows that do not show exactly their matches",
    "records outside what a row of their group shows",
)
# whose figure is a chance that tells nothing finer than its first digits
_CHANCES = ("fit of ", "published counts of ", "exact tails", "chance of a value of ")


def shown_finding(finding: Finding, release: Release, guarantee: Guarantee) -> Finding:
    """The finding as a report shows it; a check that is not listed keeps its verdict alone."""
    check = finding.check
    if check.startswith("amplification of "):
        # fine limits follow from the shares: γₓ = θ(1 − fₓ)/(1 − θfₓ) could be solved for fₓ
        limit = finding.limit if isinstance(guarantee, RhoPrivacy) else None
        return replace(finding, limit=limit)
    if check.startswith("largest posterior of "):
        told = discloses_counts(release) or isinstance(guarantee, LDiversity)
        return finding if told else _verdict(finding)
    if check.startswith(_PUBLIC):
        return finding
    if check.startswith(_DIFFERENCES):
        return finding if finding.holds and not finding.witness else replace(finding, witness=None)
    if check.startswith(_CHANCES) and isinstance(finding.worst, float):
        return replace(finding, worst=two_digits(finding.worst), witness=None)
    return _verdict(finding)


def discloses_counts(release: Release) -> bool:
    """Whether the release itself shows how many people have each sensitive value."""
    if release.kind == "bucketed":
        return not release.plan.get("fakes", 0)
    return release.kind == "generalized"


def _verdict(finding: Finding) -> Finding:
    return Finding(finding.check, finding.holds)


@dataclass(frozen=True)
class ShownAttack:
    """What an attack reached, in coarse figures: who is exposed is for the steward's eyes."""

    attack: str
    column: str
    success: Figure
    prior: float
    advantage: Figure
    over: str  # what the advantage is over
    step: float

    def to_json(self) -> dict[str, Any]:
        return {
            "attack": self.attack,
            "column": self.column,
            "success": vars(self.success),
            "prior": self.prior,
            "advantage": vars(self.advantage),
            "over": self.over,
            "rounded_to": self.step,
        }


def shown_attack(outcome: Outcome) -> ShownAttack:
    """An outcome without people and in steps that hide the counts behind it."""
    step = max(STEP, PEOPLE / max(outcome.targets, 1))
    fresh = outcome.over_fresh is not None
    return ShownAttack(
        outcome.attack,
        outcome.column,
        _coarse(Figure(outcome.success.value, outcome.success.low, outcome.success.high), step),
        _rounded(outcome.prior, step),
        _coarse(
            Figure(outcome.advantage.value, outcome.advantage.low, outcome.advantage.high), step
        ),
        "the same attack without the person" if fresh else "the best guess without a release",
        step,
    )


def _coarse(figure: Figure, step: float) -> Figure:
    low, high = math.floor(figure.low / step) * step, math.ceil(figure.high / step) * step
    return Figure(_rounded(figure.value, step), round(low, 6), round(high, 6))


def _rounded(share: float, step: float) -> float:
    return round(round(share / step) * step, 6)


def two_digits(number: float) -> float:
    """
    >>> two_digits(0.79541), two_digits(12345.0), two_digits(0.0)
    (0.8, 12000.0, 0.0)
    """
    return float(f"{number:.2g}")
