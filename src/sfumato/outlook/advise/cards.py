"""Three promises for somebody who knows what the counts are for: safer, balanced, sharper.

Views of the advice under three errors, over the promises that limit what is believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sfumato.columns import label
from sfumato.draws import Draws
from sfumato.engines.counting import Progress, no_progress
from sfumato.engines.person_rows import one_row_each
from sfumato.errors import UsageError
from sfumato.outlook.advise import strongest
from sfumato.outlook.advise.advice import Option
from sfumato.outlook.advise.families import families, stated_ceilings
from sfumato.outlook.advise.pricing import Pricing
from sfumato.profile import Histogram
from sfumato.table import Table

# times the error that was asked for
WAYS = {"safer": 2.0, "balanced": 1.0, "sharper": 0.5}
AMONG = ("l-diversity", "beta-likeness", "f-privacy", "rho-privacy")  # each limits what is believed
COUNTS = (500, 200, 100, 50, 20, 10)  # the largest that a value of every column has
_PROTECTED = (Fraction(1, 10), 3)  # a protected value: 1 in 10, or so many times its share


def cards(
    table: Table,
    *,
    error: float = 0.1,
    protected: Sequence[str] = (),
    anybody: bool = False,
    progress: Progress = no_progress,
) -> list[dict[str, Any]]:
    """Three promises about a count of 500, or of the largest size that values here have.

    `error` is how wrong such a count may be; `protected` values are held to 1 in 10, or to three
    times their share; `anybody` asks for promises that hold whatever a reader knows. A card's
    `guarantee` is None where nothing reaches the error; its `error` is that of the column that is
    worst off.

    >>> import pyarrow as pa
    >>> from sfumato.table import read
    >>> people = pa.table({"sex": ["F", "M"] * 600, "ill": ["a", "b", "c", "d"] * 300})
    >>> shown = cards(read(people, quasi="sex", sensitive="ill"), error=0.2)
    >>> [(card["way"], card["guarantee"] is not None) for card in shown]
    [('safer', True), ('balanced', True), ('sharper', True)]
    """
    if not 0 < error < 1:
        raise UsageError(f"The error lies between 0 and 1: 0.1 is 10 %. Got {error:g} instead.")
    pricing = Pricing.of(one_row_each(table, Draws.system()), COUNTS[-1], progress)
    histograms = pricing.histograms
    largest = min(int(histogram.counts.max(initial=0)) for histogram in histograms)
    pricing.count = next((count for count in COUNTS if count <= largest), COUNTS[-1])
    ceilings = stated_ceilings(histograms, {name: _limit(histograms, name) for name in protected})
    listed = families(histograms, ceilings, cells=bool(table.quasi), among=AMONG)
    if anybody:
        listed = [family for family in listed if family.against == listed[0].against]
    shown = []
    for way, times in WAYS.items():
        wished = min(times * error, 0.95)
        advice = strongest(pricing, listed, wished)
        card: dict[str, Any] = {"way": way, "wished": wished, "count": pricing.count}
        card |= {"guarantee": None, "error": None, "against": None, "columns": []}
        if (chosen := advice.recommended) is not None:
            card |= {
                "guarantee": str(chosen.guarantee),
                "error": chosen.error,
                "against": chosen.against,
                "columns": [_column(chosen, histogram) for histogram in histograms],
            }
        shown.append(card)
    return shown


def _limit(histograms: Sequence[Histogram], name: str) -> Fraction:
    least, times = _PROTECTED
    shares = [
        share
        for histogram in histograms
        for value, share in zip(histogram.values, histogram.shares, strict=True)
        if label(value) == name
    ]
    return min(max(least, times * max(shares, default=Fraction(0))), Fraction(99, 100))


def _column(option: Option, histogram: Histogram) -> dict[str, Any]:
    """A sensitive column under a promise: its worst value is the one whose chance may rise most."""
    assert option.guarantee is not None
    ceilings, name = option.guarantee.ceilings(histogram), histogram.column
    present = [code for code in range(len(ceilings)) if histogram.counts[code]]
    limited = [code for code in present if ceilings[code] < 1] or present
    worst = max(limited, key=lambda code: (ceilings[code] - histogram.shares[code], -code))
    errors = option.errors.get(name)
    return {
        "column": name,
        "guarantee": option.promise(name),
        "error": errors and errors[-1],
        "value": label(histogram.values[worst]),
        "share": float(histogram.shares[worst]),
        "ceiling": float(ceilings[worst]),
        "without_promise": option.without[name],
    }
