"""Signals that end the program: everything is taken away first, and one line says so.

TERM and HUP become an exception, as INT is one already, so that every folder goes the way it goes
after an error. So does an alarm when a limit is reached. A long computation outside Python notices
an exception only when it is over; a watcher gives it a moment, then removes the folders itself and
ends the process.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from sfumato.errors import LimitReached
from sfumato.limits import too_long, too_much

GRACE = 5.0  # seconds until the watcher ends the process
LOOK = 0.1  # seconds between two looks at the limits
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
_reason = ""  # why there was an alarm
_received: int | None = None  # the signal that ends the program, once there is one


class Stopped(BaseException):
    """A signal ended the program."""


def message(number: int) -> str:
    if number == signal.SIGALRM:
        return f"{_reason} Nothing was left behind."
    return f"Stopped by {signal.Signals(number).name}. Nothing was left behind."


def exit_code(number: int) -> int:
    return LimitReached.exit_code if number == signal.SIGALRM else 128 + number


def received() -> int | None:
    """The signal that ends the program, if one does."""
    return _received


@contextmanager
def held_to(seconds: float, memory: int) -> Iterator[None]:
    """End the program after so many seconds, 0 for never, or when it takes so many bytes.

    Looked at from beside, because a process that the system refuses memory may crash, and then it
    cannot tidy up. Nothing to do outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    over = threading.Event()
    threading.Thread(target=_guard, args=(seconds, memory, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _guard(seconds: float, memory: int, over: threading.Event) -> None:
    global _reason
    ends = time.monotonic() + seconds if seconds else math.inf
    while not over.wait(LOOK):
        if time.monotonic() >= ends:
            _reason = too_long(seconds)
        elif _own_memory() > memory:
            _reason = too_much()
        if _reason and not over.is_set():
            os.kill(os.getpid(), signal.SIGALRM)
            return


def _own_memory() -> int:
    """Bytes that this process holds in memory, without the files that it looks at."""
    try:
        words = Path("/proc/self/statm").read_text().split()
    except OSError:  # not Linux: the database's own limit holds
        return 0
    return (int(words[1]) - int(words[2])) * os.sysconf("SC_PAGE_SIZE")


def watch() -> None:
    """From now on signals end the program tidily; nothing to do outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        # a signal that is ignored, as under nohup, stays so
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_watcher, args=(read,), daemon=True).start()


def leave() -> None:
    """Leave signals to somebody else, such as a server with handlers of its own."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in _SIGNALS[1:]:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def _stop(number: int, frame: FrameType | None) -> None:
    global _received
    _received = number
    for each in _SIGNALS:  # once is enough: a second signal must not interrupt the tidying
        signal.signal(each, signal.SIG_IGN)
    raise Stopped


def _watcher(read: int) -> None:
    """Ends the process if nothing else does."""
    while True:
        seen = [number for number in os.read(read, 64) if number in _SIGNALS]
        if seen:
            break
    threading.Event().wait(GRACE)
    from sfumato.release.bundle import remove_unfinished
    from sfumato.scratch import remove_all

    remove_unfinished()
    remove_all()
    sys.stderr.write(f"sfumato: {message(seen[0])}\n")
    os._exit(exit_code(seen[0]))
