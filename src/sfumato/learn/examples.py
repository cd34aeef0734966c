"""What a learner is given: a release or a frame, and the name of its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.columns import list_some
from sfumato.errors import UsageError
from sfumato.learn.features import Features, Origin
from sfumato.learn.reading import coded_target, read_hidden, read_quasi
from sfumato.learn.seen import Seen
from sfumato.operators.base import FloatArray
from sfumato.queries.quasi_codes import is_number
from sfumato.release import Release

FEWEST = 10  # records


@dataclass(frozen=True, eq=False)
class Examples:
    """Records with features that are seen, and a target."""

    table: pa.Table
    features: Features
    target: Seen | pa.ChunkedArray  # the latter where numbers are seen as they are


def as_release(given: Any) -> Release | None:
    """The release that is meant, by its folder or itself; None for data."""
    if isinstance(given, Release):
        return given
    if isinstance(given, str | Path):
        from sfumato.queries import open_release

        return open_release(given)
    return None


def as_table(frame: Any) -> pa.Table:
    """A frame of pandas, Polars or pyarrow as an Arrow table."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    raise UsageError(
        f"Expected a frame of pandas, Polars or pyarrow. Got {type(frame).__name__} instead."
    )


def from_release(
    release: Release, target: str, features: Sequence[str] | None, *, numbers: bool
) -> Examples:
    """`numbers` says that the target is a number to be estimated, not a class."""
    columns = {column.name: column for column in release.columns}
    chosen = _chosen(list(columns), target, features, release.where)
    sensitive = {column.name for column in release.sensitive}
    if features is None:
        chosen = [name for name in chosen if name not in sensitive]
    unseen = [name for name in chosen if name in sensitive]
    if unseen:
        raise UsageError(
            f"{list_some(unseen)} is not shown as it is, so it cannot be a feature here. Complete "
            "the release (release.complete), train on every completed table, and combine."
        )
    if not chosen:
        raise UsageError("There is no feature to learn from: name at least one column.")
    if target in sensitive:
        table, seen = read_hidden(release, target)
    else:
        table, seen = read_quasi(release), None
    if len(table) < FEWEST:
        raise UsageError(f"{len(table)} records are too few to learn from; {FEWEST} are needed.")
    kinds = {
        name: columns[name].kind == "numeric" and is_number(table.schema.field(name).type)
        for name in chosen
    }
    origins = {name: Origin.of(release, columns[name]) for name in chosen}
    design = Features.of(table, kinds, origins)
    if seen is not None:
        return Examples(table, design, seen)
    outcome = table.column(target)
    return Examples(table, design, outcome if numbers else coded_target(target, outcome))


def from_frame(
    table: pa.Table, target: str, features: Sequence[str] | None, *, numbers: bool
) -> Examples:
    """A raw frame, every value of which is seen."""
    chosen = _chosen(table.column_names, target, features, "the frame")
    kinds = {name: is_number(table.schema.field(name).type) for name in chosen}
    outcome = table.column(target)
    return Examples(
        table, Features.of(table, kinds, {}), outcome if numbers else coded_target(target, outcome)
    )


def _chosen(
    known: Sequence[str], target: str, features: Sequence[str] | None, where: str
) -> list[str]:
    if isinstance(features, str):
        features = [name.strip() for name in features.split(",")]
    chosen = [name for name in known if name != target] if features is None else list(features)
    strangers = [name for name in (target, *chosen) if name not in known]
    if strangers:
        raise UsageError(
            f"There is no column {strangers[0]!r} in {where}; its columns are {list_some(known)}."
        )
    if target in chosen:
        raise UsageError(f"The target {target!r} cannot be one of its own features.")
    if not chosen:
        raise UsageError("There is no feature to learn from: name at least one column.")
    if len(set(chosen)) < len(chosen):
        raise UsageError(f"A feature is named twice: {list_some(chosen)}.")
    return chosen


def as_numbers(seen: Seen) -> FloatArray:
    """The values of a column as numbers; refuses what is none."""
    try:
        return np.array([float(value) for value in seen.values])
    except (TypeError, ValueError):
        raise UsageError(
            f"Column {seen.name!r} holds values that are no numbers, so no number can be estimated "
            "for it: use a classifier."
        ) from None
