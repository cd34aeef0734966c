"""Mechanisms that publish ranges and sets: they need every record's quasi values at once.

The one exception to "plan on counts, apply to records": the plan decides from counts, and then
looks at the quasi columns of all records together, as small integers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.draws import Draws, IntArray
from sfumato.mechanisms.heterogeneous.ncp import Axis, NumericAxis, TreeAxis, gcp
from sfumato.mechanisms.protocol import Plan
from sfumato.textform import Parameter

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
    units: Sequence[int]  # NCP of all rows per column, in units of 1/denominator
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

    def described(self) -> dict[str, Any]:
        """What the manifest says of the rows beside the plan."""
        if self.group is None:
            return {"spans": self.spans}
        sizes = np.bincount(self.group)
        return {"spans": self.spans, "groups": len(sizes), "matches": int(sizes.min())}


class TablePlan(Plan):
    """A plan that looks at all records at once, and publishes ranges and sets."""

    kind: ClassVar[str] = "generalized"

    @property
    def marginals(self) -> bool:
        """Whether the manifest tells how many people have which quasi values."""
        return True

    @abstractmethod
    def generalize(
        self, axes: Sequence[Axis], codes: IntArray, draws: Draws, progress: Stage
    ) -> Generalized:
        """Publish all records: their quasi columns as `axes`, their sensitive codes."""

    def predicted_error(self) -> float:
        """Ranges and sets blur every count far more than buckets do: never chosen by itself."""
        return float("inf")


MARGINALS = Parameter("marginals", options=("counts", "none"))


def covers_of(axes: Sequence[Axis], matches: Sequence[IntArray]) -> tuple[list[Shown], list[int]]:
    """What rows with these matches show, and their NCP per column in units.

    `matches` are runs of rows with equally many matches each.
    """
    covers, units = [], []
    for axis in axes:
        cover, unit = _cover_of(axis, matches)
        covers.append(cover)
        units.append(unit)
    return covers, units


def _cover_of(axis: Axis, matches: Sequence[IntArray]) -> tuple[Shown, int]:
    pieces = [
        run[k : k + _ROWS_AT_ONCE] for run in matches for k in range(0, len(run), _ROWS_AT_ONCE)
    ]
    if isinstance(axis, NumericAxis):
        codes = [axis.codes[piece] for piece in pieces]
        low = np.concatenate([code.min(axis=1) for code in codes])
        high = np.concatenate([code.max(axis=1) for code in codes])
        return RangeCover(low, high), int((axis.positions[high] - axis.positions[low]).sum())
    if isinstance(axis, TreeAxis):
        nodes = []
        for piece in pieces:
            code = axis.codes[piece]
            node = axis.single(code[:, 0])
            for index in range(1, code.shape[1]):
                node = axis.join(node, code[:, index])
            nodes.append(node)
        return tree_cover(axis, np.concatenate(nodes))
    counts, values = [], []
    for piece in pieces:
        code = np.sort(axis.codes[piece], axis=1)
        first = np.ones(code.shape, np.bool_)
        first[:, 1:] = code[:, 1:] != code[:, :-1]
        counts.append(first.sum(axis=1))
        values.append(code[first])
    sizes = np.concatenate(counts)
    return set_cover(sizes, np.concatenate(values)), int((sizes - 1).sum())


def tree_cover(axis: TreeAxis, nodes: IntArray) -> tuple[SetCover, int]:
    """The leaves below each node: the published set is the smallest node of the hierarchy."""
    leaves = [np.flatnonzero(axis.lowest[: axis.leaves, n] == n) for n in range(len(axis.parents))]
    sizes = axis.below[nodes]
    values = np.concatenate([leaves[node] for node in nodes.tolist()])
    return set_cover(sizes, values), int((sizes - 1).sum())


def set_cover(sizes: IntArray, codes: IntArray) -> SetCover:
    """Sets given by their sizes and their codes one after the other."""
    return SetCover(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), codes)


def homogeneous(
    axes: Sequence[Axis], groups: Sequence[IntArray], draws: Draws, progress: Stage
) -> Generalized:
    """Groups of records whose rows all show what the whole group has."""
    source, covers, units = [], [], [0] * len(axes)
    for number, members in enumerate(groups):
        shown, unit = covers_of(axes, [members[None, :]])
        covers.append(shown)
        units = [a + b * len(members) for a, b in zip(units, unit, strict=True)]
        source.append(members[draws.order(f"class {number}", len(members))])
        progress("grouping", number + 1, len(groups))
    sizes = np.array([len(part) for part in source])
    return Generalized(
        np.concatenate(source),
        [_repeated([row[k] for row in covers], sizes) for k in range(len(axes))],
        units,
        group=np.repeat(np.arange(len(groups)), sizes),
    )


def _repeated(shown: Sequence[Shown], sizes: IntArray) -> Shown:
    """What every row of every group shows, from what each group shows."""
    first = shown[0]
    if isinstance(first, RangeCover):
        low = np.array([c.low[0] for c in shown if isinstance(c, RangeCover)])
        high = np.array([c.high[0] for c in shown if isinstance(c, RangeCover)])
        return RangeCover(np.repeat(low, sizes), np.repeat(high, sizes))
    sets = [cover.codes for cover in shown if isinstance(cover, SetCover)]
    lengths = np.repeat([len(codes) for codes in sets], sizes)
    codes = np.concatenate([np.tile(c, n) for c, n in zip(sets, sizes.tolist(), strict=True)])
    return set_cover(lengths, codes)


def penalty(axes: Sequence[Axis], made: Generalized) -> Fraction:
    """GCP of a release."""
    return gcp(made.units, [axis.denominator for axis in axes], made.rows)
