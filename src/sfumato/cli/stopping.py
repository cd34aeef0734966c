"""Signals that end the program: everything is taken away first, and one line says so.

TERM and HUP become an exception, as INT is one already, so that every folder goes the way it goes
after an error. A long computation outside Python notices an exception only when it is over; a
watcher gives it a moment, then removes the folders itself and ends the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

GRACE = 5.0  # seconds until the watcher ends the process
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal ended the program."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def message(number: int) -> str:
    return f"Stopped by {signal.Signals(number).name}. Nothing was left behind."


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
    for each in _SIGNALS:  # once is enough: a second signal must not interrupt the tidying
        signal.signal(each, signal.SIG_IGN)
    raise Stopped(number)


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
    os._exit(128 + seen[0])
