"""What a killed comparison leaves, so that the next one goes on: a private folder in its place.

Finished candidates lie there as JSON, each under a hash of everything that it was measured with:
the program, the table's contents, the questions, the attacks. Whatever differs is measured anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from sfumato.errors import DataError
from sfumato.evidence.compare.candidates import Candidate
from sfumato.evidence.compare.measure import TrialSettings
from sfumato.pages import write_whole
from sfumato.table import Table
from sfumato.table.sources import ParquetSource
from sfumato.version import __version__

FOLDER = ".sfumato-compare"


class State:
    """The private folder; one comparison at a time uses it, and a finished one removes it."""

    def __init__(self, out: Path) -> None:
        self.folder = out / FOLDER
        self._lock: int | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.folder.chmod(0o700)
        self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise DataError(
                f"Another comparison is writing to {str(self.folder.parent)!r} just now."
            ) from None
        self._clear()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._lock is not None
        if kind is None:
            shutil.rmtree(self.folder)
        else:
            self._clear()
            with suppress(OSError):  # not empty: there are results to go on with
                self.folder.rmdir()
        os.close(self._lock)

    def _clear(self) -> None:
        """Results stay; releases, traces and copies of records do not."""
        for left in self.folder.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
            elif left.suffix != ".json":
                left.unlink()

    def found(self, key: str) -> dict[str, Any] | None:
        """A result that an earlier run finished."""
        try:
            result = json.loads((self.folder / f"{key}.json").read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return result if isinstance(result, dict) else None

    def keep(self, key: str, result: dict[str, Any]) -> None:
        """Keep a result; it is there whole or not at all."""
        write_whole(self.folder / f"{key}.json", json.dumps(result))

    def work(self, key: str) -> Path:
        """A fresh private folder for one candidate."""
        place = self.folder / key
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(mode=0o700)
        return place

    def own_copy(self, table: Table) -> tuple[Table, str]:
        """The table as processes can share it, and a hash of its contents.

        Parquet files are read where they are. Everything else is copied once, so that every
        candidate sees the same records, however slow or fickle the source.
        """
        digest = hashlib.sha256(repr(table.declaration).encode())
        names = (*table.quasi, *table.sensitive, *([table.key] if table.key else []))
        if isinstance(table.source, ParquetSource):
            for batch in table.batches(names):
                _update(digest, batch)
            return table, digest.hexdigest()
        place = self.folder / "table.parquet"
        schema = pa.schema([pa.field(name, table.type_of(name)) for name in names])
        import pyarrow.parquet as pq

        with pq.ParquetWriter(place, schema, store_schema=False) as writer:
            for batch in table.batches(names):
                _update(digest, batch)
                writer.write_batch(pa.RecordBatch.from_arrays(list(_decoded(batch)), schema=schema))
        return replace(table, source=ParquetSource([place]), drop=()), digest.hexdigest()


def key_of(candidate: Candidate, table: str, settings: TrialSettings) -> str:
    """A hash of everything that a result depends on; `table` is the hash of its contents."""
    described = [
        __version__,
        str(candidate),
        table,
        [question.sql() for question in settings.workload.questions],
        settings.attacks,
        settings.targets,
        settings.fresh,
        settings.seed,
    ]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:32]


def _update(digest: Any, batch: pa.RecordBatch) -> None:
    for array in _decoded(batch):
        digest.update(pa.RecordBatch.from_arrays([array], names=["c"]).serialize())


def _decoded(batch: pa.RecordBatch) -> Iterator[pa.Array]:
    for array in batch.columns:
        yield array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
