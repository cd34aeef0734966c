"""What the server keeps on disk, in one folder that only its owner may enter.

uploads/ID/          one uploaded file each
tables/ID.json       where a chosen table is, and what was seen of it
profiles/ID.json     the roles of its columns, and the counts that planning needs
jobs/ID/             job.json and what the job made
temp/ID/             what a worker writes meanwhile; goes away with the worker
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import stat
from pathlib import Path
from typing import Any

from sfumato.errors import DataError
from sfumato.pages import write_whole
from sfumato.web.places import plain_place

_IDENTIFIER = re.compile(r"[0-9a-f]{16}")
FOLDERS = ("uploads", "tables", "profiles", "jobs", "temp")


def new_identifier() -> str:
    """A name for something kept: random, so that it cannot be guessed, and safe in a path."""
    return secrets.token_hex(8)


def is_identifier(text: object) -> bool:
    """Whether a text that came from outside may name a file here.

    >>> is_identifier("0123456789abcdef"), is_identifier("../../etc/passwd")
    (True, False)
    """
    return isinstance(text, str) and _IDENTIFIER.fullmatch(text) is not None


class StateFolder:
    """The folder, locked: two servers must not tidy up behind each other."""

    def __init__(self, path: Path) -> None:
        self.path = plain_place(path.resolve(), "--state")
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            status = self.path.stat()
        except OSError as error:
            raise DataError(
                f"Cannot use {str(path)!r} as the state folder: {error.strerror}. Name another "
                "one with --state."
            ) from None
        if status.st_uid != os.getuid():
            raise DataError(
                f"The state folder {str(path)!r} belongs to somebody else. Name another one with "
                "--state."
            )
        if stat.S_IMODE(status.st_mode) != 0o700:
            self.path.chmod(0o700)
        for name in FOLDERS:
            (self.path / name).mkdir(exist_ok=True, mode=0o700)
        self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise DataError(
                f"Another server uses the state folder {str(path)!r} already. Use its page, stop "
                "it, or name another folder with --state."
            ) from None
        empty(self.path / "temp")

    def close(self) -> None:
        """Give the lock back."""
        empty(self.path / "temp")
        os.close(self._lock)

    def folder(self, kind: str, identifier: str) -> Path:
        """The folder of an upload, a job or a worker."""
        assert kind in FOLDERS, kind
        assert is_identifier(identifier), identifier
        return self.path / kind / identifier

    def file(self, kind: str, identifier: str) -> Path:
        """The JSON file of a table or a profile."""
        return self.folder(kind, identifier).with_suffix(".json")


def write_json(path: Path, content: Any) -> None:
    """Write a file so that readers see the old content or the new one, never half of it."""
    write_whole(path, json.dumps(content))


def read_json(path: Path) -> Any:
    """The content of a JSON file; None where there is none, or none that can be read."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def remove(path: Path) -> None:
    """Remove a file or a folder with all it holds; quiet where it is gone already."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def empty(folder: Path, keep: tuple[str, ...] = ()) -> None:
    """Remove everything in a folder but the named files."""
    with contextlib.suppress(OSError):
        for path in list(folder.iterdir()):
            if path.name not in keep:
                remove(path)
