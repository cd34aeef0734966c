"""Folders and databases for passing data, which never stay where somebody may look.

Raw values must not lie about in a place that the steward does not watch: DuckDB by itself spills
into `.tmp` of the current folder, and leaves it there when it is killed. Every such folder is made
here, readable by its owner alone, and goes away with what it serves. It is locked as long as its
process lives, so that the next run knows the folders of killed ones and removes them.

To open a DuckDB takes 20 ms, longer than most of what small tables ask of it: one that nobody uses
any more, and that never wrote beside it, is taken again. Every user has an own catalogue in it.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import LeftoverWarning
from sfumato.limits import database_memory, interrupt_at_end, spill_allowed

if TYPE_CHECKING:
    import duckdb

PREFIX = "sfumato-scratch-"
_held: dict[Path, int] = {}  # the folders of this process, and the locks on them
_idle: list[duckdb.DuckDBPyConnection] = []  # databases that nobody uses; they have no folder
_MOST_IDLE = 4
_swept: set[str] = set()  # where this process has looked for the folders of killed ones
_numbers = itertools.count()
_NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP)


def scratch_folder(owner: object) -> Path:
    """A private folder that goes away with its owner."""
    folder = _made()
    weakref.finalize(owner, _removed, folder)
    return folder


@contextmanager
def scratch_space() -> Iterator[Path]:
    """A private folder for as long as the block runs."""
    folder = _made()
    try:
        yield folder
    finally:
        _removed(folder)


def scratch_database(
    threads: int | None = None,
    *,
    columns: int = 1,
    without: Sequence[str] = (),
    counting: bool = False,
) -> duckdb.DuckDBPyConnection:
    """An in-memory database under a memory limit that spills into a private folder.

    It will hold, sort or count so many `columns` at once. Time, memory and disk are those of
    `sfumato.limits`. `without` names optimizers that are not to be used.
    `counting` is for whole tables of which only counts are wanted: half of the memory, and it is
    not kept for the next user, since a database keeps the memory that it once needed.
    """
    import duckdb

    folder = _made()
    name = f"scratch{next(_numbers)}"
    memory = database_memory(columns) // (2 if counting else 1)
    try:
        try:
            database = _idle.pop()  # in one step: threads may come at the same time
        except IndexError:
            database = duckdb.connect()
        location = str(folder).replace("'", "''")
        database.execute(
            f"SET memory_limit = '{memory}B'; SET temp_directory = '{location}';"
            f"SET max_temp_directory_size = '{spill_allowed()}B';"
            f"SET disabled_optimizers = '{','.join(without)}';"
            f"{'RESET threads' if threads is None else f'SET threads = {threads}'};"
            f"ATTACH ':memory:' AS {name}"
        )
        connection = database.cursor()
        connection.execute(f"USE {name}")
    except BaseException:
        _removed(folder)
        raise
    weakref.finalize(connection, _left, database, name, folder, not counting)
    interrupt_at_end(connection)
    return connection


def _left(database: duckdb.DuckDBPyConnection, name: str, folder: Path, again: bool) -> None:
    """A database whose user is gone: what it held goes, and it waits for the next one.

    One that has written beside it keeps to its folder: DuckDB then refuses another, and it ends.
    """
    import duckdb

    with suppress(duckdb.Error):
        database.execute(f"DETACH {name}; SET temp_directory = ''")
        if again and len(_idle) < _MOST_IDLE:
            _idle.append(database)
    _removed(folder)


def remove_all() -> None:
    """Remove every folder of this process at once: it is about to end."""
    for folder in list(_held):
        _removed(folder)


def _made() -> Path:
    if tempfile.gettempdir() not in _swept:  # once a run: others may have left much there
        _swept.add(tempfile.gettempdir())
        sweep()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with suppress(BlockingIOError):  # somebody who sweeps was faster
            _held[folder] = locked_folder(folder, surely=False)
            return folder


def locked_folder(folder: Path, *, surely: bool) -> int:
    """A descriptor that holds the folder; BlockingIOError where another run has it or took it away.

    Network file systems may not lock folders: there, unless the lock must be sure, two runs at once
    go unnoticed.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise BlockingIOError from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if surely or error.errno not in _NO_LOCKS:
                raise
        if not folder.exists() or not os.path.samestat(os.fstat(descriptor), folder.stat()):
            raise BlockingIOError
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _removed(folder: Path) -> None:
    lock = _held.pop(folder, None)
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        with suppress(OSError):
            os.close(lock)


def sweep() -> int:
    """Remove the folders of killed runs, and say so; how many there were."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            if folder in _held or folder.lstat().st_uid != os.getuid():
                continue
            lock = locked_folder(folder, surely=True)
        except OSError:
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        removed += 1
    if removed:
        warnings.warn(
            f"A run that was killed had left {removed} folder{'s' * (removed > 1)} with raw data "
            f"in {tempfile.gettempdir()}: removed.",
            LeftoverWarning,
            stacklevel=4,
        )
    return removed
