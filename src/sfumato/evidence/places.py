"""Where reports go: a folder of their own, never inside a release."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sfumato.errors import DataError
from sfumato.release.manifest import NAME
from sfumato.release.records import FOLDER


@contextmanager
def report_folder(out: str | Path, *, beside: Path | None = None) -> Iterator[Path]:
    """The folder for a report, made where it is not there yet.

    A release folder holds what its manifest names and nothing else, so a report never goes into
    one. Where the report fails before anything was written, the folder goes again.
    """
    folder = Path(out)
    whole = folder.resolve()
    for ancestor in (whole, *whole.parents):
        records = (ancestor / FOLDER).is_dir()
        if ((ancestor / NAME).is_file() and records) or (
            beside is not None and ancestor == beside.resolve()
        ):
            raise DataError(
                f"{str(folder)!r} lies inside a release, which may hold nothing else. Choose "
                "another place for the report."
            )
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{str(folder)!r} is a file. Choose a folder for the report.")
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"Cannot write to {str(folder)!r}: {error.strerror}.") from None
    try:
        yield folder
    finally:
        if is_new:
            with suppress(OSError):  # not empty: there is a report
                folder.rmdir()
