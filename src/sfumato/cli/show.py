"""Showing results: JSON on standard output, everything else for people."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
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

    `stage` is what runs until something else is said. The line is renewed `every` second, so a long
    step without news still shows that time passes.
    """

    def __init__(self, stage: str, *, every: float = 1.0) -> None:
        self._every = every
        self._shown = sys.stderr.isatty()
        self._pace = Pace(stage)
        self._last = 0.0
        self._written = False
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if self._shown:
            threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._written:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    @property
    def callback(self) -> Callable[[str, int, int], None]:
        return self._update

    def _tick(self) -> None:
        while not self._ended.wait(self._every):
            self._write()

    def _update(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        self._pace.tell(stage, done, total)
        if self._shown and now - self._last >= 0.1:
            self._last = now
            self._write()

    def _write(self) -> None:
        self._written = True
        pace = self._pace
        text = progress_text(pace.stage, pace.done, pace.total, pace.seconds(), pace.left())
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def progress_text(
    stage: str, done: int, total: int, seconds: float, left: float | None = None
) -> str:
    """How far a stage is after so many seconds: its share and the time left, or what is known.

    >>> progress_text("publishing", 250_000, 1_000_000, 20.0, 60.0)
    'publishing  25% ███████                        about 60 s left'
    >>> progress_text("counting", 50_000, 0, 3.2), progress_text("planning local", 0, 0, 12.4)
    ('counting 50,000 rows, 3 s', 'planning local, 12 s')
    """
    if not total:
        return f"{stage}{f' {done:,} rows' if done else ''}, {seconds:.0f} s"
    share = min(done / total, 1.0)
    remaining = f" {seconds:.0f} s" if left is None else f" about {duration(left)} left"
    return f"{stage} {share:4.0%} {'█' * int(30 * share):<30}{remaining}"


def duration(seconds: float) -> str:
    """
    >>> duration(59.6), duration(170.0), duration(9000.0)
    ('60 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
