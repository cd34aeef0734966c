"""Files for the steward's eyes alone: keys, receipts and traces."""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.errors import DataError, UsageError

MODE = 0o600
_OTHERS, _ENTER = 0o077, 0o011


def create_private(path: Path, what: str) -> int:
    """A descriptor of a new file that only its owner may read; never over one that is there."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    except FileExistsError:
        raise DataError(f"{str(path)!r} exists already; a {what} is never overwritten.") from None
    except OSError as error:
        raise DataError(f"Cannot write the {what} to {str(path)!r}: {error.strerror}.") from None


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


def keep_private(path: Path) -> None:
    """Set the mode of a private file, where others could read it."""
    if path.stat().st_mode & _OTHERS:
        path.chmod(MODE)


def outside_release(path: Path, release: Path, what: str) -> None:
    """Refuse a private file or folder that would be given out with the release."""
    if path.resolve().is_relative_to(release.resolve()):
        raise UsageError(
            f"The private {what} {str(path)!r} would lie in the release. Choose a place that is "
            "not given out."
        )
