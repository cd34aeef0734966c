"""Files for the steward's eyes alone: keys, receipts and ledgers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from sfumato.errors import DataError, UsageError

MODE = 0o600
_OTHERS, _ENTER = 0o077, 0o011


@contextmanager
def private_file(path: Path, what: str, *, again: bool = False) -> Iterator[BinaryIO]:
    """A file that only its owner may read, which stands at `path` when the block ends well; a full
    disk or a killed run leaves nothing there. Never over one that is there, but `again`."""
    hidden = path.with_name(f".{path.name}.partial")

    def refuse_present() -> None:
        if path.exists() and not again:
            raise DataError(f"{str(path)!r} exists already; a {what} is never overwritten.")

    refuse_present()
    with writing_errors(path, what):
        hidden.unlink(missing_ok=True)  # of a killed run
        file = os.fdopen(os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "wb")
    try:
        yield file
        refuse_present()
        with writing_errors(path, what):
            file.flush()
            os.fsync(file.fileno())
            hidden.replace(path)
    finally:
        with suppress(OSError):  # a full disk has been told
            file.close()
        hidden.unlink(missing_ok=True)


@contextmanager
def writing_errors(path: Path, what: str) -> Iterator[None]:
    """Say of what file it is that the system refuses to write it."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise DataError(f"Cannot write the {what} to {str(path)!r}: {reason}.") from None


def read_private(path: str | Path, what: str) -> str:
    """The text of a file that nobody else may read.

    A secret that others could have read is none: it is refused, not put right in silence.
    """
    location = Path(path)
    try:
        require_private(location, what)
        return location.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""


def require_private(path: Path, what: str) -> None:
    """Refuse a file that others may read: no mode, of it or a folder above, keeps them out."""
    status = path.stat()
    above = path.resolve().parents
    if not status.st_mode & _OTHERS or any(not folder.stat().st_mode & _ENTER for folder in above):
        return
    raise DataError(
        f"Others can read {what} {str(path)!r} (mode {status.st_mode & 0o777:03o}). Whoever has it "
        f"can undo the draws. If nobody else has had access to this machine, run 'chmod 600' on "
        "it; otherwise make a new one."
    )


def outside_release(path: Path, release: Path, what: str) -> None:
    """Refuse a private file or folder that would be given out with the release."""
    if path.resolve().is_relative_to(release.resolve()):
        raise UsageError(
            f"The private {what} {str(path)!r} would lie in the release. Choose a place that is "
            "not given out."
        )
