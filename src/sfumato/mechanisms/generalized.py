"""Mechanisms that publish ranges and sets: they need every record's quasi values at once.

The one exception to "plan on counts, apply to records": the plan decides from counts, and then
looks at the quasi columns of all records together, as small integers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.heterogeneous.ncp import Axis, NumericAxis
from sfumato.mechanisms.protocol import Plan
from sfumato.public import Public, fitted

Stage = Callable[[str, int, int], None]
_ROWS_AT_ONCE = 1 << 15


@dataclass(frozen=True, eq=False)
class RangeCover:
    """What rows show of a numeric column: codes of the smallest and the largest value."""

    low: IntArray
    high: IntArray


@dataclass(frozen=True, eq=False)
class SetCover:
    """What rows show of a categorical column: row r shows `codes[starts[r]:starts[r + 1]]`."""

    starts: IntArray
    codes: IntArray


Shown = RangeCover | SetCover


@dataclass(frozen=True, eq=False)
class Generalized:
    """The published rows, in no order that means anything.

    Row r shows the sensitive value of record `source[r]`; `covers` are its quasi columns. For the
    private trace: `matches` are the records that may stand behind each row, one array per run of
    rows with equally many; or, where whole groups share what they show, `group[r]` is the group of
    row r.
    """

    source: IntArray
    covers: Sequence[Shown]
    matches: Sequence[IntArray] | None = None
    group: IntArray | None = None

    @property
    def rows(self) -> int:
        return len(self.source)

    @property
    def spans(self) -> int:
        """How many people a row spans, in the mean over rows, to the next whole number."""
        people = 0
        if self.matches is not None:
            people = sum(run.size for run in self.matches)
        elif self.group is not None:
            people = int((np.bincount(self.group) ** 2).sum())
        return (2 * people + self.rows) // (2 * self.rows) if self.rows else 0

    def described(self) -> dict[str, Public[Any]]:
        """What the manifest says of the rows beside the plan: of regions and groups that were cut
        as far as the values in them allow."""
        if self.group is None:
            return {"spans": fitted(self.spans)}
        sizes = np.bincount(self.group)
        groups = {"spans": self.spans, "groups": len(sizes), "matches": int(sizes.min())}
        return {name: fitted(figure) for name, figure in groups.items()}


class TablePlan(Plan):
    """A plan that looks at all records at once, and publishes ranges and sets."""

    kind: ClassVar[str] = "generalized"

    @abstractmethod
    def generalize(
        self, axes: Sequence[Axis], codes: IntArray, draws: Draws, progress: Stage
    ) -> Generalized:
        """Publish all records: their quasi columns as `axes`, their sensitive codes."""

    def predicted_error(self) -> float:
        """Ranges and sets blur every count far more than buckets do: never chosen by itself."""
        return float("inf")


def covers_of(
    axes: Sequence[Axis], matches: Sequence[IntArray], copies: IntArray | None = None
) -> list[Shown]:
    """What rows with these matches show.

    `matches` are runs of rows with equally many matches each; `copies[r]` says how often the r-th
    row is published, None: once.
    """
    covers = [_cover_of(axis, matches) for axis in axes]
    return covers if copies is None else [_repeated(cover, copies) for cover in covers]


def _cover_of(axis: Axis, matches: Sequence[IntArray]) -> Shown:
    """What the rows show of a column."""
    pieces = [
        axis.codes[run[k : k + _ROWS_AT_ONCE]]
        for run in matches
        for k in range(0, len(run), _ROWS_AT_ONCE)
    ]
    if isinstance(axis, NumericAxis):
        low = np.concatenate([code.min(axis=1) for code in pieces])
        high = np.concatenate([code.max(axis=1) for code in pieces])
        return RangeCover(low, high)
    counts, values = [], []
    for piece in pieces:
        code = np.sort(piece, axis=1)
        first = np.ones(code.shape, np.bool_)
        first[:, 1:] = code[:, 1:] != code[:, :-1]
        counts.append(first.sum(axis=1))
        values.append(code[first])
    sizes, codes = np.concatenate(counts), np.concatenate(values)
    return SetCover(np.concatenate([[0], np.cumsum(sizes)]), codes)


def _repeated(cover: Shown, times: IntArray) -> Shown:
    """The cover of rows that are published several times, one after the other."""
    if isinstance(cover, RangeCover):
        return RangeCover(np.repeat(cover.low, times), np.repeat(cover.high, times))
    row = np.repeat(np.arange(len(times)), times)
    sizes = np.diff(cover.starts)[row]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
    return SetCover(starts, cover.codes[np.repeat(cover.starts[row], sizes) + within])
