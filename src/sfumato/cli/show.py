"""Showing results: JSON on standard output, everything else for people."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self


def show_json(result: Any) -> None:
    """One JSON object on standard output."""
    text = json.dumps(_strict(result), ensure_ascii=False, indent=2, default=str, allow_nan=False)
    print(text)


def _strict(result: Any) -> Any:
    """JSON has no infinities: they become texts; what is not a number becomes null."""
    if isinstance(result, dict):
        return {key: _strict(value) for key, value in result.items()}
    if isinstance(result, (list, tuple)):
        return [_strict(value) for value in result]
    if isinstance(result, float) and not math.isfinite(result):
        return None if math.isnan(result) else repr(result)
    return result


class ProgressLine:
    """A line on standard error that says how far a run is; silent where nobody watches.

    `unit` is what is counted.
    """

    def __init__(self, unit: str = "rows") -> None:
        self._unit = unit
        self._shown = sys.stderr.isatty()
        self._last = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown and self._last:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    @property
    def callback(self) -> Callable[[str, int, int], None]:
        return self._update

    def _update(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if not self._shown or now - self._last < 0.1:
            return
        self._last = now
        share = f" {done / total:4.0%} {'█' * int(30 * done / total):<30}" if total else ""
        count = f" {done:,} {self._unit}" if done or total else ""
        sys.stderr.write(f"\r\x1b[K{stage}{share}{count}")
        sys.stderr.flush()
