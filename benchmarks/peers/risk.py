"""What the strongest reader gets out of a publication, and what of it the person's record gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import sfumato as sf
from sfumato.attacks import Outcome, attack
from sfumato.attacks.registry import attacks_for
from sfumato.errors import DataError
from sfumato.guarantees.words import Known
from sfumato.release import Release

ALONE = (Known.NOTHING, Known.LEARNED)
OTHERS, BOTH = "links alone, without the person", "without the person among the links"


@dataclass(frozen=True)
class Risk:
    """Shares of right guesses.

    The best attack that has the publication and nothing else, the same without the person, and
    what lies between with its 95 % interval; then a reader who knows how columns hang together
    among *other* people, without the publication and with it.
    """

    attack: str
    right: float
    without: float
    own: tuple[float, float, float]
    links: float
    links_and_release: float
    prior: float

    @classmethod
    def of(cls, alone: Sequence[Outcome], linked: Outcome) -> Risk:
        best = max(alone, key=lambda outcome: outcome.success.value)
        if best.fresh is None or best.over_fresh is None:
            raise DataError(f"no baseline without the person: {best.note}")
        own = best.over_fresh
        return cls(
            best.attack,
            best.success.value,
            best.fresh.value,
            (own.low, own.value, own.high),
            linked.besides[OTHERS].value,
            linked.besides[BOTH].value,
            best.prior,
        )


def risk_of_release(table: sf.Table, place: Path, targets: int) -> Risk:
    release = Release(place)
    alone = [each for each in attacks_for(type(release)) if each.knows in ALONE]
    found = attack(table, release, attacks=alone, targets=targets)
    (linked,) = attack(table, release, attacks="linked", targets=targets, fresh=False)
    return Risk.of(found, linked)


def risk_of_records(
    table: sf.Table, records: pa.Table, remake: Callable[[pa.Table], pa.Table], targets: int
) -> Risk:
    """Of synthetic records; `remake` makes such records of other people."""
    alone = [each for each in attacks_for(Release) if each.knows in ALONE]
    found = attack(table, None, shown=records, remake=remake, attacks=alone, targets=targets)
    (linked,) = attack(table, None, shown=records, attacks="linked", targets=targets, fresh=False)
    return Risk.of(found, linked)
