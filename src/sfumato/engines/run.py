"""What is known of a run: how it is to be done and, step by step, what became of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.columns import Column
from sfumato.draws import Draws, IntArray
from sfumato.engines.counting import Progress, no_progress
from sfumato.guarantees import Guarantee
from sfumato.mechanisms import Mechanism, Plan
from sfumato.mechanisms.generalized import Generalized
from sfumato.profile import Histogram, Profile
from sfumato.public import Public, PublicPlan
from sfumato.release import Manifest, PersonRule
from sfumato.storage import Stored
from sfumato.table import Table

Follow = Callable[[Generalized, IntArray], object]
LATER: Any = None  # what a later step adds


@dataclass(frozen=True)
class RunOptions:
    """How a run is to be done; what it promises is not among them.

    `joint` asks for a promise about all sensitive columns together. `release` is where the release
    will be, `store` a store that all machines may reach, where it is put in the end. `follow` sees
    ranges and sets with who matches whom, and the row at each place: for an audit that repeats.
    """

    engine: str
    release: Path
    store: Stored | None = None
    left_out: Fraction = Fraction(1)  # largest share of the people about whom nothing is promised
    batch_rows: int = 1 << 17
    threads: bool = True
    progress: Progress = no_progress
    follow: Follow | None = None
    joint: bool = False


@dataclass(frozen=True, eq=False)
class Run:
    """What was asked of a run, and what is known of it so far: a step returns it with more."""

    table: Table  # as it was declared; then staged, with the rows that are published
    guarantee: Guarantee  # what people are promised
    mechanism: Mechanism | None  # that was named
    draws: Draws
    options: RunOptions = LATER
    promise: Guarantee = LATER  # what plans are made with
    rule: PersonRule | None = None  # of people with several rows
    all_rows: Mapping[str, Histogram] | None = None  # where one row of each person was drawn
    profile: Profile = LATER
    chosen: Mechanism = LATER
    plan: Plan = LATER
    notes: tuple[str, ...] = ()  # for the steward
    manifest: Manifest = LATER

    @property
    def joint(self) -> bool:
        """Whether the promise is about several columns together."""
        return self.options.joint and len(self.table.sensitive) > 1


@dataclass(frozen=True)
class Written:
    """What a run wrote: the columns of its records, how many there are, and what the plan adds to
    its public fields once it saw all records."""

    columns: tuple[Public[Column], ...]
    rows: int
    plan: PublicPlan = field(default_factory=dict)
