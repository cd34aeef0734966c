"""Limits on what attacks may reach: `--require 'advantage<=0.05'`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from sfumato.attacks.protocol import Outcome
from sfumato.checks.requirements import RequirementResult
from sfumato.errors import UsageError
from sfumato.textform import decimal_text, rational

FIGURES = ("success", "advantage", "over_prior", "over_fresh")  # intervals of an outcome
_LIMIT = re.compile(r"^\s*([a-z_]+)(?:\.(low|high))?\s*<=\s*(.+?)\s*$")


AttackLimit = partial[list[RequirementResult]]  # of outcomes


def parse_limit(text: str) -> AttackLimit:
    """Read a limit from its text form, `figure<=number`; `figure.high` is an interval's upper end.
    It is a function of outcomes: no figure of any attack may be above it.

    >>> parse_limit("advantage.high <= 1/20").args
    ('advantage.high<=0.05', 'advantage', 'high', Fraction(1, 20))
    """
    parts = _LIMIT.match(text)
    if parts is None or parts[1] not in FIGURES:
        raise UsageError(
            f"{text!r} is no limit on an attack. Write 'advantage<=0.05', or another of: "
            f"{', '.join(FIGURES)}; with .low or .high for an end of the interval."
        )
    limit, end = rational(parts[3], parts[1]), f".{parts[2]}" if parts[2] else ""
    stated = f"{parts[1]}{end}<={decimal_text(limit)}"
    return partial(_held, stated, parts[1], parts[2] or "value", limit)


def _held(
    stated: str, figure: str, end: str, limit: Fraction, outcomes: Sequence[Outcome]
) -> list[RequirementResult]:
    """Per column, the attack with the largest figure, and the row it exposes most."""
    results = []
    for column in dict.fromkeys(outcome.column for outcome in outcomes):
        reached = []
        for outcome in outcomes:
            if (interval := getattr(outcome, figure)) is None:
                raise UsageError(
                    f"'{stated}' needs the same attack without the person: leave out --no-fresh, "
                    f"or limit over_prior. {outcome.note or ''}".strip()
                )
            if outcome.column == column:
                reached.append((float(getattr(interval, end)), outcome))
        most, worst = max(reached, key=lambda pair: pair[0])
        row = worst.exposed[0].row if worst.exposed else None
        kept = most <= limit
        results.append(
            RequirementResult(stated, column, kept, most, float(limit), row, worst.attack)
        )
    return results
