"""Writing a release folder: it appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import warnings
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from msgspec.structs import replace

from sfumato.errors import BundleError, DataError, LeftoverWarning
from sfumato.release.manifest import NAME, UNFINISHED, FileEntry, Manifest
from sfumato.release.reader import Release
from sfumato.release.records import FOLDER
from sfumato.scratch import locked_folder

_writing: weakref.WeakSet[BundleWriter] = weakref.WeakSet()


def remove_unfinished() -> None:
    """Remove what this process has not finished: it is about to end."""
    for writer in list(_writing):
        writer.leave()


class BundleWriter:
    """A hidden folder beside the place of the release, renamed to it at the very end.

    Its name depends on the place alone, so a killed run leaves one such folder at most, and the
    next run to that place removes it. A lock on the folder itself tells a dead run from a running
    one: a lock file would have to go before the folder appears, and leave a gap.
    """

    def __init__(self, place: str | Path) -> None:
        self.place = Path(place)
        self.folder = self.place.parent / f".{self.place.name}{UNFINISHED}"
        self._lock: int | None = None
        _writing.add(self)
        self._made: list[Path] = []  # folders above the place that were not there before

    def __enter__(self) -> Self:
        if self.place.exists() or self.place.is_symlink():
            raise DataError(
                f"{str(self.place)!r} exists already. Choose another place, or remove it first."
            )
        try:
            above = self.place.parent
            self._made = [path for path in (above, *above.parents) if not path.exists()]
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = locked_folder(self.folder, surely=False)
            if self._clear():
                warnings.warn(
                    f"A run that was killed had left a part of {str(self.place)!r}: removed.",
                    LeftoverWarning,
                    stacklevel=2,
                )
        except BlockingIOError:
            raise DataError(f"Another run is publishing to {str(self.place)!r} just now.") from None
        except OSError as error:
            self.leave()
            raise unwritable(self.place, error) from None
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.leave()
        if isinstance(error, OSError):
            raise unwritable(self.place, error) from None

    def finish(self, manifest: Manifest) -> Manifest:
        """Hash the files, write the manifest, open the release once, and let the folder appear.

        Parts of the records lie in `folder / "records"`.
        """
        folders = [self.folder, self.folder / FOLDER]
        inside = [path for folder in folders for path in folder.iterdir()]
        paths = sorted(path for path in inside if path not in folders)
        files = {path.relative_to(self.folder).as_posix(): FileEntry.of(path) for path in paths}
        whole = replace(manifest, files=files)
        with (self.folder / NAME).open("w", encoding="utf-8") as file:
            file.write(whole.to_text())
            file.flush()
            os.fsync(file.fileno())
        self._reopen()
        self.appear([*paths, *reversed(folders)])
        return whole

    def appear(self, paths: Iterable[Path]) -> None:
        """Let the folder stand at its place, once these are on the disk."""
        assert self._lock is not None
        for path in paths:
            _sync(path)
        self.folder.rename(self.place)
        os.close(self._lock)
        self._lock = None
        self._made = []
        _sync(self.place.parent)

    def _reopen(self) -> None:
        """Nothing appears that could not be opened again; hashes were taken just now."""
        try:
            Release(self.folder, verify=False, named=self.place)
        except BundleError as error:
            raise DataError(
                f"Nothing was published, because the release could not be opened again: {error}"
            ) from None

    def leave(self) -> None:
        """Remove what this run made, unless the release has appeared."""
        if self._lock is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._lock)
            self._lock = None
        for path in self._made:
            with contextlib.suppress(OSError):  # somebody else may use it by now
                path.rmdir()

    def _clear(self) -> bool:
        """Remove what is there; whether there was anything."""
        paths = list(self.folder.iterdir())
        for path in paths:
            (shutil.rmtree if path.is_dir() and not path.is_symlink() else os.unlink)(path)
        return bool(paths)


def unwritable(place: Path, error: OSError) -> DataError:
    """One sentence for a full disk, a missing right, a read-only place."""
    # Arrow wraps the system's words in its own
    reason = os.strerror(error.errno) if error.errno else str(error).splitlines()[0].rstrip(".")
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
