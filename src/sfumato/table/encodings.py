"""Texts that are packed or in other encodings than UTF-8, as DuckDB reads them."""

from __future__ import annotations

import codecs
import shutil
from pathlib import Path
from typing import Any

from sfumato.errors import DataError
from sfumato.scratch import scratch_folder

_CHUNK = 1 << 20
PACKED = {".gz": "gzip", ".zst": "zstd"}
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def as_utf8(path: Path, encoding: str, owner: object) -> Path:
    """The file itself if it is UTF-8, else a copy in UTF-8 that goes away with its `owner`.

    Only a byte order mark tells an encoding for sure; nothing else is guessed. The copy lies in a
    folder that nobody else can read. What is packed is unpacked there.
    """
    label, path = path, unpacked(path, owner)
    with path.open("rb") as file:
        start = file.read(2)
    marked = next((name for mark, name in _MARKS if start.startswith(mark)), "")
    wanted = encoding or marked or "utf-8"
    if codecs.lookup(wanted).name == "utf-8":
        _require_utf8(path, label)
        return path
    copy = scratch_folder(owner) / "table.csv"
    try:
        with (
            path.open(encoding=wanted, newline="") as source,
            copy.open("w", encoding="utf-8", newline="") as target,
        ):
            shutil.copyfileobj(source, target, _CHUNK)
    except (UnicodeError, LookupError):
        raise DataError(
            f"{label} is not {wanted}. Say what it is with --encoding, for example utf-8, latin-1, "
            "cp1252 or utf-16."
        ) from None
    return copy


def unpacked(path: Path, owner: object) -> Path:
    """The file itself, or what is packed in it, in a private folder that goes with its `owner`."""
    if path.suffix.lower() not in PACKED:
        return path
    copy = scratch_folder(owner) / path.stem
    with opened(path) as source, copy.open("wb") as target:
        shutil.copyfileobj(source, target, _CHUNK)
    return copy


def opened(path: Path) -> Any:
    """The bytes of a text file, unpacked on the way."""
    import pyarrow as pa

    packed = PACKED.get(path.suffix.lower())
    return path.open("rb") if packed is None else pa.input_stream(str(path), compression=packed)


def _require_utf8(path: Path, label: Path) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines = 1
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError as error:
                line = lines + chunk[: error.start].count(b"\n")
                raise DataError(
                    f"{label} is not UTF-8 (line {line:,}). Say what it is with --encoding, for "
                    "example latin-1, cp1252 or utf-16."
                ) from None
            lines += chunk.count(b"\n")
