"""The private trace: what a steward may keep to prove, later, that every record had its group.

It holds true values, so it is as sensitive as the table; it never goes into a release folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato.draws import IntArray
from sfumato.errors import DataError, UsageError
from sfumato.mechanisms import Batch, Published
from sfumato.private import MODE, outside_release

TRACE = "trace.parquet"


class TraceWriter:
    """Writes `trace.parquet` in stream order: per sensitive column `c` the codes `c`,
    `c published` and whatever the plan traces, such as `c group`; `kept` says which records were
    published.

    The file appears when the `with` block ends well.
    """

    def __init__(self, folder: str | Path, release: str | Path) -> None:
        self._folder = Path(folder)
        outside_release(self._folder, Path(release), "trace")
        if (self._folder / TRACE).exists():
            raise DataError(f"{str(self._folder / TRACE)!r} exists already. Choose another folder.")
        self._part = self._folder / f"{TRACE}.part"
        self._writer: Any = None

    def __enter__(self) -> Self:
        return self

    def add(self, batch: Batch, published: Published, traced: Mapping[str, IntArray]) -> None:
        import pyarrow.parquet as pq

        if not traced:
            raise UsageError("This mechanism has no private trace. Leave --trace out.")
        arrays: dict[str, Any] = {}
        for name, codes in batch.codes.items():
            arrays[name] = codes
            arrays[f"{name} published"] = published.codes[name]
        arrays.update(traced)
        rows = len(next(iter(arrays.values())))
        arrays["kept"] = np.ones(rows, np.bool_) if published.keep is None else published.keep
        table = pa.table({name: pa.array(array) for name, array in arrays.items()})
        if self._writer is None:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._part.touch(MODE)
            self._writer = pq.ParquetWriter(self._part, table.schema)
        self._writer.write_table(table)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is None:
            return
        self._writer.close()
        if kind is None:
            self._part.rename(self._folder / TRACE)
        else:
            self._part.unlink(missing_ok=True)
