"""Rubin's rules: one estimate from the estimates of several completed tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.errors import UsageError
from sfumato.queries.answer import estimate_text
from sfumato.queries.sources import Request


@dataclass(frozen=True, repr=False)
class Combined:
    """An estimate from m completed tables.

    `within` is the mean of the variances that were given, `between` the variance of the estimates;
    `freedom` are the degrees of freedom of its t interval; `missing` is the share of the variance
    that is due to what the release does not tell.
    """

    value: float
    stderr: float
    low: float
    high: float
    freedom: float
    within: float
    between: float
    missing: float
    confidence: float

    def __repr__(self) -> str:
        return estimate_text(self.value, self.stderr, self.low, self.high, self.confidence)


def combine(
    estimates: Sequence[float],
    variances: Sequence[float] | None = None,
    *,
    confidence: float = 0.95,
    complete_freedom: float = math.inf,
) -> Combined:
    """One estimate from those of several completed tables, by Rubin's rules.

    `variances` are the squared standard errors that a usual analysis of each table gives. Leave
    them out for figures about the people in the table, such as counts, which a completed table
    has exactly. `complete_freedom` are the degrees of freedom of the usual analysis (Barnard and
    Rubin 1999).

    >>> found = combine([10.0, 12.0, 11.0, 13.0, 9.0], [4.0] * 5)
    >>> found
    11.0 ± 2.6 (95 %: 5.5 … 16.5)
    >>> round(found.freedom, 1), round(found.missing, 2)
    (21.8, 0.43)
    """
    from scipy.stats import t

    many = len(estimates)
    if many < 2:
        raise UsageError(
            f"Rubin's rules need the estimates of at least two completed tables. Got {many}."
        )
    if variances is None:
        variances = [0.0] * many
    if len(variances) != many:
        raise UsageError(f"There are {many} estimates but {len(variances)} variances.")
    if not all(map(math.isfinite, [*estimates, *variances])) or min(variances) < 0:
        raise UsageError("Estimates are finite numbers, and variances are not negative.")
    Request(confidence)  # refuses what is none
    value = math.fsum(estimates) / many
    within = math.fsum(variances) / many
    between = math.fsum((estimate - value) ** 2 for estimate in estimates) / (many - 1)
    total = within + (1 + 1 / many) * between
    missing = (1 + 1 / many) * between / total if total else 0.0
    freedom = _freedom(many, missing, complete_freedom)
    stderr = math.sqrt(total)
    reach = float(t.ppf((1 + confidence) / 2, freedom)) * stderr
    return Combined(
        value, stderr, value - reach, value + reach, freedom, within, between, missing, confidence
    )


def _freedom(many: int, missing: float, complete: float) -> float:
    """Of the t law: Rubin's, and with a finite analysis that of Barnard and Rubin."""
    between = (many - 1) / missing**2 if missing else math.inf
    if math.isinf(complete):
        return between
    observed = (complete + 1) / (complete + 3) * complete * (1 - missing)
    if not observed:
        return between
    return 1 / (1 / between + 1 / observed)
