"""Three promises for somebody who knows what the counts are for: safer, balanced, sharper.

Each is the strongest that keeps its error, of those that leave the fewest people without a ceiling.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sfumato.draws import Draws
from sfumato.engines.counting import Progress, no_progress
from sfumato.engines.people import one_row_each
from sfumato.errors import UsageError
from sfumato.guarantees import Guarantee
from sfumato.guarantees.value_table import label
from sfumato.outlook.advise.advice import Option
from sfumato.outlook.advise.families import families, stated_ceilings
from sfumato.outlook.advise.search import solve
from sfumato.outlook.advise.study import Study
from sfumato.profile import Histogram
from sfumato.table import Table
from sfumato.workloads import SizeClass

# times the error that was asked for
WAYS = {"safer": 2.0, "balanced": 1.0, "sharper": 0.5}
AMONG = ("l-diversity", "beta-likeness", "f-privacy", "rho-privacy")  # each limits what is believed
COUNTS = (500, 200, 100, 50, 20, 10)  # the largest that the table's conditions have
QUESTIONS = 80
_PROTECTED = (Fraction(1, 10), 3)  # a protected value: 1 in 10, or so many times its share


@dataclass(frozen=True)
class Card:
    """One promise in figures. `value` is the one whose chance may rise most, from its share.

    `guarantee` is None where nothing reaches the error.
    """

    way: str
    wished: float
    count: int
    guarantee: str | None = None
    error: float | None = None
    value: str | None = None
    share: float | None = None
    ceiling: float | None = None
    without_promise: float | None = None
    against: str | None = None

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def cards(
    table: Table,
    *,
    error: float = 0.1,
    protected: Sequence[str] = (),
    anybody: bool = False,
    progress: Progress = no_progress,
) -> tuple[Card, ...]:
    """Three promises about a count of 500, or of the largest size that conditions here have.

    `error` is how wrong such a count may be; `protected` values are held to 1 in 10, or to three
    times their share; `anybody` asks for promises that hold whatever a reader knows.

    >>> import pyarrow as pa
    >>> from sfumato.table import read
    >>> people = pa.table({"sex": ["F", "M"] * 600, "ill": ["a", "b", "c", "d"] * 300})
    >>> found = cards(read(people, quasi="sex", sensitive="ill"), error=0.2)
    >>> [(card.way, card.guarantee is not None) for card in found]
    [('safer', True), ('balanced', True), ('sharper', True)]
    """
    if not 0 < error < 1:
        raise UsageError(f"The error lies between 0 and 1: 0.1 is 10 %. Got {error:g} instead.")
    study, count = _study(one_row_each(table, Draws.system()), progress)
    histogram = study.histogram
    stated = stated_ceilings(histogram, {name: _limit(histogram, name) for name in protected})
    listed = families(histogram, stated, cells=bool(table.quasi), among=AMONG)
    listed = [each for each in listed if not anybody or each.against == listed[0].against]
    found = []
    for done, (way, times) in enumerate(WAYS.items()):
        progress("looking for promises", done, len(WAYS))
        wished = min(times * error, 0.95)
        options = [solve(study, family, wished, stated) for family in listed]
        best = _fewest_without(options, histogram)
        card = Card(way, wished, count)
        found.append(card if best is None else _card(card, *best, histogram))
    return tuple(found)


def _study(table: Table, progress: Progress) -> tuple[Study, int]:
    """Questions about counts of the usual size, or of the largest that there are."""
    for count in COUNTS:
        sizes = [SizeClass(f"{count:,} or more", count, sys.maxsize)]
        try:
            return Study.of(table, sizes, questions=QUESTIONS, seed=0, progress=progress), count
        except UsageError:
            if count == COUNTS[-1] or len(table.sensitive) != 1:
                raise
    raise AssertionError("the last size returns or raises")


def _limit(histogram: Histogram, name: str) -> Fraction:
    least, times = _PROTECTED
    shares = {
        label(value): share for value, share in zip(histogram.values, histogram.shares, strict=True)
    }
    return min(max(least, times * shares.get(name, Fraction(0))), Fraction(99, 100))


def _fewest_without(
    options: Sequence[Option], histogram: Histogram
) -> tuple[Guarantee, Option] | None:
    """Of what reaches the error: fewest people without a promise, then least belief."""
    able = [
        (each.guarantee, each) for each in options if each.reached and each.guarantee is not None
    ]
    able = [pair for pair in able if math.isfinite(pair[1].error)]
    if not able:
        return None
    return min(able, key=lambda pair: (_without(pair[0], histogram), pair[1].ceiling))


def _without(guarantee: Guarantee, histogram: Histogram) -> float:
    people = int(histogram.counts[guarantee.left_out(histogram)].sum())
    return people / max(histogram.rows, 1)


def _card(card: Card, guarantee: Guarantee, option: Option, histogram: Histogram) -> Card:
    """The figures of a promise; the worst value is the one whose chance may rise most."""
    ceilings = guarantee.ceilings(histogram)
    held = [code for code in range(len(ceilings)) if histogram.counts[code]]
    held = [code for code in held if ceilings[code] < 1] or held
    worst = max(held, key=lambda code: (ceilings[code] - histogram.shares[code], -code))
    return replace(
        card,
        guarantee=str(guarantee),
        error=option.error,
        value=label(histogram.values[worst]),
        share=float(histogram.shares[worst]),
        ceiling=float(ceilings[worst]),
        without_promise=_without(guarantee, histogram),
        against=option.against,
    )
