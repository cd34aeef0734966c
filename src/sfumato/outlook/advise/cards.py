"""Three promises for somebody who knows what the counts are for: safer, balanced, sharper.

A view of the search that advice makes: the strongest that keeps its error, of those that leave the
fewest people without a ceiling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.draws import Draws
from sfumato.engines.choosing import TableCounts
from sfumato.engines.counting import Progress, no_progress
from sfumato.engines.person_rows import one_row_each
from sfumato.errors import UsageError
from sfumato.guarantees import Guarantee
from sfumato.guarantees.value_table import label
from sfumato.outlook.advise.advice import Option, costliest
from sfumato.outlook.advise.families import families, stated_ceilings
from sfumato.outlook.advise.pricing import Pricing
from sfumato.outlook.advise.search import solve, spared
from sfumato.profile import Histogram, Profile
from sfumato.table import Table

# times the error that was asked for
WAYS = {"safer": 2.0, "balanced": 1.0, "sharper": 0.5}
AMONG = ("l-diversity", "beta-likeness", "f-privacy", "rho-privacy")  # each limits what is believed
COUNTS = (500, 200, 100, 50, 20, 10)  # the largest that a value of every column has
_PROTECTED = (Fraction(1, 10), 3)  # a protected value: 1 in 10, or so many times its share


@dataclass(frozen=True)
class CardColumn:
    """A sensitive column under a card's promise. `value` is the one whose chance may rise most,
    from its share to its ceiling; `error` is None where no value has so many people."""

    column: str
    guarantee: str
    error: float | None
    value: str
    share: float
    ceiling: float
    without_promise: float


@dataclass(frozen=True)
class Card:
    """One promise in figures. `guarantee` is None where nothing reaches the error; `error` is that
    of the column that is worst off; `costliest` says which of several columns costs most."""

    way: str
    wished: float
    count: int
    guarantee: str | None = None
    error: float | None = None
    against: str | None = None
    columns: tuple[CardColumn, ...] = ()
    costliest: str = ""

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "columns": [dict(vars(column)) for column in self.columns]}


def cards(
    table: Table,
    *,
    error: float = 0.1,
    protected: Sequence[str] = (),
    anybody: bool = False,
    progress: Progress = no_progress,
) -> tuple[Card, ...]:
    """Three promises about a count of 500, or of the largest size that values here have.

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
    progress("counting", 0, 0)
    counts = TableCounts(one_row_each(table, Draws.system()))
    profile = counts.profile()
    count = _usual(profile)
    histograms = tuple(profile.histograms.values())
    limits: dict[object, object] = {name: _limit(histograms, name) for name in protected}
    listed = families(
        histograms, stated_ceilings(histograms, limits), cells=bool(table.quasi), among=AMONG
    )
    listed = [family for family in listed if not anybody or family.against == listed[0].against]
    pricing = Pricing(profile, count, counts=counts)
    chosen_cards = []
    for done, (way, times) in enumerate(WAYS.items()):
        progress("looking for promises", done, len(WAYS))
        wished = min(times * error, 0.95)
        best = _fewest_without([solve(pricing, f, wished) for f in listed], histograms)
        if best is None or best.guarantee is None:
            chosen_cards.append(Card(way, wished, count))
            continue
        columns = tuple(_column(best, best.guarantee, histogram) for histogram in histograms)
        told = costliest(tuple(spared(pricing, best, listed)))
        chosen_cards.append(
            Card(way, wished, count, str(best.guarantee), best.error, best.against, columns, told)
        )
    return tuple(chosen_cards)


def _usual(profile: Profile) -> int:
    """The usual size of a count, or the largest that some value of every column has."""
    largest = min(int(h.counts.max(initial=0)) for h in profile.histograms.values())
    return next((count for count in COUNTS if count <= largest), COUNTS[-1])


def _limit(histograms: Sequence[Histogram], name: str) -> Fraction:
    least, times = _PROTECTED
    shares = [
        share
        for histogram in histograms
        for value, share in zip(histogram.values, histogram.shares, strict=True)
        if label(value) == name
    ]
    return min(max(least, times * max(shares, default=Fraction(0))), Fraction(99, 100))


def _fewest_without(options: Sequence[Option], histograms: Sequence[Histogram]) -> Option | None:
    """Of what reaches the error: fewest people without a promise, then least belief."""
    able = [(option.guarantee, option) for option in options if option.reached and option.guarantee]
    if not able:
        return None

    def order(pair: tuple[Guarantee, Option]) -> tuple[float, float]:
        return max(_without(pair[0], histogram) for histogram in histograms), pair[1].ceiling

    return min(able, key=order)[1]


def _without(guarantee: Guarantee, histogram: Histogram) -> float:
    people = int(histogram.counts[guarantee.left_out(histogram)].sum())
    return people / max(histogram.rows, 1)


def _column(option: Option, guarantee: Guarantee, histogram: Histogram) -> CardColumn:
    """The worst value is the one whose chance may rise most."""
    ceilings, name = guarantee.ceilings(histogram), histogram.column
    present = [code for code in range(len(ceilings)) if histogram.counts[code]]
    limited = [code for code in present if ceilings[code] < 1] or present
    worst = max(limited, key=lambda code: (ceilings[code] - histogram.shares[code], -code))
    stated = guarantee.stated()
    return CardColumn(
        name,
        stated if isinstance(stated, str) else stated[name],
        option.errors.get(name),
        label(histogram.values[worst]),
        float(histogram.shares[worst]),
        float(ceilings[worst]),
        _without(guarantee, histogram),
    )
