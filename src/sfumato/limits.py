"""How much time, memory, disk and output one piece of work may take.

`with limited(timeout=60, memory="2GB"):` holds for everything inside it; the command line's
`--timeout` and its sisters are the same thing. Work that reaches a limit ends in one sentence.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import LimitReached, SfumatoError, UsageError

if TYPE_CHECKING:
    import duckdb

MAX_ROWS = 1_000_000  # of an answer
_BASE = 192 * 10**6  # bytes that a database may use for a narrow table: beyond it spills
_PER_COLUMN = 32 * 10**6  # and for every column that it holds, sorts or counts besides
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


@dataclass(frozen=True)
class ResourceLimits:
    """What the work in hand may take; `ends` is a moment of `time.monotonic`, None for never."""

    timeout: float | None = None
    ends: float | None = None
    memory: int | None = None
    spill: int | None = None
    rows: int = MAX_ROWS

    def check(self) -> None:
        """Raise `LimitReached` where the time is over."""
        if self.ends is not None and time.monotonic() >= self.ends:
            raise LimitReached(too_long(self.timeout or 0.0))


_NONE = ResourceLimits()
_current: ContextVar[ResourceLimits] = ContextVar("limits", default=_NONE)


@contextmanager
def limited(
    *,
    timeout: float | None = None,
    memory: int | str | None = None,
    spill: int | str | None = None,
    rows: int | None = None,
) -> Iterator[ResourceLimits]:
    """Hold all work inside the block to these limits; what is left out stays as it is.

    `timeout` is in seconds and looked at between two steps, so work may end a step later. `memory`
    and `spill` are bytes, or texts such as "2GB": what a database may hold, and write beside it.
    `rows` is the largest answer. `LimitReached` says which limit it was.

    >>> with limited(timeout=60, memory="2GB", rows=1000) as limits:
    ...     limits.memory
    2000000000
    """
    outer = _current.get()
    if timeout is not None and not timeout > 0:
        raise UsageError(f"A timeout is a number of seconds above 0. Got {timeout} instead.")
    if rows is not None and rows < 1:
        raise UsageError(f"The largest answer has 1 row or more. Got {rows} instead.")
    inner = outer
    if timeout is not None and (outer.ends is None or time.monotonic() + timeout < outer.ends):
        inner = replace(inner, timeout=timeout, ends=time.monotonic() + timeout)
    inner = replace(
        inner,
        memory=outer.memory if memory is None else size(memory, "memory"),
        spill=outer.spill if spill is None else size(spill, "spill"),
        rows=outer.rows if rows is None else rows,
    )
    token = _current.set(inner)
    try:
        yield inner
    except Exception as error:
        if isinstance(error, LimitReached):
            raise
        # a database that was interrupted tells it in its own words, or in those of its caller
        if isinstance(error, SfumatoError) or type(error).__module__.startswith("_duckdb"):
            inner.check()
        raise
    finally:
        _current.reset(token)


def current_limits() -> ResourceLimits:
    """The limits of the work in hand."""
    return _current.get()


def too_long(seconds: float) -> str:
    return (
        f"This took longer than {seconds:g} seconds and was stopped. Ask for less, or allow more "
        "time with --timeout."
    )


def too_much() -> str:
    return (
        "This needs more memory, or disk for passing data, than is allowed. Take fewer columns, "
        "groups or values, or allow more with --memory-limit or --spill-limit."
    )


def size(given: int | str, name: str) -> int:
    """A size such as 2GB in bytes.

    >>> size("1.5GB", "--memory-limit")
    1500000000
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]B)?\s*", str(given).upper())
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"{name} takes a size such as 500MB or 2GB. Got {given!r} instead.")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def memory_of_machine() -> int:
    """Bytes of memory that this machine has, or that this process's container may use."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _GROUPS:
        try:
            memory = min(memory, int(path.read_text()))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return memory


def memory_allowed() -> int:
    """What the work in hand may use: what was said, or half of the machine."""
    said = _current.get().memory
    process = resource.getrlimit(resource.RLIMIT_DATA)[0]
    bounds = [memory_of_machine() // 2 if said is None else said]
    return min(bounds if process == resource.RLIM_INFINITY else [*bounds, process])


def database_memory(columns: int = 1, base: int = _BASE) -> int:
    """Bytes for one database about a table of so many columns.

    Never above half of what is allowed: the other half is for what is made of its answers. A narrow
    table takes little, however long it is, because a database spills.
    """
    return max(min(base + columns * _PER_COLUMN, memory_allowed() // 2), 1)


def spill_allowed() -> int:
    """Bytes that a database may write beside it: what was said, or half of the free space."""
    said = _current.get().spill
    return said if said is not None else shutil.disk_usage(tempfile.gettempdir()).free // 2


def check_rows(rows: int) -> None:
    """Refuse an answer that is too large."""
    most = _current.get().rows
    if rows > most:
        raise LimitReached(
            f"The answer has {rows:,} rows, more than {most:,}. Ask for larger groups or with a "
            "condition, or allow more with --max-rows."
        )


def interrupt_at_end(connection: duckdb.DuckDBPyConnection) -> None:
    """Interrupt whatever this database computes when the time is over, as long as it lives."""
    limits = _current.get()
    if limits.ends is None:
        return
    limits.check()
    alive = weakref.ref(connection)

    def interrupt() -> None:
        still = alive()
        if still is not None:
            with suppress(Exception):  # closed
                still.interrupt()

    timer = threading.Timer(limits.ends - time.monotonic(), interrupt)
    timer.daemon = True
    timer.start()
    weakref.finalize(connection, timer.cancel)


def limit_behind(error: BaseException) -> LimitReached | None:
    """The limit that an error of a database or of the system means, None where it means none."""
    name = type(error).__name__
    if isinstance(error, MemoryError) or "OutOfMemory" in name or name == "ArrowMemoryError":
        return LimitReached(too_much())
    return None
