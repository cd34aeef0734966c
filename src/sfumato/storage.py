"""Where organisations keep data: addresses s3://bucket/key, through `pyarrow.fs`.

Credentials are those that its users have set for every program: environment, profiles, roles; none
stands in an address. What is read is copied into a private folder; a release is put up part by
part, and its manifest last, without which nothing opens.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from sfumato.errors import BundleError, DataError, UsageError
from sfumato.scratch import scratch_folder, scratch_space

MANIFEST = "manifest.json"
_PARTS = re.compile(r"(records/)?[A-Za-z0-9_-]+\.parquet")  # no name leads out of a folder
_MOST_KEPT = 10 << 30  # bytes of copies in the private cache: beyond, those opened first go
_IN_USE = 86_400  # seconds since it was opened, in which a copy may still be read
_REASONS = (
    ("ACCESS_DENIED", "access is denied; credentials are those of the environment or a profile"),
    ("INVALID_ACCESS_KEY", "the access key is not known there"),
    ("NO_SUCH_BUCKET", "there is no such bucket"),
    ("NETWORK_CONNECTION", "nothing answers there"),
)


def address_of(place: object) -> str | None:
    """The address that a text or a path means; None where it is a path on this machine.

    >>> address_of(Path("s3://bucket/people.csv")), address_of("people.csv")
    ('s3://bucket/people.csv', None)
    """
    match_ = re.fullmatch("s3:/+(.+)", str(place), re.DOTALL)
    return None if match_ is None else f"s3://{match_[1].rstrip('/')}"


def on_this_machine(place: str | Path) -> str:
    """A path, where file:// stands before it.

    >>> on_this_machine("file:///data/people.csv"), on_this_machine("people.csv")
    ('/data/people.csv', 'people.csv')
    """
    return re.sub("^file:/+", "/", str(place))


@dataclass(frozen=True)
class Stored:
    """A file or a folder at an address."""

    address: str
    system: Any  # a file system of pyarrow
    path: str
    begun: list[str] = field(default_factory=list)  # what this run has put there, or begun to

    @classmethod
    def at(cls, address: str) -> Stored:
        from pyarrow import fs

        if "?" in address or "@" in address:  # not quoted: a secret may stand there
            raise UsageError(
                "An s3:// address is a bucket and a path. Credentials, region and endpoint "
                "are those of the environment (AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL …)."
            )
        with storage_errors(address):
            endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
            if endpoint:
                path = address.removeprefix("s3://")
                return cls(address, fs.S3FileSystem(endpoint_override=endpoint), path)
            system, path = fs.FileSystem.from_uri(address)
            return cls(address, system, path.rstrip("/"))

    def names(self) -> list[str]:
        """The files below it, by their paths from here."""
        from pyarrow import fs

        with storage_errors(self.address):
            inside = fs.FileSelector(self.path, allow_not_found=True, recursive=True)
            entries = self.system.get_file_info(inside)
        files = [PurePosixPath(info.path) for info in entries if info.type == fs.FileType.File]
        return sorted(file.relative_to(self.path).as_posix() for file in files)

    def fetch(self, name: str, target: Path) -> None:
        from pyarrow import fs

        with storage_errors(f"{self.address}/{name}".rstrip("/")):
            source = f"{self.path}/{name}".rstrip("/")
            fs.copy_files(source, str(target), self.system, fs.LocalFileSystem())

    def put(self, name: str, source: Path) -> None:
        from pyarrow import fs

        with storage_errors(f"{self.address}/{name}"):
            fs.copy_files(str(source), f"{self.path}/{name}", fs.LocalFileSystem(), self.system)

    def remove(self, name: str) -> None:
        self.system.delete_file(f"{self.path}/{name}")


class Copies:
    """Files of an address, copied into a private folder that goes away with this."""

    def __init__(self, address: str) -> None:
        self.folder = scratch_folder(self)
        above, _, pattern = address.rpartition("/")
        names = [pattern]
        if re.search(r"[*\[]", pattern):
            names = [name for name in Stored.at(above).names() if fnmatch(name, pattern)]
        if not names:
            raise DataError(f"No file matches {address!r}.")
        for name in names:
            Stored.at(f"{above}/{name}").fetch("", self.folder / name)
        self.pattern, self.above = str(self.folder / pattern), above

    def explained(self, error: DataError) -> DataError:
        """An error about a copy, in terms of what was copied."""
        return DataError(str(error).replace(str(self.folder), self.above))


@contextmanager
def outgoing(place: str | Path) -> Iterator[tuple[Path, Stored | None]]:
    """The folder to write a release to: the place itself or, for an address, one that is put there
    when the block ends, but for what has been put there meanwhile. Nothing opens there before the
    manifest, which comes last."""
    address = address_of(place)
    if address is None:
        path = on_this_machine(place)
        if (scheme := re.match(r"([A-Za-z][\w+.-]+):/", path)) is not None:
            raise UsageError(
                f"A release cannot be put at a {scheme[1]}:// address. Give a folder of this "
                "machine, or s3://bucket/path."
            )
        yield Path(path), None
        return
    stored = Stored.at(address)
    if stored.names():
        raise DataError(f"{address!r} holds files already. Choose another place, or remove them.")
    with scratch_space() as space:
        folder = space / address.rpartition("/")[2]
        try:
            yield folder, stored
            files = [path for path in folder.rglob("*") if path.is_file()]
            names = {path.relative_to(folder).as_posix() for path in files} - {*stored.begun}
            for name in sorted(names, key=lambda name: (name == MANIFEST, name)):
                stored.begun.append(name)
                stored.put(name, folder / name)
        except BaseException:
            for name in reversed(stored.begun):  # the manifest first
                with suppress(OSError):
                    stored.remove(name)
            raise


def release_folder(place: str | Path) -> Path:
    """The folder of a release: the place itself or, for an address, a copy in a private cache.

    The copy is named by the manifest, and whoever opens it compares every file with the manifest.
    """
    address = address_of(place)
    if address is None:
        return Path(on_this_machine(place))
    stored, cache = Stored.at(address), _cache()
    if MANIFEST not in (names := stored.names()):
        raise BundleError(f"There is no release at {address!r}: it has no manifest.")
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        copy = Path(temporary) / "release"
        (copy / "records").mkdir(parents=True)
        stored.fetch(MANIFEST, copy / MANIFEST)
        folder = cache / hashlib.sha256((copy / MANIFEST).read_bytes()).hexdigest()
        if not folder.exists():
            for name in names:
                if _PARTS.fullmatch(name):
                    stored.fetch(name, copy / name)
            with suppress(OSError):  # another run was faster
                copy.rename(folder)
    os.utime(folder)
    _make_room(cache)
    return folder


def _make_room(cache: Path) -> None:
    """Remove the copies that were opened longest ago, until the others are within the limit."""
    copies = []
    for copy in cache.iterdir():
        with suppress(FileNotFoundError):  # another run's, which it has just removed
            size = sum(path.lstat().st_size for path in copy.rglob("*"))
            copies.append((copy.stat().st_mtime, size, copy))
    total = 0
    for opened, size, copy in sorted(copies, reverse=True):
        total += size
        if total > _MOST_KEPT and opened < time.time() - _IN_USE:
            shutil.rmtree(copy, ignore_errors=True)


def is_release(place: str | Path) -> bool:
    """Whether a release lies there."""
    address = address_of(place)
    if address is None:
        return (Path(on_this_machine(place)) / MANIFEST).is_file()
    return MANIFEST in Stored.at(address).names()


def _cache() -> Path:
    above = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(above) / "sfumato" / "releases"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@contextmanager
def storage_errors(address: str) -> Iterator[None]:
    """Whatever a store throws becomes one clear sentence."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise DataError(f"There is no file {address!r}.") from None
    except (OSError, pa.ArrowException, ImportError) as error:
        text = str(error)
        code = re.search(r"AWS Error (\w+)", text)
        reasons = (reason for name, reason in _REASONS if name in text)
        reason = next(reasons, code[1] if code else type(error).__name__)
        raise DataError(f"Cannot use {address!r}: {reason}.") from None
