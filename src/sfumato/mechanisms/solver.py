"""The solver of mixed-integer programs, in a process of its own.

HiGHS prints a line of its own now and then, by C and to the process's standard output, which may be
somebody's JSON or a server's log. So a child solves, whose standard output nobody reads. It stays
for further programs and ends with whoever started it.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
from threading import Lock
from typing import IO, Any

_one_at_a_time = Lock()
_children: list[subprocess.Popen[bytes]] = []  # the one that is alive, if any


def mixed_integer(objective: Any, **program: Any) -> Any:
    """`scipy.optimize.milp`; what it prints is dropped."""
    with _one_at_a_time:
        for _ in range(2):
            try:
                return _asked(_child(), (objective, program))
            except (EOFError, BrokenPipeError):  # somebody ended it
                end()
            except BaseException:  # an answer that nobody waited for would be taken for the next
                end()
                raise
    raise MemoryError("the process that solves integer programs ended before it had an answer")


def _child() -> subprocess.Popen[bytes]:
    if not _children:
        command = [sys.executable, "-P", __file__]
        _children.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    return _children[0]


def _asked(child: subprocess.Popen[bytes], asked: Any) -> Any:
    assert child.stdin is not None
    assert child.stdout is not None
    pickle.dump(asked, child.stdin)
    child.stdin.flush()
    return pickle.load(child.stdout)


@atexit.register
def end() -> None:
    """No child is left."""
    while _children:
        child = _children.pop()
        child.kill()
        child.communicate()


def serve(asked: IO[bytes], answers: IO[bytes]) -> None:
    """Solve what is asked until nothing more comes."""
    from scipy.optimize import milp

    while True:
        try:
            objective, program = pickle.load(asked)
        except EOFError:
            return
        pickle.dump(milp(objective, **program), answers)
        answers.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever is interrupted ends this one
    heard = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    serve(sys.stdin.buffer, heard)
