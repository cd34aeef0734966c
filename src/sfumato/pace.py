"""How far a run is and how long it may still take, from what it tells on its way."""

from __future__ import annotations

import time
from collections.abc import Callable

Progress = Callable[[str, int, int], None]  # a stage, what is done of it, and of how much


def part_of(progress: Progress, done: int, share: int, total: int) -> Progress:
    """Progress of a part: as it goes from nothing to all, the whole goes from `done` by `share`.

    >>> part_of(lambda *told: print(*told), 100, 50, 1000)("asking", 1, 2)
    asking 125 1000
    """

    def told(stage: str, part: int, parts: int) -> None:
        progress(stage, done + (share * min(part, parts) // parts if parts else 0), total)

    return told


class Pace:
    """The seconds left, by how fast the share that is done has grown.

    A share that falls begins something new, and so does another verb where no share is known.

    >>> pace = Pace("reading", 0.0)
    >>> pace.tell("asking a", 25, 100, 1.0), pace.left(1.0)
    (None, None)
    >>> pace.tell("asking b", 50, 100, 11.0), pace.left(11.0), pace.seconds(11.0)
    (None, 20.0, 10.0)
    """

    def __init__(self, stage: str, now: float | None = None) -> None:
        self.stage, self.done, self.total = stage, 0, 0
        self._since = time.monotonic() if now is None else now
        self._from = 0.0

    @property
    def share(self) -> float | None:
        return min(self.done / self.total, 1.0) if self.total else None

    def tell(self, stage: str, done: int, total: int, now: float | None = None) -> None:
        before, verb = self.share, _verb(self.stage)
        self.stage, self.done, self.total = stage, done, total
        measurable = before is not None and self.share is not None
        falls = measurable and (self.share or 0.0) < (before or 0.0)
        begins = falls if measurable else _verb(stage) != verb or before != self.share
        if begins:
            self._since = time.monotonic() if now is None else now
            self._from = self.share or 0.0

    def seconds(self, now: float | None = None) -> float:
        """Since this began."""
        return (time.monotonic() if now is None else now) - self._since

    def left(self, now: float | None = None) -> float | None:
        """The seconds that it may still take; None where nothing tells."""
        share = self.share
        if share is None or share <= self._from or share >= 1:
            return None
        return self.seconds(now) * (1 - share) / (share - self._from)


def _verb(stage: str) -> str:
    """'predicting f-privacy(2)' goes on with 'predicting' the next one."""
    return stage.partition(" ")[0]
