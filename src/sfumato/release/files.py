"""The files of a release folder: those that the manifest names, unchanged, and readable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.columns import list_some
from sfumato.errors import BundleError
from sfumato.release.manifest import NAME, FileEntry, Manifest
from sfumato.release.records import FOLDER


def check_files(folder: Path, manifest: Manifest, where: str, *, hashes: bool) -> None:
    """The folder holds exactly what the manifest names, in plain files of the stated size."""
    listed = set(manifest.files) | {NAME}
    present = {path.name for path in folder.iterdir()}
    parts = folder / FOLDER
    if parts.is_dir() and not parts.is_symlink():
        inside = {f"{FOLDER}/{path.name}" for path in parts.iterdir()}
        present = (present - {FOLDER}) | inside
    if listed - present:
        raise BundleError(
            f"{where} lacks {list_some(sorted(listed - present))}. The release is incomplete: "
            "fetch it again."
        )
    if present - listed:
        raise BundleError(
            f"{where} holds files that the manifest does not name: "
            f"{list_some(sorted(present - listed))}. Remove them."
        )
    for name, entry in manifest.files.items():
        path = folder / name
        if path.is_symlink() or not path.is_file():
            raise BundleError(f"{name} of {where} is not a plain file.")
        changed = path.stat().st_size != entry.bytes or (hashes and FileEntry.of(path) != entry)
        if changed:
            raise BundleError(
                f"{name} of {where} is not the file that was published: its SHA-256 or size "
                "differs from the manifest. Fetch the release again."
            )


@contextmanager
def opened_parquet(path: Path, where: str = "the release") -> Iterator[Any]:
    """A Parquet file of a release: what Arrow cannot read of it is one sentence."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError):  # names of columns may be no text either
        raise BundleError(f"Cannot read {path.name} of {where}. Fetch it again.") from None


def read_schema(folder: Path, names: Sequence[str], where: str) -> tuple[pa.Schema, int]:
    """The columns that all these files of one table have, and how many rows there are."""
    schemas, rows = [], 0
    for name in names:
        with opened_parquet(folder / name, where) as file:
            schemas.append(file.schema_arrow)
            rows += file.metadata.num_rows
        if len(set(schemas[-1].names)) != len(schemas[-1].names):
            raise BundleError(f"{name} of {where} has a column twice.")
        if schemas[-1] != schemas[0]:
            raise BundleError(
                f"{(folder / name).name} of {where} has other columns or types than "
                f"{(folder / names[0]).name}."
            )
    return schemas[0], rows
