"""The published rows, as they stand in the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.draws import Draws
from sfumato.errors import UsageError
from sfumato.release import Release

if TYPE_CHECKING:
    import pandas


def published_rows(release: Release, sample: int | None, seed: int | None) -> pandas.DataFrame:
    """All rows, or some drawn at random; `attrs` says what their columns mean."""
    import pyarrow.parquet as pq

    if sample is not None and sample < 1:
        raise UsageError(f"'sample' must be a whole number from 1 up. Got {sample} instead.")
    table = pa.concat_tables([pq.read_table(path) for path in release.records])
    if sample is not None and sample < len(table):
        draws = Draws.system() if seed is None else Draws.from_seed(seed)
        table = table.take(np.sort(draws.order("sample", len(table))[:sample]))
    try:
        frame: pandas.DataFrame = table.to_pandas()
    except ImportError:
        raise UsageError("to_pandas() needs the package pandas: pip install pandas.") from None
    frame.attrs = {name: _meaning(release, name) for name in frame.columns}
    return frame


def _meaning(release: Release, name: str) -> str:
    for column in release.columns:
        if name in release.shown_as(column):
            if column.role == "quasi":
                end = "" if name == column.name else f", an end of {column.name}"
                return f"quasi-identifier{end}"
            return release.means(column)
    return "how the record was published: see the release format"
