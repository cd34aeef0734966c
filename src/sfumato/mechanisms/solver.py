"""The solver of mixed-integer programs, kept from talking where answers are written.

HiGHS prints a line of its own now and then, by C and to the process's standard output, which may be
somebody's JSON.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

_one_at_a_time = Lock()  # two that overlap would leave standard output closed


def mixed_integer(objective: Any, **program: Any) -> Any:
    """`scipy.optimize.milp`; what it prints is dropped."""
    from scipy.optimize import milp

    with _one_at_a_time, _unheard():
        return milp(objective, **program)


@contextmanager
def _unheard() -> Iterator[None]:
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # a process without standard output has nothing to keep clean
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # C holds its lines back when nobody watches
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
