"""What a promise would mean for a table, told from its counts alone and while one watches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.draws import Draws
from sfumato.engines.choosing import choose_plan, possible_mechanisms
from sfumato.engines.publication import steward_notes
from sfumato.engines.words import Facts
from sfumato.errors import UsageError
from sfumato.guarantees import Guarantee, parse_guarantee
from sfumato.guarantees.value_table import label
from sfumato.mechanisms import Mechanism, given_mechanism
from sfumato.outlook.prediction import SIZES, error_law
from sfumato.outlook.sketch import sketched
from sfumato.profile import Histogram, Profile

USUAL_COUNT = 500  # errors by value are told for counts of this size


@dataclass(frozen=True)
class PreviewedValue:
    """One sensitive value: its share, the chance that the promise allows, the error of a count.

    `error` is None where nobody has the value, or nothing can be told.
    """

    column: str
    value: str
    share: float
    ceiling: float
    error: float | None


@dataclass(frozen=True)
class Preview:
    """A promise on a table: what it says, what it limits, what it costs."""

    guarantee: str
    mechanism: str
    quick: bool  # whether the figures come from a sketch
    statement: tuple[str, ...]
    does_not_protect: tuple[str, ...]
    caveats: tuple[str, ...]
    notes: tuple[str, ...]  # whom it leaves out, and what it was not compared with
    values: tuple[PreviewedValue, ...]
    errors: tuple[tuple[str, int, float | None], ...]  # (column, size of a count, relative error)

    def to_json(self) -> dict[str, Any]:
        return {
            "feasible": True,
            "guarantee": self.guarantee,
            "mechanism": self.mechanism,
            "quick": self.quick,
            "statement": list(self.statement),
            "does_not_protect": list(self.does_not_protect),
            "caveats": list(self.caveats),
            "notes": list(self.notes),
            "ceilings": [
                {"column": v.column, "value": v.value, "share": v.share, "ceiling": v.ceiling}
                for v in self.values
            ],
            "errors": [
                {"column": column, "count": count, "error": error}
                for column, count, error in self.errors
            ],
            "by_value": [
                {"column": v.column, "value": v.value, "error": v.error} for v in self.values
            ],
        }


def preview(
    profile: Profile,
    guarantee: Guarantee | str,
    mechanism: Mechanism | str | None = None,
    *,
    exact: bool = False,
) -> Preview:
    """What `publish` would promise and cost; nothing is published, the table is not read.

    The profile has its cells where a mechanism looks at them (`engines.choosing.with_counts`).
    Raises `InfeasibleGuarantee`, as `publish` would. Some milliseconds: where planning takes
    longer, from a sketch of the plan (`quick`), unless `exact`.

    >>> from sfumato.profile import Histogram
    >>> counts = Histogram("disease", ("flu", "HIV", "none"), np.array([400, 100, 500]))
    >>> seen = preview(Profile(1000, {"disease": counts}), "l-diversity(2)")
    >>> seen.mechanism, seen.values[0].ceiling
    ('optimal', 0.5)
    """
    guarantee = parse_guarantee(guarantee).for_columns(list(profile.histograms))
    mechanism = given_mechanism(mechanism)
    several = len(profile.histograms) > 1  # then blocks are for who names them
    chosen, *others = looked_at(guarantee, mechanism, exact=exact and not several)
    possible = (chosen, *others)
    lacking = profile.cells is None and any(candidate.needs_cells for candidate in possible)
    if lacking or (profile.binned is None and any(candidate.needs_bins for candidate in possible)):
        raise UsageError(f"{chosen} looks at groups of people: count them first.")
    plan = None if others or exact else sketched(profile, guarantee, chosen)
    quick = plan is not None
    if plan is None:
        named = mechanism or (chosen if not others else None)
        chosen, plan = choose_plan(profile, guarantee, named, Draws.system())
    guarantee = chosen.promised(guarantee)
    values: list[PreviewedValue] = []
    errors: list[tuple[str, int, float | None]] = []
    for column, histogram in profile.histograms.items():
        sizes = [size for size in SIZES if size <= int(histogram.counts.max(initial=0))]
        asked = np.array(sorted({*sizes, USUAL_COUNT}), np.float64)
        expected = error_law(plan, profile, column, exact=False).by_size(asked)
        for size in sizes:
            reached = expected[int(np.searchsorted(asked, size))][histogram.counts >= size] / size
            errors.append((column, size, _finite(float(np.mean(reached)))))
        values += _by_value(histogram, guarantee, asked, expected)
    words = Facts.of_plan(chosen, guarantee, plan, profile.histograms)
    return Preview(
        str(guarantee),
        str(chosen),
        quick,
        tuple(words.statement()),
        guarantee.unprotected(),
        tuple(words.caveats()),
        (
            *steward_notes(profile, guarantee),
            *(() if several else _not_priced(guarantee, mechanism, possible)),
        ),
        tuple(values),
        tuple(errors),
    )


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
) -> Iterator[str]:
    """What `publish` compares and this preview did not, in a sentence."""
    others = [
        possible_mechanism
        for possible_mechanism in possible_mechanisms(guarantee, mechanism)
        if possible_mechanism not in priced
    ]
    if others:
        names = " and ".join(str(other) for other in others)
        yield (
            f"Publishing looks at {names} too and takes it where it is predicted better: errors "
            "are at most those shown here. Exact figures compare it."
        )


def _by_value(
    histogram: Histogram, guarantee: Guarantee, asked: np.ndarray, expected: np.ndarray
) -> list[PreviewedValue]:
    """Errors of counts of the usual size; of the whole count where fewer people have the value."""
    row = expected[int(np.searchsorted(asked, USUAL_COUNT))]
    rows = []
    for code, (value, share, ceiling) in enumerate(
        zip(histogram.values, histogram.shares, guarantee.ceilings(histogram), strict=True)
    ):
        count = int(histogram.counts[code])
        error = None
        if 0 < count < USUAL_COUNT:
            below = np.flatnonzero(asked <= count)
            near = int(below[-1]) if len(below) else 0
            error = _finite(float(expected[near, code] / asked[near]))
        elif count:
            error = _finite(float(row[code] / USUAL_COUNT))
        rows.append(
            PreviewedValue(histogram.column, label(value), float(share), float(ceiling), error)
        )
    return rows


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
