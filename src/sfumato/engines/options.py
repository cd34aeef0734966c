"""How a run is to be done, and what it wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from sfumato.columns import Column
from sfumato.draws import IntArray
from sfumato.engines.counting import Progress, no_progress
from sfumato.mechanisms.generalized import Generalized
from sfumato.storage import Stored

Follow = Callable[[Generalized, IntArray], object]


@dataclass(frozen=True)
class RunOptions:
    """How a run is to be done; what it promises is not among them.

    `joint` asks for a promise about all sensitive columns together.
    `release` is where the release will be, `store` a store that all machines may reach, where it
    is put in the end, `follow` sees ranges and sets with
    who matches whom, and the row at each place: for an audit that repeats the run.
    """

    release: Path
    store: Stored | None = None
    left_out: Fraction = Fraction(1)  # largest share of the people about whom nothing is promised
    batch_rows: int = 1 << 17
    threads: bool = True
    progress: Progress = no_progress
    follow: Follow | None = None
    joint: bool = False


@dataclass(frozen=True)
class Written:
    """What a run wrote: the columns of its records, how many there are, and what the plan adds to
    its public fields once it saw all records."""

    columns: tuple[Column, ...]
    rows: int
    plan: Mapping[str, int] = field(default_factory=dict)
