"""Writing a release folder: it appears whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from sfumato.errors import DataError
from sfumato.release.manifest import NAME, FileEntry, Manifest

UNFINISHED = ".sfumato-part"  # how the folder of a run that has not finished ends


class BundleWriter:
    """A hidden folder beside the place of the release, renamed to it at the very end.

    Its name depends on the place alone, so a killed run leaves one such folder at most, and the
    next run to that place removes it. A lock tells a dead run from a running one.
    """

    def __init__(self, place: str | Path) -> None:
        self.place = Path(place)
        self.folder = self.place.parent / f".{self.place.name}{UNFINISHED}"
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Self:
        if self.place.exists() or self.place.is_symlink():
            raise DataError(
                f"{str(self.place)!r} exists already. Choose another place, or remove it first."
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._clear()
        except BlockingIOError:
            raise DataError(f"Another run is publishing to {str(self.place)!r} just now.") from None
        except OSError as error:
            raise unwritable(self.place, error) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lock is not None and not self._lock.closed:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._lock.close()
        if isinstance(error, OSError):
            raise unwritable(self.place, error) from None

    def finish(self, manifest: Manifest) -> Manifest:
        """Hash the files, write the manifest, and let the folder appear."""
        assert self._lock is not None
        names = sorted(path.name for path in self.folder.iterdir() if path.name != "lock")
        files = {name: FileEntry.of(self.folder / name) for name in names}
        whole = replace(manifest, files=files)
        with (self.folder / NAME).open("w", encoding="utf-8") as file:
            file.write(whole.to_text())
            file.flush()
            os.fsync(file.fileno())
        for name in names:
            _sync(self.folder / name)
        (self.folder / "lock").unlink()
        _sync(self.folder)
        self.folder.rename(self.place)
        _sync(self.place.parent)
        self._lock.close()
        return whole

    def _clear(self) -> None:
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != "lock":
                path.unlink()


def unwritable(place: Path, error: OSError) -> DataError:
    """One sentence for a full disk, a missing right, a read-only place."""
    reason = error.strerror or str(error)
    return DataError(
        f"Cannot write the release to {str(place)!r}: {reason}. Nothing was left behind; free "
        "space or choose another place."
    )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
