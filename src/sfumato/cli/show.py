"""Showing results: JSON on standard output, everything else for people."""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import Any, Self

from sfumato.pace import Pace
from sfumato.results import as_json


def show_json(result: Any) -> None:
    """One JSON object on standard output."""
    text = json.dumps(as_json(result), ensure_ascii=False, indent=2, default=str, allow_nan=False)
    print(text)


class ProgressLine:
    """A line on standard error that says how far a run is; silent where nobody watches.

    Called with a stage, what is done of it and of how much. `stage` is what runs until something
    else is said.
    """

    def __init__(self, stage: str) -> None:
        self._pace = Pace(stage)
        self._shown: Any = None  # rich's, loaded where somebody watches

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            console = Console(file=sys.stderr, force_terminal=True)
            columns = (
                TextColumn("{task.description}"),
                BarColumn(30),
                TextColumn("{task.fields[pace]}"),
            )
            self._shown = Progress(*columns, console=console, transient=True)
            self._task = self._shown.add_task(self._pace.stage, total=None, pace=_Words(self._pace))
            self._shown.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown is not None:
            self._shown.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        self._pace.tell(stage, done, total)
        if self._shown is not None:
            changed = {"description": stage, "completed": done, "total": total or None}
            self._shown.update(self._task, **changed)


class _Words:
    """The time left where the share that is done tells it, else what is known; by the clock.

    >>> pace = Pace("counting", 0.0)
    >>> pace.tell("counting", 50_000, 0, 0.0)
    >>> str(_Words(pace)).startswith("50,000 rows, ")
    True
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    def __str__(self) -> str:
        pace, left = self._pace, self._pace.left()
        if left is not None:
            share = f"{100 * pace.done / pace.total:.0f} %"
            return f"{share}, about {duration(left)} left"
        rows = f"{pace.done:,} rows, " if pace.done and not pace.total else ""
        return f"{rows}{pace.seconds():.0f} s"


def duration(seconds: float) -> str:
    """
    >>> duration(59.6), duration(170.0), duration(9000.0)
    ('60 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
