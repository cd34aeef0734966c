"""Limits on what attacks may reach: `--require 'advantage<=0.05'`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.attacks.protocol import Outcome
from sfumato.checks.requirements import RequirementResult
from sfumato.errors import UsageError
from sfumato.textform import decimal_text, rational

FIGURES = ("success", "advantage", "over_prior", "over_fresh")  # intervals of an outcome
_LIMIT = re.compile(r"^\s*([a-z_]+)(?:\.(low|high))?\s*<=\s*(.+?)\s*$")


@dataclass(frozen=True)
class AttackLimit:
    """A figure of every attack must not be above a limit; `end` means that end of its interval."""

    figure: str
    limit: Fraction
    end: str = "value"

    def __str__(self) -> str:
        """
        >>> print(parse_limit("advantage.high <= 1/20"))
        advantage.high<=0.05
        """
        end = "" if self.end == "value" else f".{self.end}"
        return f"{self.figure}{end}<={decimal_text(self.limit)}"

    def held(self, outcomes: Sequence[Outcome]) -> list[RequirementResult]:
        """Per column, the attack with the largest figure, and the row it exposes most."""
        worst: dict[str, tuple[float, Outcome]] = {}
        for outcome in outcomes:
            interval = getattr(outcome, self.figure)
            if interval is None:
                raise UsageError(
                    f"'{self}' needs the same attack without the person: leave out --no-fresh, or "
                    f"limit over_prior. {outcome.note or ''}".strip()
                )
            figure = float(getattr(interval, self.end))
            if outcome.column not in worst or figure > worst[outcome.column][0]:
                worst[outcome.column] = (figure, outcome)
        return [
            RequirementResult(
                str(self),
                column,
                figure <= self.limit,
                figure,
                float(self.limit),
                outcome.exposed[0].row if outcome.exposed else None,
                outcome.attack,
            )
            for column, (figure, outcome) in worst.items()
        ]


def parse_limit(text: str) -> AttackLimit:
    """Read a limit from its text form, `figure<=number`; `figure.high` is an interval's upper end.

    >>> parse_limit("success<=0.3")
    AttackLimit(figure='success', limit=Fraction(3, 10), end='value')
    """
    parts = _LIMIT.match(text)
    if parts is None or parts[1] not in FIGURES:
        raise UsageError(
            f"{text!r} is no limit on an attack. Write 'advantage<=0.05', or another of: "
            f"{', '.join(FIGURES)}; with .low or .high for an end of the interval."
        )
    limit = rational(parts[3], parts[1])
    return AttackLimit(parts[1], limit, parts[2] or "value")
