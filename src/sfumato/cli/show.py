"""Showing results: JSON on standard output, everything else for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sfumato.pace import Pace, Progress
from sfumato.results import as_json


def show_json(result: Any) -> None:
    """One JSON object on standard output."""
    text = json.dumps(as_json(result), ensure_ascii=False, indent=2, default=str, allow_nan=False)
    print(text)


@contextmanager
def progress_line(stage: str) -> Iterator[Progress]:
    """A line on standard error that says how far a run is; silent where nobody watches.

    What is given is called with a stage, what is done of it and of how much; `stage` is what runs
    until something else is said.
    """
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich import progress
    from rich.console import Console

    console, pace = Console(file=sys.stderr, force_terminal=True), Pace(stage)
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(30),
        progress.TextColumn("{task.fields[pace]}"),
    )
    with progress.Progress(*columns, console=console, transient=True) as line:
        task = line.add_task(stage, total=None, pace=_Words(pace))

        def tell(stage: str, done: int, total: int) -> None:
            pace.tell(stage, done, total)
            line.update(task, description=stage, completed=done, total=total or None)

        yield tell


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
