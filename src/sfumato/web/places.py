"""The folders that the page may choose files from, and nothing outside them."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from sfumato.errors import DataError, UsageError
from sfumato.table.sources import TEXTS
from sfumato.table.workbooks import STATISTICS, WORKBOOKS

ENDINGS = (".parquet", *TEXTS, ".arrow", ".feather", ".ipc", *WORKBOOKS, *STATISTICS)
MOST_LISTED = 2000


class Roots:
    """All folders of tables that the server was given, by their numbers."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders: dict[object, Path] = {}
        for number, folder in enumerate(folders):
            if not folder.is_dir():
                raise UsageError(f"{str(folder)!r} is not a folder of tables, and no release.")
            self._folders[str(number)] = plain_place(folder.resolve(), "A folder of tables")

    def to_json(self) -> list[dict[str, Any]]:
        return [{"id": i, "name": f.name or str(f)} for i, f in self._folders.items()]

    def listing(self, identifier: object, inside: object) -> dict[str, Any]:
        """The folders and the tables in a folder of a root."""
        folder = self._within(identifier, inside)
        if not folder.is_dir():
            raise DataError("That is not a folder. Choose one from the list.")
        folders: list[str] = []
        files: list[dict[str, Any]] = []
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            raise DataError("This folder cannot be read. Choose another one.") from None
        for entry in entries[:MOST_LISTED]:
            if entry.name.startswith(".") or not _printable(entry.name):
                continue
            try:
                # a link that leads out is not shown: choosing it would be refused
                self._within(identifier, f"{inside}/{entry.name}" if inside else entry.name)
                if entry.is_dir():
                    folders.append(entry.name)
                elif entry.is_file() and entry.name.lower().endswith(ENDINGS):
                    files.append({"name": entry.name, "bytes": entry.stat().st_size})
            except (DataError, OSError):
                continue
        return {"folders": folders, "files": files}

    def file(self, identifier: object, path: object) -> Path:
        """A table's file, resolved; refused where it lies outside its root or is no table."""
        path_inside = self._within(identifier, path)
        if not path_inside.is_file():
            raise DataError("There is no such file in that folder. Choose one from the list.")
        check_name(path_inside.name)
        return path_inside

    def _within(self, identifier: object, path: object) -> Path:
        """Follow a path below a root, links and all, and make sure that it ends below the root."""
        root = self._folders.get(identifier) if isinstance(identifier, str) else None
        if root is None:
            raise DataError(
                "There is no such folder. Choose one of those that the server was started with."
            )
        text = "" if path is None else path
        if not isinstance(text, str) or "\0" in text or "\\" in text or len(text) > 4096:
            raise _outside()
        parts = PurePosixPath(text)
        if parts.is_absolute() or ".." in parts.parts:
            raise _outside()
        try:
            resolved = (root / parts).resolve()
        except (OSError, RuntimeError, ValueError):
            raise _outside() from None
        if not resolved.is_relative_to(root):
            raise _outside()
        names = (*parts.parts, *resolved.relative_to(root).parts)
        hidden = any(name.startswith(".") for name in names)
        if hidden or glob.has_magic(str(resolved.relative_to(root))):
            raise DataError(
                "Hidden files, and names with *, ? or [, cannot be chosen here. Rename the file."
            )
        return resolved


def plain_place(folder: Path, flag: str) -> Path:
    """A folder whose name no reader of files takes for a pattern."""
    if glob.has_magic(str(folder)):
        raise UsageError(
            f"{flag} cannot be {str(folder)!r}: a path with *, ? or [ could stand for others too. "
            "Rename the folder."
        )
    return folder


def _outside() -> DataError:
    return DataError(
        "That path leads outside the folders that the server was started with. Choose a file from "
        "the list, or start the server with another folder."
    )


def _printable(name: str) -> bool:
    return name.isprintable() and not glob.has_magic(name)


def check_name(name: str) -> str:
    """The ending of a table's file name, in lower case; refused where it is no known one.

    >>> check_name("People.CSV")
    '.csv'
    """
    ending = Path(name).suffix.lower()
    if ending not in ENDINGS:
        raise DataError(
            f"Only tables can be read: files that end in {', '.join(ENDINGS)}. Save yours as one "
            "of these."
        )
    return ending


def stamp(path: Path) -> list[int] | None:
    """What changes when a file does."""
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]
